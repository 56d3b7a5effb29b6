"""Hits, evidence and facts of the machine become ranked causes."""

from __future__ import annotations

import pytest

from gpuenv.cli.commands.explain import explain_text, scan_text
from gpuenv.cli.sources import MachineSource
from gpuenv.data import data_path
from gpuenv.explain.explainer import explanation, verdict_of
from gpuenv.explain.explanation_types import LikelyCause
from gpuenv.explain.scan import scan
from gpuenv.explain.scoring import DoctorFinding, DoctorVerdict, rank_causes
from gpuenv.matrix.load import load
from gpuenv.matrix.resolve import resolve
from gpuenv.model.causes import Cause
from gpuenv.model.finding import CheckRun, CheckStatus, Fix
from gpuenv.model.snapshot import Snapshot
from tests.eval.near_misses import OPPOSITES


def causes(text: str, *facts: str) -> tuple[LikelyCause, ...]:
    subject = MachineSource(None, None, facts, no_probe=True, timeout=30, driver_root="/")
    return explain_text(scan_text([text.encode()]), subject, None).causes


def first(text: str, *facts: str) -> Cause:
    return causes(text, *facts)[0].cause


NO_DEVICE = "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
INVALID_ARCH = "nvrtc: error: invalid value for --gpu-architecture (-arch)"
NO_CODE = "CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available for execution on the device"


@pytest.mark.parametrize(
    ("text", "facts", "cause"),
    [
        (NO_DEVICE, ["env.CUDA_VISIBLE_DEVICES=-1"], Cause.VISIBLE_DEVICES_HIDE_GPU),
        (NO_DEVICE, ["wsl=yes"], Cause.WSL_LIBCUDA),
        (NO_DEVICE, ["gpu=none"], Cause.NO_NVIDIA_GPU),
        (NO_DEVICE, ["driver=none"], Cause.NO_DRIVER),
        (NO_DEVICE, ["container=yes"], Cause.CONTAINER_WITHOUT_GPU),
        ("cudaErrorInsufficientDriver", ["driver=none"], Cause.NO_DRIVER),
        ("cudaErrorInsufficientDriver", ["driver=470.57.02", "toolkit=12.4"], Cause.DRIVER_TOO_OLD_FOR_CUDA),
        ("cudaErrorUnknown: unknown error", ["gpu=none"], Cause.NO_DRIVER),
        (INVALID_ARCH, ["gpu=V100", "toolkit=13.0"], Cause.GPU_REMOVED_FROM_TOOLKIT),
        (INVALID_ARCH, ["gpu=V100", "cupy=cupy-cuda13x==14.2.0"], Cause.GPU_REMOVED_FROM_TOOLKIT),
        (INVALID_ARCH, ["gpu=RTX 5090", "toolkit=12.4"], Cause.GPU_TOO_NEW_FOR_TOOLKIT),
        (INVALID_ARCH, ["gpu=V100", "toolkit=8.0"], Cause.GPU_TOO_NEW_FOR_TOOLKIT),
        (INVALID_ARCH, ["compute-capability=3.0", "toolkit=11.1"], Cause.GPU_REMOVED_FROM_TOOLKIT),
        (NO_CODE, ["gpu=RTX 5090", "toolkit=11.8"], Cause.GPU_TOO_NEW_FOR_TOOLKIT),
        (NO_CODE, ["gpu=GTX 1080", "toolkit=13.0"], Cause.GPU_REMOVED_FROM_TOOLKIT),
        ("all CUDA-capable devices are busy or unavailable", ["os=windows"], Cause.DRIVER_INSTALL_BROKEN),
        ("libcuda.so.1: cannot open shared object file", ["container=yes"], Cause.CONTAINER_WITHOUT_GPU),
        ("libcuda.so.1: cannot open shared object file", ["wsl=yes"], Cause.WSL_LIBCUDA),
        ("ImportError: libcublas.so.12: cannot open shared object file", ["toolkit=12.4"], Cause.CUDA_LIBRARY_MISSING),
        # Up to CUDA 10 the minor version is a part of the name: another one is another library.
        (
            "ImportError: libcudart.so.10.1: cannot open shared object file",
            ["toolkit=10.2"],
            Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
        ),
        (
            "ImportError: libcudart.so.10.1: cannot open shared object file",
            ["toolkit=10.1"],
            Cause.CUDA_LIBRARY_MISSING,
        ),
        (
            "ImportError: libcudart.so.11.0: cannot open shared object file",
            ["toolkit=11.8"],
            Cause.CUDA_LIBRARY_MISSING,
        ),
        (
            "ImportError: libcublas.so.12: cannot open shared object file",
            ["toolkit=13.0"],
            Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
        ),
        ("No matching distribution found for cupy-cuda12x", ["os=darwin"], Cause.PLATFORM_WHEEL_MISSING),
        ("No matching distribution found for cupy-cuda12x", ["libc=musl-1.2"], Cause.PLATFORM_WHEEL_MISSING),
        ("No matching distribution found for cupy-cuda12x", ["python=3.7"], Cause.PYTHON_UNSUPPORTED),
        ("No matching distribution found for cupy-cuda102", ["arch=aarch64"], Cause.JETSON_TEGRA),
        ("Failed to initialize NVML: Unknown Error", ["container=no"], Cause.GPU_HARDWARE_FAULT),
        ("No devices were found", ["gpu=RTX 5090", "driver=535.104.05"], Cause.GPU_TOO_NEW_FOR_DRIVER),
    ],
)
def test_a_fact_of_the_machine_decides_between_causes(text: str, facts: list[str], cause: Cause) -> None:
    assert first(text, *facts) is cause
    assert causes(text)[0].cause is not cause or causes(text)[0].confidence <= causes(text, *facts)[0].confidence + 0.01


