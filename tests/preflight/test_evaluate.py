"""Requirements evaluated on machines: met, violated or unknown, with the missing fact."""

from __future__ import annotations

import pytest

from gpuenv.model.finding import RequirementStatus
from gpuenv.model.reading import known, missing
from gpuenv.model.snapshot import Gpu, GpuHealth, MigInstance, NvLink, PeerAccess, Snapshot, Source, SourceState
from gpuenv.preflight.requirements import KEYS
from tests.cli.snapshots import FIT as A100
from tests.cli.snapshots import WITHOUT_GPU, replace_facts
from tests.preflight.machines import FIT, evaluate_text, machine

GIB = 2**30
MET, VIOLATED, UNKNOWN = RequirementStatus.MET, RequirementStatus.VIOLATED, RequirementStatus.UNKNOWN


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("gpu>=1", MET), ("gpu==2", MET), ("gpu==8", VIOLATED), ("gpu==0", VIOLATED), ("gpu>2", VIOLATED),
        ("gpu>=1,<4", MET), ("gpu>=1,!=2", VIOLATED),
        ("cc>=8.0", MET), ("cc>=sm_90", MET), ("cc==90", MET), ("cc>9", VIOLATED), ("cc<10", MET), ("cc>=12", VIOLATED),
        ("memory>=40GiB", MET), ("memory>=80G", MET), ("memory>80GB", MET), ("memory>80GiB", VIOLATED),
        ("total-memory>=160GiB", MET), ("total-memory>160GiB", VIOLATED), ("free-memory>=80GiB", MET),
        ("driver>=550", MET), ("driver==580", MET), ("driver<=580", MET), ("driver>580", VIOLATED),
        ("driver>=580.95.05", MET), ("driver>580.95.05", VIOLATED), ("driver<580", VIOLATED), ("driver!=580", VIOLATED),
        ("driver-cuda>=12.4", MET), ("driver-cuda==13.0", MET), ("driver-cuda>=cu131", VIOLATED),
        ("cupy>=14,<15", MET), ("cupy==14.*", MET), ("cupy~=14.1", MET), ("cupy<14", VIOLATED), ("cupy!=none", MET),
        ("cupy==none", VIOLATED), ("line==cupy-cuda13x", MET), ("line==cupy-cuda12x|cupy-cuda13x", MET),
        ("line==cupy-cuda12x", VIOLATED), ("line!=cupy-cuda12x", MET),
        ("line==cupy-cuda112|cupy-rocm-5-0", VIOLATED),
        ("name~=H100|H200", MET), ("name~=h100", MET), ("name~=A100", VIOLATED), ("name!=NVIDIA A100", MET),
        ("python==3.12", MET), ("python>=3.11,<3.14", MET), ("python>3.12", VIOLATED), ("python==3.12.5", VIOLATED),
        ("python!=3.14t", MET), ("python==3.12t", VIOLATED), ("numpy>=2", MET), ("numpy==none", VIOLATED),
        ("os==macOS|Linux", MET), ("arch==amd64", MET), ("arch==arm64", VIOLATED),
        ("os==linux", MET), ("os!=windows", MET), ("arch==x86_64|aarch64", MET), ("arch==aarch64", VIOLATED),
        ("libc>=glibc-2.28", MET), ("libc>=glibc-2.40", VIOLATED), ("libc>=musl-1.1", VIOLATED),
        ("libc!=musl-1.2", MET), ("libc!=glibc-2.28", MET), ("libc!=glibc-2.36", VIOLATED),
        ("container==no", MET), ("container", VIOLATED),
        ("nvlink", UNKNOWN), ("p2p", UNKNOWN), ("mig==off", UNKNOWN), ("ecc==on", UNKNOWN),
        ("no-other-processes", UNKNOWN), ("toolkit>=12.4", UNKNOWN),
    ],
)  # fmt: skip
def test_requirements_are_evaluated_on_two_h100(text: str, status: RequirementStatus) -> None:
    result = evaluate_text(text, machine(*FIT))
    assert result.status is status, result
    assert (result.missing is not None) == (status is UNKNOWN)
    assert result.found
    assert result.evidence


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_every_requirement_is_unknown_on_an_unprobed_machine(key: object) -> None:
    example = KEYS[getattr(key, "name", "")].example
    result = evaluate_text(example, Snapshot())
    assert result.status is UNKNOWN
    assert result.missing


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_requirements_on_gpus_are_violated_without_one(key: object) -> None:
    known_key = KEYS[getattr(key, "name", "")]
    result = evaluate_text(known_key.example, WITHOUT_GPU)
    others = ("os", "arch", "libc", "container", "toolkit", "python", "cupy", "line", "numpy")
    expected = {"container": VIOLATED, "toolkit": VIOLATED, "container==no": MET}
    if known_key.name not in others:
        assert result.status is VIOLATED
    elif known_key.name == "container":
        assert result.status is expected["container==no"]
    elif known_key.name == "toolkit":
        assert result.status is expected["toolkit"]
    else:
        assert result.status is MET, result


