"""Hits, words and facts of the machine become ranked causes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.cli.explanation import explain_text
from gpuenv.cli.sources import MachineSource
from gpuenv.data import data_path
from gpuenv.explain.classifier import NOTHING, Classification
from gpuenv.explain.explainer import explanation, verdict_of
from gpuenv.explain.explanation_types import LikelyCause
from gpuenv.explain.match import scan
from gpuenv.explain.score import NO_MACHINE, DoctorVerdict, guess, rank
from gpuenv.matrix.load import load
from gpuenv.matrix.resolve import resolve
from gpuenv.model.causes import Cause
from gpuenv.model.finding import CheckRun, CheckStatus, Finding, Fix, Severity
from gpuenv.model.snapshot import Snapshot, Source, SourceState
from gpuenv.paste.error_text import scan_text
from tests.eval.near_misses import OPPOSITES


def causes(text: str, *facts: str) -> tuple[LikelyCause, ...]:
    subject = MachineSource(None, None, facts, no_probe=True, timeout=30, driver_root="/")
    return explain_text(scan_text([text.encode()]), subject, None).causes


def first(text: str, *facts: str) -> Cause:
    return causes(text, *facts)[0].cause


def _finding(cause: Cause, *fix: Fix) -> Finding:
    return Finding("DRV106", cause, Severity.ERROR, True, None, "No NVIDIA driver is installed", (), fix, "")


NO_DRIVER = Cause.NO_DRIVER
NO_DEVICE = "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
INVALID_ARCH = "nvrtc: error: invalid value for --gpu-architecture (-arch)"


@pytest.mark.parametrize(
    ("text", "facts", "cause"),
    [
        (NO_DEVICE, ["gpu=none"], Cause.NO_NVIDIA_GPU),
        (NO_DEVICE, ["driver=none"], Cause.NO_DRIVER),
        ("cudaErrorInsufficientDriver", ["driver=none"], Cause.NO_DRIVER),
        (INVALID_ARCH, ["gpu=V100", "cupy=cupy-cuda13x==14.2.0"], Cause.GPU_REMOVED_FROM_TOOLKIT),
        ("No matching distribution found for cupy-cuda12x", ["libc=musl-1.2"], Cause.PLATFORM_WHEEL_MISSING),
        ("No devices were found", ["gpu=RTX 5090", "driver=535.104.05"], Cause.GPU_TOO_NEW_FOR_DRIVER),
    ],
)
def test_what_the_doctor_finds_by_a_fact_decides_between_causes(text: str, facts: list[str], cause: Cause) -> None:
    assert first(text) is not cause
    assert first(text, *facts) is cause


def test_an_error_outranks_a_warning() -> None:
    warning = "UserWarning: CUDA path could not be detected. Set CUDA_PATH environment variable if CuPy fails to load."
    late = "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,000 bytes (allocated so far: 2,000 bytes)."
    assert first(f"TF-TRT Warning: Could not find TensorRT\n{late}") is Cause.OUT_OF_MEMORY
    assert first(warning) is Cause.CUDA_PATH_WRONG


def test_a_consequence_ranks_after_its_cause() -> None:
    text = "CUBLAS_STATUS_NOT_INITIALIZED\nCUDA_ERROR_OUT_OF_MEMORY: out of memory"
    result = [entry.cause for entry in causes(text)]
    assert result[:2] == [Cause.OUT_OF_MEMORY, Cause.LIBRARY_NOT_INITIALIZED]


def test_the_doctors_verdict_raises_and_lowers_causes() -> None:
    scanner = scan(NO_DEVICE.encode())
    before = {entry.cause: entry.confidence for entry in explanation(scanner).causes}
    verdict = DoctorVerdict(
        {NO_DRIVER: _finding(NO_DRIVER)},
        frozenset({Cause.VISIBLE_DEVICES_HIDE_GPU}),
    )
    result = explanation(scanner, verdict).causes
    assert result[0].cause is Cause.NO_DRIVER
    assert result[0].code == "DRV106"
    assert result[0].supported_by == ("DRV106: No NVIDIA driver is installed",)
    after = {entry.cause: entry.confidence for entry in result}
    assert after.get(Cause.VISIBLE_DEVICES_HIDE_GPU, 0.0) < before[Cause.VISIBLE_DEVICES_HIDE_GPU]


def test_the_fixes_of_a_finding_replace_those_of_the_cause() -> None:
    """They know the machine; without a finding, or where it has none, those of the cause stay."""
    own = Fix("Load the module.")
    alone, found, without = (
        next(entry.fix for entry in explanation(scan(NO_DEVICE.encode()), verdict).causes if entry.cause is NO_DRIVER)
        for verdict in (
            NO_MACHINE,
            DoctorVerdict({NO_DRIVER: _finding(NO_DRIVER, own)}),
            DoctorVerdict({NO_DRIVER: _finding(NO_DRIVER)}),
        )
    )
    assert found == (own,)
    assert without == alone != ()


def test_only_a_probed_machine_rules_a_cause_out() -> None:
    from gpuenv.doctor.diagnose import Diagnosis  # noqa: PLC0415 - of use here alone

    run = CheckRun("DRV104", CheckStatus.CLEAN, None, 0.0)
    diagnosis = Diagnosis((), (run,), resolve(Snapshot(), load(data_path("matrix.yaml"))))
    assert verdict_of(diagnosis, Snapshot()).ruled_out == frozenset()
    probed = Snapshot(sources=(Source("kernel", SourceState.ANSWERED),))
    assert verdict_of(diagnosis, probed).ruled_out == {Cause.NOUVEAU_LOADED}


def test_the_machine_alone_adds_no_cause() -> None:
    assert causes("nothing to see", "driver=none") == ()


def test_the_code_is_that_of_the_check_for_the_cause() -> None:
    assert causes("NVRM: API mismatch: the client has the version 1")[0].code == "DRV107"
    assert causes("Out of memory allocating 8 bytes (allocated so far: 9 bytes).")[0].code == "cupy.memory"


@pytest.mark.parametrize(
    "text",
    OPPOSITES,
)
def test_a_sentence_with_the_opposite_meaning_yields_no_cause(text: str) -> None:
    assert causes(text) == ()


def test_the_words_decide_between_causes_of_an_ambiguous_message() -> None:
    hits = scan(NO_DEVICE.encode()).hits
    words = Classification({Cause.CONTAINER_WITHOUT_GPU: 0.9, Cause.STREAM_RACE: 0.05}, True, {})
    assert rank(hits)[0].cause is Cause.VISIBLE_DEVICES_HIDE_GPU
    ranked = rank(hits, words)
    assert ranked[0].cause is Cause.CONTAINER_WITHOUT_GPU
    assert ranked[0].confidence < 0.8


def test_the_words_do_not_change_the_cause_of_a_certain_message() -> None:
    hits = scan(b"Failed to initialize NVML: Driver/library version mismatch").hits
    words = Classification({Cause.CONTAINER_WITHOUT_GPU: 0.99}, True, {})
    assert rank(hits, words)[0].cause is rank(hits)[0].cause is Cause.DRIVER_LIBRARY_VERSION_MISMATCH


def test_a_finding_outranks_the_words() -> None:
    hits = scan(NO_DEVICE.encode()).hits
    words = Classification({Cause.CONTAINER_WITHOUT_GPU: 0.6, Cause.NO_DRIVER: 0.2}, True, {})
    found = DoctorVerdict({NO_DRIVER: _finding(NO_DRIVER)})
    assert rank(hits, words, found)[0].cause is Cause.NO_DRIVER


def test_without_a_message_there_is_no_cause_and_a_finding_leads_the_guess() -> None:
    clear = Classification({Cause.NO_NVIDIA_GPU: 0.5, NO_DRIVER: 0.4}, True, {})
    found = DoctorVerdict({NO_DRIVER: _finding(NO_DRIVER)}, has_machine=True)
    assert rank((), clear, found) == ()
    assert [entry.cause for entry in guess(clear)] == [Cause.NO_NVIDIA_GPU, NO_DRIVER]
    assert [entry.cause for entry in guess(clear, found)] == [NO_DRIVER, Cause.NO_NVIDIA_GPU]
    assert guess(clear, replace(found, has_machine=False))[0].cause is Cause.NO_NVIDIA_GPU, "a few stated facts"
    assert guess(replace(clear, is_clear=False), found) == ()


def test_a_finding_of_the_machine_leads_unless_the_text_refutes_it() -> None:
    found = DoctorVerdict({Cause.NUMPY_INCOMPATIBLE: _finding(Cause.NUMPY_INCOMPATIBLE)}, has_machine=True)
    assert rank(scan(NO_DEVICE.encode()).hits, NOTHING, found)[0].cause is Cause.NUMPY_INCOMPATIBLE
    sure = scan(b"Failed to initialize NVML: Driver/library version mismatch").hits
    assert rank(sure, NOTHING, found)[0].cause is Cause.DRIVER_LIBRARY_VERSION_MISMATCH
    assert rank(scan(NO_DEVICE.encode()).hits, NOTHING, replace(found, has_machine=False))[0].cause is not (
        Cause.NUMPY_INCOMPATIBLE
    )