def test_a_likelier_cause_makes_the_others_less_likely() -> None:
    unknown = {entry.cause: entry.confidence for entry in causes(INVALID_ARCH)}
    known = {entry.cause: entry.confidence for entry in causes(INVALID_ARCH, "gpu=RTX 5090", "toolkit=12.4")}
    assert unknown[Cause.GPU_REMOVED_FROM_TOOLKIT] > 0.3
    assert known[Cause.GPU_TOO_NEW_FOR_TOOLKIT] > 0.9
    assert known.get(Cause.GPU_REMOVED_FROM_TOOLKIT, 0.0) < 0.1


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "$ docker run --rm -it trainer:latest python fit.py\nRuntimeError: Found no NVIDIA driver on your system.",
            Cause.CONTAINER_WITHOUT_GPU,
        ),
        (
            "$ docker run --gpus all trainer python fit.py\nRuntimeError: Found no NVIDIA driver on your system.",
            Cause.NO_DRIVER,
        ),
        (
            "kernel reported version is: 470.57.2\ndlerror: libcuda.so.1: cannot open shared object file: No such file",
            Cause.DRIVER_INSTALL_BROKEN,
        ),
        (
            "nvidia-smi works\nnvidia-container-cli: load library failed: libcuda.so.1: cannot open shared object file",
            Cause.DRIVER_INSTALL_BROKEN,
        ),
        (
            "no-cgroups=true\n$ docker exec a nvidia-smi\nFailed to initialize NVML: Unknown Error",
            Cause.CONTAINER_TOOLKIT_BROKEN,
        ),
        (
            'docker exec job strace true\nopenat(-100, "/dev/nvidia0", O_RDWR) = -1 EPERM (Operation not permitted)',
            Cause.CONTAINER_CGROUP_LOST_GPU,
        ),
        (
            'openat(AT_FDCWD, "/dev/nvidia0", O_RDWR) = -1 EACCES (Permission denied)',
            Cause.DEVICE_NODE_PERMISSION,
        ),
        (
            'os.environ["CUDA_VISIBLE_DEVICES"] = gpu\ndevice >= 0 && device < num_gpus INTERNAL ASSERT FAILED',
            Cause.VISIBLE_DEVICES_SET_TOO_LATE,
        ),
    ],
)
def test_the_surrounding_text_decides_between_causes(text: str, cause: Cause) -> None:
    assert first(text) is cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "(GPU 0; 23.69 GiB total capacity; 9.00 MiB already allocated; 11.25 MiB free; 22.00 MiB reserved)",
            Cause.GPU_BUSY,
        ),
        (
            (
                ". GPU 0 has a total capacity of 79.15 GiB of which 512.00 KiB is free. Including non-PyTorch memory,"
                " this process has 3.10 GiB memory in use."
            ),
            Cause.GPU_BUSY,
        ),
        (
            "(GPU 0; 11.91 GiB total capacity; 10.10 GiB already allocated; 9.00 MiB free; 10.6 GiB reserved)",
            Cause.OUT_OF_MEMORY,
        ),
        (  # what older versions call cached is beside what is allocated
            "(GPU 1; 7.80 GiB total capacity; 6.90 GiB already allocated; 9.00 MiB free; 20.00 MiB cached)",
            Cause.OUT_OF_MEMORY,
        ),
        ("", Cause.OUT_OF_MEMORY),
    ],
)
def test_the_numbers_of_an_allocation_show_which_process_holds_the_memory(text: str, cause: Cause) -> None:
    separator = "" if text.startswith(".") else " "
    assert first(f"RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB{separator}{text}") is cause


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
        {Cause.NO_DRIVER: DoctorFinding("DRV106", "No NVIDIA driver is installed")},
        frozenset({Cause.VISIBLE_DEVICES_HIDE_GPU}),
    )
    result = explanation(scanner, frozenset(), verdict).causes
    assert result[0].cause is Cause.NO_DRIVER
    assert result[0].code == "DRV106"
    assert result[0].supported_by == ("DRV106: No NVIDIA driver is installed",)
    after = {entry.cause: entry.confidence for entry in result}
    assert after[Cause.VISIBLE_DEVICES_HIDE_GPU] < before[Cause.VISIBLE_DEVICES_HIDE_GPU]