def test_gpu_0_is_met_without_a_gpu() -> None:
    assert evaluate_text("gpu==0", WITHOUT_GPU).status is MET
    assert evaluate_text("gpu==0", machine("gpu=none")).status is MET
    assert evaluate_text("gpu==0", Snapshot()).status is UNKNOWN


@pytest.mark.parametrize(("code", "status"), [(100, VIOLATED), (803, VIOLATED), (999, VIOLATED)])
def test_a_cuda_that_cannot_initialise_shows_no_gpu(code: int, status: RequirementStatus) -> None:
    driver = A100.driver._replace(cuda_init=known(code, "libcuda"))
    result = evaluate_text("gpu>=1", replace_facts(A100, visible_count=missing("CUDA_ERROR"), driver=driver))
    assert (result.status, result.found) == (status, "0")
    assert result.evidence[0].source == f"cuInit returned {code}"


def test_a_hanging_libcuda_leaves_the_number_of_gpus_unknown() -> None:
    sources = tuple(s._replace(state=SourceState.TIMED_OUT) if s.name == "libcuda" else s for s in A100.sources)
    driver = A100.driver._replace(cuda_init=missing("no answer in time"))
    result = evaluate_text(
        "gpu==0", replace_facts(A100, visible_count=missing("no answer in time"), driver=driver, sources=sources)
    )
    assert (result.status, result.missing) == (UNKNOWN, "visible_count (no answer in time)")


def with_gpus(*gpus: Gpu) -> Snapshot:
    return replace_facts(A100, gpus=gpus, visible_count=known(len(gpus), "libcuda"))


def gpu(number: int, **fields: object) -> Gpu:
    base = A100.gpus[0]._replace(index=known(number, "nvml"), ordinal=known(number, "libcuda"))
    return base._replace(**fields)  # type: ignore[arg-type]


def test_every_gpu_must_meet_a_requirement() -> None:
    result = evaluate_text("memory>=60GiB", with_gpus(gpu(0), gpu(1, memory_total=known(24 * GIB, "nvml"))))
    assert (result.status, result.found) == (VIOLATED, "GPU 1: 24.0 GiB")
    assert [entry.fact for entry in result.evidence] == ["gpus[1].memory_total"]


def test_a_violation_outranks_an_unknown_value() -> None:
    both = with_gpus(gpu(0, memory_total=known(24 * GIB, "nvml")), gpu(1, memory_total=missing("NVML refused")))
    assert evaluate_text("memory>=60GiB", both).status is VIOLATED
    result = evaluate_text("memory>=20GiB", both)
    assert (result.status, result.missing) == (UNKNOWN, "gpus[1].memory_total (NVML refused)")
    assert evaluate_text("total-memory>=20GiB", both).status is UNKNOWN


def test_a_gpu_that_is_hidden_from_this_process_does_not_count() -> None:
    hidden = gpu(1, ordinal=missing("hidden"), memory_total=known(GIB, "nvml"))
    assert evaluate_text("memory>=60GiB", with_gpus(gpu(0), hidden)).status is MET


def test_the_memory_of_a_gpu_with_mig_is_that_of_an_instance() -> None:
    instances = tuple(MigInstance(f"MIG-{number}", "1g.10gb", 10 * GIB) for number in range(2))
    split = with_gpus(gpu(0, mig=known(value=True, source="nvml"), mig_instances=instances))
    result = evaluate_text("memory>=40GiB", split)
    assert (result.status, result.found) == (
        VIOLATED,
        "GPU 0, MIG instance 0 and GPU 0, MIG instance 1: 10.0 GiB",
    )
    assert evaluate_text("memory>=8GiB", split).status is MET
    assert evaluate_text("total-memory>=20GiB", split).status is MET
    assert evaluate_text("mig==off", split).status is VIOLATED
    assert evaluate_text("mig", split).status is MET


def test_the_memory_of_a_gpu_with_mig_but_no_instance_is_unknown() -> None:
    without = with_gpus(gpu(0, mig=known(value=True, source="nvml"), mig_instances=()), gpu(1))
    for text in ("memory>=1GiB", "total-memory>=1GiB"):
        result = evaluate_text(text, without)
        assert (result.status, result.found) == (UNKNOWN, "GPU 0: unknown")
        assert result.missing == "gpus[0].mig_instances (MIG is on, and no instance is listed)"


