"""Properties of every check, and the runner of checks."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from gpuenv.doctor import diagnose as runner
from gpuenv.doctor.checks import all_checks
from gpuenv.doctor.diagnose import DiagnosisOptions
from gpuenv.doctor.registry import Check, CheckContext, NotKnown, Symptom
from gpuenv.matrix.assume import assume
from gpuenv.matrix.needs import needs_of
from gpuenv.matrix.resolve import resolve
from gpuenv.model.causes import Cause
from gpuenv.model.finding import CheckStatus
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import AmdGpu, Snapshot
from gpuenv.preflight.evaluate import evaluate
from gpuenv.preflight.requirements import parse_requirement
from tests.support.diagnosis import diagnosis_of
from tests.support.matrix import MATRIX

HOST = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12")
FAMILIES = {"DRV", "GPU", "CTR", "TEG", "ENV", "WHL", "LIB", "CCH", "REQ", "SMK"}


def test_every_check_explains_itself() -> None:
    def explains_itself(check: Check) -> bool:
        is_code = re.fullmatch(r"[A-Z]{3}\d{3}", check.code) and check.code[:3] in FAMILIES
        texts = check.sections.values()
        return bool(is_code and check.causes and check.title.endswith(".") and all(len(text) > 40 for text in texts))

    assert [check.code for check in all_checks() if not explains_itself(check)] == []


def test_every_cause_has_a_slug_and_a_sentence() -> None:
    for cause in Cause:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", cause.value)
        assert len(cause.sentence) > 15


def test_a_missing_driver_is_a_single_finding() -> None:
    facts = [*HOST, "driver=none", "cupy=cupy-cuda12x==14.2.0", "numpy=2.1.0"]
    diagnosis = diagnosis_of(assume(Snapshot(), facts, MATRIX))
    assert [finding.cause for finding in diagnosis.findings] == [Cause.NO_DRIVER]
    assert diagnosis.findings[0].primary
    skipped = {run.code: run.reason for run in diagnosis.checks if run.status is CheckStatus.SKIPPED}
    assert skipped["WHL504"] == "DRV106 comes first"


def test_exactly_one_finding_is_primary() -> None:
    diagnosis = diagnosis_of(assume(Snapshot(), ["driver=none", "cupy=none", "python=3.12"], MATRIX))
    assert [finding.primary for finding in diagnosis.findings] == [True, False]
    assert {finding.cause for finding in diagnosis.findings} == {Cause.NO_DRIVER, Cause.CUPY_NOT_INSTALLED}


def test_a_crashed_check_is_reported_and_the_others_run() -> None:
    def crash(ctx: CheckContext) -> Iterator[Symptom | NotKnown]:
        yield NotKnown(str(len(ctx.snapshot.schema) // 0))

    snapshot = Snapshot()
    ctx = CheckContext(snapshot, needs_of(snapshot, MATRIX), MATRIX, resolve(snapshot, MATRIX))
    check = Check("XXX999", Cause.NO_DRIVER)
    check.run = crash

    findings, run = runner._run(check, ctx)  # noqa: SLF001 - the runner of one check
    assert findings == []
    assert run.status is CheckStatus.CRASHED
    assert "ZeroDivisionError" in (run.reason or "")


def test_an_empty_snapshot_has_no_findings() -> None:
    diagnosis = diagnosis_of(Snapshot())
    assert diagnosis.findings == ()


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        (["driver=580.95.05", "gpu=RTX 5090", "cupy=cupy-cuda11x==13.6.0"], Cause.GPU_TOO_NEW_FOR_TOOLKIT),
        (["driver=580.95.05", "gpu=H100", "cupy=cupy-cuda12x==13.6.0", "python=3.14"], Cause.PYTHON_UNSUPPORTED),
        (["driver=580.95.05", "gpu=H100", "cupy=none", "python=3.6"], Cause.PYTHON_UNSUPPORTED),
        (["driver=418.87", "gpu=GTX 1080 Ti", "cupy=none"], Cause.DRIVER_TOO_OLD_FOR_CUDA),
        (["driver=580.95.05", "gpu=V100", "cupy=cupy-cuda13x==14.3.0"], Cause.GPU_REMOVED_FROM_TOOLKIT),
        (["driver=535.104.05", "gpu=H100", "cupy=cupy-cuda13x==15.0.0"], Cause.DRIVER_TOO_OLD_FOR_CUDA),
        (["driver=580.95.05", "gpu=V100", "cupy=cupy-rocm-5-0==13.3.0"], Cause.ROCM_MISMATCH),
        (["driver=580.95.05", "gpu=H100", "cupy=cupy-cuda13x==14.2.0", "libc=musl-1.2"], Cause.PLATFORM_WHEEL_MISSING),
        (["driver=580.95.05", "gpu=H100", "cupy=none", "arch=aarch64", "python=3.7"], Cause.PYTHON_UNSUPPORTED),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_assumptions_alone_determine_the_cause(facts: list[str], cause: Cause) -> None:
    diagnosis = diagnosis_of(assume(Snapshot(), [*HOST, "numpy=2.1.0", *facts], MATRIX))
    assert cause in {finding.cause for finding in diagnosis.findings}, diagnosis.findings
    assert all(finding.evidence and finding.fix for finding in diagnosis.findings)


def test_a_compatible_machine_has_no_findings() -> None:
    facts = [*HOST, "driver=580.95.05", "gpu=H100"]
    snapshot = assume(Snapshot(), [*facts, "cupy=cupy-cuda13x==14.2.0", "numpy=2.1.0"], MATRIX)
    assert diagnosis_of(snapshot).findings == ()
    assert diagnosis_of(snapshot._replace(toolkits=())).findings == ()


def test_an_independent_finding_follows_from_no_other_finding() -> None:
    """A failed requirement for a GPU follows from a missing driver, one for Python does not."""
    requirements = [parse_requirement(text) for text in ("gpu>=1", "python>=3.13")]
    snapshot = assume(Snapshot(), ["driver=none", "python=3.12", "cupy=cupy-cuda12x==14.2.0", "numpy=2.1.0"], MATRIX)
    options = DiagnosisOptions(evaluate(requirements, snapshot))
    findings = diagnosis_of(snapshot, options).findings
    result = {finding.title.split(" ")[0]: finding.follows_from for finding in findings if finding.code == "REQ801"}
    assert result == {"gpu>=1": "DRV106", "python>=3.13": None}


@pytest.mark.parametrize(
    ("text", "primary"),
    [("gpu>=2", "GPU203"), ("gpu==2", "GPU203"), ("gpu>=3", "REQ801"), ("gpu>=1", None), ("cc>=12", "REQ801")],
)
def test_a_lost_gpu_is_the_cause_if_the_requirement_needs_it(text: str, primary: str | None) -> None:
    facts = [*HOST, "driver=580.95.05", "gpu=H100", "gpu=H100"]
    snapshot = assume(Snapshot(), [*facts, "cupy=cupy-cuda13x==14.2.0", "numpy=2.1.0"], MATRIX)
    lost_gpu = snapshot.gpus[1]._replace(fault=known(15, "nvml"), hidden_by=known("it is lost", "nvml"))
    driver = snapshot.driver._replace(cuda_init=known(0, "cuInit"))
    snapshot = snapshot._replace(gpus=(snapshot.gpus[0], lost_gpu), driver=driver, visible_count=known(1, "libcuda"))
    snapshot = snapshot._replace(environment={"CUDA_VISIBLE_DEVICES": "0"})
    options = DiagnosisOptions(evaluate([parse_requirement(text)], snapshot))
    findings = diagnosis_of(snapshot, options).findings
    assert [finding.code for finding in findings if finding.primary] == ([primary] if primary else [])
    follows = {finding.code: finding.follows_from for finding in findings}
    assert follows.get("REQ801") == ("GPU203" if primary == "GPU203" else None)


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("GTX 1080 Ti", "driver >= 525.60.13, branch 580 or older, install cupy-cuda12x[ctk] 14.2.0"),
        ("Tesla K80", "driver >= 450.80.02, branch 470 or older, install cupy-cuda11x 13.6.0"),
        ("H100", "driver >= 580.65.06, install cupy-cuda13x[ctk] 14.2.0"),
    ],
)
def test_a_missing_cupy_names_the_driver_it_requires(gpu: str, expected: str) -> None:
    """The range of drivers ends at the last branch that supports the GPU."""
    facts = [*HOST, f"gpu={gpu}", "driver=none", "cupy=none"]
    diagnosis = diagnosis_of(assume(Snapshot(), facts, MATRIX))
    (missing,) = [finding for finding in diagnosis.findings if finding.cause is Cause.CUPY_NOT_INSTALLED]
    assert missing.fix[0].text == f"With {expected}: gpuenv install"


@pytest.mark.parametrize("field", ["amd_gpus", "pci_gpus"])
def test_a_missing_cupy_without_an_nvidia_gpu_requires_no_driver(field: str) -> None:
    facts = [*HOST, "driver=none", "cupy=none"]
    devices = (AmdGpu(1, "aqua_vanjaram", "gfx942"),) if field == "amd_gpus" else ()
    snapshot = assume(Snapshot(), facts, MATRIX)._replace(**{field: devices})  # type: ignore[arg-type]
    (missing,) = [f for f in diagnosis_of(snapshot).findings if f.cause is Cause.CUPY_NOT_INSTALLED]
    assert missing.fix
    assert not any("driver" in fix.text for fix in missing.fix)


def test_an_empty_bus_under_wsl_does_not_imply_an_absent_gpu() -> None:
    facts = [*HOST, "wsl=yes", "driver=none", "cupy=none"]
    snapshot = assume(Snapshot(), facts, MATRIX)._replace(pci_gpus=())
    (missing,) = [f for f in diagnosis_of(snapshot).findings if f.cause is Cause.CUPY_NOT_INSTALLED]
    assert missing.fix[0].text.startswith("With ")


@pytest.mark.parametrize(
    ("gpu", "cupy", "fits"),
    [
        ("H100", "cupy-cuda11x==13.6.0", True),
        ("RTX 4090", "cupy-cuda11x==13.6.0", True),
        ("A10", "cupy-cuda11x==12.0.0", True),
        ("A10", "cupy-cuda111==12.3.0", True),
        ("A10", "cupy-cuda110==12.3.0", True),  # CuPy compiles for 8.0 with CUDA 11.0, and 8.6 runs that
        ("H100", "cupy-cuda111==12.3.0", False),
        ("RTX 5090", "cupy-cuda11x==13.6.0", False),
    ],
)
def test_a_wheel_line_is_judged_by_its_own_cuda_minors(gpu: str, cupy: str, *, fits: bool) -> None:
    """A CUDA major may have several wheel lines."""
    facts = ["os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.11", "driver=580.95.05", "numpy=1.26.4"]
    diagnosis = diagnosis_of(assume(Snapshot(), [*facts, f"gpu={gpu}", f"cupy={cupy}"], MATRIX))
    causes = {finding.cause for finding in diagnosis.findings}
    assert causes == (set() if fits else {Cause.GPU_TOO_NEW_FOR_TOOLKIT})


@pytest.mark.parametrize(
    ("source", "expected"), [("nvidia-smi", True), ("nvml", True), ("/proc/driver/nvidia/gpus", False)]
)
def test_a_container_is_judged_by_its_own_gpus(source: str, *, expected: bool) -> None:
    """The kernel lists the GPUs of the host in every container, including those that it is not granted."""
    facts = [*HOST, "driver=580.95.05", "gpu=V100"]
    snapshot = assume(Snapshot(), [*facts, "container=yes", "cupy=cupy-cuda13x==14.2.0", "numpy=2.1.0"], MATRIX)
    snapshot = snapshot._replace(gpu_count=known(1, source), visible_count=Reading())
    causes = {finding.cause for finding in diagnosis_of(snapshot).findings}
    assert (Cause.GPU_REMOVED_FROM_TOOLKIT in causes) is expected