def test_findings_replace_the_advice_to_run_the_doctor() -> None:
    """The fixes of the finding replace it; the other fixes of the cause stay, and all stay without a finding."""
    own, look = Fix("Load the module."), ("gpuenv", "doctor")
    for cause in (Cause.NO_DRIVER, Cause.CUDA_INITIALIZATION_FAILED):
        text = NO_DEVICE if cause is Cause.NO_DRIVER else "cuInit failed: CUDA_ERROR_OPERATING_SYSTEM"
        alone, found, untold = (
            next(
                entry.fix
                for entry in explanation(scan(text.encode()), frozenset(), verdict).causes
                if entry.cause is cause
            )
            for verdict in (
                None,
                DoctorVerdict({cause: DoctorFinding("X", "found", (own,))}),
                DoctorVerdict({cause: DoctorFinding("X", "found")}),
            )
        )
        assert look in [fix.command for fix in alone]
        assert found == (own, *(fix for fix in alone if fix.command != look))
        assert untold == alone


def test_only_a_probed_machine_rules_a_cause_out() -> None:
    from gpuenv.doctor.diagnose import Diagnosis  # noqa: PLC0415 - of use here alone

    run = CheckRun("DRV104", CheckStatus.CLEAN, None, 0.0)
    diagnosis = Diagnosis((), (run,), resolve(Snapshot(), load(data_path("matrix.yaml"))))
    assert verdict_of(diagnosis, probed=False).ruled_out == frozenset()
    assert verdict_of(diagnosis, probed=True).ruled_out == {Cause.NOUVEAU_LOADED}


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


def test_the_classifier_decides_between_causes_of_an_ambiguous_message() -> None:
    hits = scan(NO_DEVICE.encode()).hits
    likely = {Cause.CONTAINER_WITHOUT_GPU: 0.9, Cause.STREAM_RACE: 0.05}
    order = [entry.cause for entry in rank_causes(hits, frozenset())]
    assert order.index(Cause.CONTAINER_WITHOUT_GPU) > 0
    reweighted = rank_causes(hits, frozenset(), likely=likely, words_decide=True)
    assert reweighted[0].cause is Cause.CONTAINER_WITHOUT_GPU
    assert reweighted[0].confidence <= 0.6
    unreweighted = rank_causes(hits, frozenset(), likely=likely)
    assert [entry.cause for entry in unreweighted if entry.cause is not Cause.STREAM_RACE] == order
    found = DoctorVerdict({order[0]: DoctorFinding("DRV106", "found on the machine")})
    assert rank_causes(hits, frozenset(), found, likely, words_decide=True)[0].cause is order[0]


def test_the_classifier_does_not_change_a_certain_message() -> None:
    hits = scan(b"Failed to initialize NVML: Driver/library version mismatch").hits
    plain = rank_causes(hits, frozenset())
    reweighted = rank_causes(hits, frozenset(), likely={Cause.CONTAINER_WITHOUT_GPU: 0.99}, words_decide=True)
    assert reweighted[0] == plain[0]