@pytest.mark.parametrize(
    ("small_gpus", "found"),
    [
        ((0, 1, 2, 3), "GPU 0 to GPU 3: 24.0 GiB"),
        ((1, 2, 3), "GPU 1 to GPU 3: 24.0 GiB"),
        ((0, 1, 3), "GPU 0, GPU 1 and GPU 3: 24.0 GiB"),
        ((0, 3), "GPU 0 and GPU 3: 24.0 GiB"),
    ],
)
def test_a_range_of_gpus_has_no_gaps(small_gpus: tuple[int, ...], found: str) -> None:
    gpus = [gpu(n, memory_total=known(24 * GIB, "nvml")) if n in small_gpus else gpu(n) for n in range(4)]
    assert evaluate_text("memory>=60GiB", with_gpus(*gpus)).found == found


def test_a_gpu_without_a_mig_mode_meets_mig_off() -> None:
    assert (
        evaluate_text("mig==off", with_gpus(gpu(0, mig=missing("the GPU or its driver has no MIG mode")))).status is MET
    )


@pytest.mark.parametrize(
    ("text", "fields", "status"),
    [
        ("ecc==on", {"health": GpuHealth(ecc=known(value=True, source="nvml"))}, MET),
        ("ecc==on", {"health": GpuHealth(ecc=known(value=False, source="nvml"))}, VIOLATED),
        ("ecc==off", {"health": GpuHealth(ecc=known(value=False, source="nvml"))}, MET),
        ("no-other-processes", {"processes": known(0, "nvml")}, MET),
        ("no-other-processes", {"processes": known(3, "nvml")}, VIOLATED),
        ("nvlink", {"nvlinks": (NvLink(0, active=False), NvLink(1, active=True))}, MET),
        ("nvlink", {"nvlinks": (NvLink(0, active=False),)}, VIOLATED),
        ("nvlink==off", {"nvlinks": (NvLink(0, active=False),)}, MET),
        ("nvlink", {"nvlink_count": known(0, "nvml")}, VIOLATED),
        ("nvlink==off", {"nvlink_count": known(0, "nvml")}, MET),
        ("nvlink", {"nvlink_count": missing("nvmlDeviceGetNvLinkState returned code 999")}, UNKNOWN),
    ],
)
def test_switches_are_evaluated(text: str, fields: dict[str, object], status: RequirementStatus) -> None:
    assert evaluate_text(text, with_gpus(gpu(0, **fields))).status is status


@pytest.mark.parametrize(
    ("reads", "status"),
    [(("ok", "ok"), MET), (("ok", "not-supported"), VIOLATED), ((None, "ok"), UNKNOWN), ((None, "no"), VIOLATED)]
    + [(("unknown", "ok"), UNKNOWN)],
)
def test_peer_access_is_evaluated(reads: tuple[str | None, str | None], status: RequirementStatus) -> None:
    pair = with_gpus(*(gpu(number, peers=(PeerAccess(1 - number, "node", read),)) for number, read in enumerate(reads)))
    assert evaluate_text("p2p", pair).status is status
    assert evaluate_text("p2p", with_gpus(gpu(0))).status is VIOLATED


def test_a_missing_cupy_is_known_if_the_target_was_probed() -> None:
    without_cupy = replace_facts(A100, target=A100.target._replace(cupy=()))
    assert evaluate_text("cupy>=14", without_cupy).found == "not installed"
    assert evaluate_text("cupy>=14", without_cupy).status is VIOLATED
    assert evaluate_text("cupy==none", without_cupy).status is MET
    assert evaluate_text("line==cupy-cuda12x", without_cupy).status is VIOLATED
    broken = replace_facts(without_cupy, sources=(Source("target", SourceState.FAILED, "exit code 1"),))
    assert evaluate_text("cupy==none", broken).missing == "target.cupy (exit code 1)"


def test_a_toolkit_is_compared_by_its_version() -> None:
    assert evaluate_text("toolkit>=12.4", machine("toolkit=12.6")).status is MET
    assert evaluate_text("toolkit>=12.8", machine("toolkit=12.6")).status is VIOLATED


@pytest.mark.parametrize(
    ("text", "by_absence"),
    [
        ("gpu>=8", True), ("gpu==8", True), ("gpu>2", True), ("gpu==1", False), ("gpu<2", False), ("gpu>=1,<2", False),
        ("total-memory>=1TiB", True), ("total-memory<1GiB", False), ("memory>=1TiB", False), ("cc>=12", False),
        ("driver>580", False), ("cupy<14", False), ("line==cupy-cuda12x", False),
    ],
)  # fmt: skip
def test_only_too_few_gpus_may_be_due_to_absence(text: str, by_absence: object) -> None:
    result = evaluate_text(text, machine(*FIT))
    assert (result.status, result.by_absence) == (VIOLATED, by_absence)


def test_every_requirement_on_gpus_is_due_to_absence_without_a_gpu() -> None:
    assert [evaluate_text(text, WITHOUT_GPU).by_absence for text in ("gpu>=1", "cc>=8", "memory>=1GiB")] == [
        True,
        True,
        True,
    ]
