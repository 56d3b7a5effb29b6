"""Resolutions of machines of every generation, with their rejections and sources."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.resolution import BY_CALLER, CandidateKind, ConstraintName
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.versions import CudaVersion
from tests.matrix.resolutions import choose_wheel, resolution_of


@dataclass(frozen=True)
class Answer:
    facts: tuple[str, ...]
    line: str
    version: str | None = None


ANSWERS = [
    Answer(("driver=535.104.05", "gpu=V100"), "cupy-cuda12x"),
    Answer(("driver=580.95.05", "gpu=V100"), "cupy-cuda12x"),
    Answer(("driver=580.95.05", "gpu=H100"), "cupy-cuda13x"),
    Answer(("driver=570.86.15", "gpu=RTX 5090"), "cupy-cuda12x"),
    Answer(("driver=525.60.13", "gpu=A100"), "cupy-cuda12x"),
    Answer(("driver=470.256.02", "gpu=K80"), "cupy-cuda11x", "13.6.0"),
    Answer(("driver=470.256.02", "gpu=K80", "python=3.8"), "cupy-cuda11x", "12.3.0"),
    Answer(("driver=470.256.02", "gpu=GTX 980"), "cupy-cuda11x"),
    Answer(("driver=450.80.02", "gpu=T4"), "cupy-cuda11x"),
    Answer(("driver=580.95.05", "gpu=V100", "gpu=H100"), "cupy-cuda12x"),
    Answer(("driver=580.95.05", "gpu=H100", "gpu=V100"), "cupy-cuda12x"),
    Answer(("driver=580.95.05", "gpu=H100", "python=3.9"), "cupy-cuda13x", "13.6.0"),
    Answer(("driver=580.95.05", "gpu=GB200", "arch=aarch64"), "cupy-cuda13x"),
    Answer(("driver=580.95.05", "gpu=H100", "numpy=1.26.4"), "cupy-cuda13x", "13.6.0"),
    Answer(("driver=580.95.05", "gpu=RTX 4090", "python=3.14t"), "cupy-cuda13x"),
    Answer(("driver-cuda=12.7", "gpu=H100"), "cupy-cuda12x"),
    Answer(("driver=560", "wsl=yes", "gpu=RTX 3060"), "cupy-cuda12x"),
    Answer(("driver=580", "os=windows", "gpu=RTX 4090"), "cupy-cuda13x"),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: " ".join(answer.facts))
def test_each_machine_gets_its_wheel_line(answer: Answer, matrix: Matrix) -> None:
    resolution = resolution_of(matrix, *answer.facts)
    assert resolution.wheel is not None, resolution.explanation
    assert resolution.wheel.distribution == answer.line
    if answer.version is not None:
        assert resolution.wheel.version == answer.version
    pinned = resolution.wheel.requirements[0]
    extra = f"[{resolution.wheel.extra}]" if resolution.wheel.extra else ""
    assert pinned == f"{resolution.wheel.distribution}{extra}=={resolution.wheel.version}"
    assert resolution.rejected
    assert all(entry.source and entry.needed and entry.found for entry in resolution.rejected)


@pytest.mark.parametrize(
    ("facts", "constraint"),
    [
        (("driver=418.87", "gpu=GTX 1080 Ti"), ConstraintName.DRIVER_MINIMUM),
        (("driver=580.95.05", "gpu=H100", "python=3.6"), ConstraintName.PYTHON),
        (("driver=580.95.05", "gpu=H100", "libc=musl-1.2"), ConstraintName.LIBC),
        (("driver=580.95.05", "gpu=H100", "os=darwin", "arch=arm64"), ConstraintName.PLATFORM),
        (("driver=none",), ConstraintName.DRIVER_MINIMUM),
        (("driver=580.95.05", "gpu=K80"), ConstraintName.DRIVER_SUPPORTS_GPU),
        (("driver=591.44", "os=windows", "gpu=GTX 1080 Ti"), ConstraintName.DRIVER_SUPPORTS_GPU),
        (("driver=450.80.02", "gpu=RTX 3090"), ConstraintName.DRIVER_SUPPORTS_GPU),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_every_wheel_is_rejected_for_the_same_constraint(
    facts: tuple[str, ...], constraint: ConstraintName, matrix: Matrix
) -> None:
    resolution = resolution_of(matrix, *facts)
    assert resolution.wheel is None
    by_candidate: dict[object, set[ConstraintName]] = {}
    for entry in resolution.rejected:
        if entry.candidate.kind is not CandidateKind.WHEEL:
            continue
        by_candidate.setdefault(entry.candidate, set()).add(entry.constraint)
    assert all(constraint in names or ConstraintName.NOT_YANKED in names for names in by_candidate.values())


def test_the_next_better_choice_is_the_smallest_change(matrix: Matrix) -> None:
    better = resolution_of(matrix, "driver=418.87", "gpu=GTX 1080 Ti").next_better
    assert better is not None
    assert better.candidate.name == "cupy-cuda11x"
    assert [(change.fact, change.needed) for change in better.changes] == [
        ("driver.version", ">= 450.80.02, branch 580 or older")
    ]


def test_the_next_better_line_needs_a_newer_driver(matrix: Matrix) -> None:
    better = resolution_of(matrix, "driver=535.104.05", "gpu=H100").next_better
    assert better is not None
    assert better.candidate.name == "cupy-cuda13x"
    assert [change.needed for change in better.changes] == [">= 580.65.06"]


def test_no_driver_enables_cuda_13_on_a_volta_gpu(matrix: Matrix) -> None:
    assert resolution_of(matrix, "driver=580.95.05", "gpu=V100").next_better is None


def test_blackwell_pins_the_toolkit_to_the_minors_that_support_it(matrix: Matrix) -> None:
    wheel = resolution_of(matrix, "driver=570.86.15", "gpu=RTX 5090").wheel
    assert wheel is not None
    assert wheel.nvrtc is not None
    assert wheel.nvrtc.lowest == CudaVersion(12, 8)
    assert "cuda-toolkit>=12.8,<13" in wheel.requirements


def test_b300_requires_nvrtc_12_9(matrix: Matrix) -> None:
    """Trap: CuPy requests sm_103, which NVRTC 12.8 does not support, although it supports 10.0 and 12.0."""
    wheel = resolution_of(matrix, "driver=575.57.08", "gpu=B300").wheel
    assert wheel is not None
    assert wheel.nvrtc is not None
    assert wheel.nvrtc.lowest == CudaVersion(12, 9)


def test_an_old_glibc_prefers_complete_cuda_12_to_cuda_13_without_libraries(matrix: Matrix) -> None:
    """Trap: on glibc < 2.27, cupy-cuda13x[ctk] makes installers fall back to a CuPy without CUDA libraries."""
    resolution = resolution_of(matrix, "driver=580.95.05", "gpu=H100", "libc=glibc-2.26")
    assert resolution.wheel is not None
    assert resolution.wheel.requirements == ("cupy-cuda12x[ctk]==14.2.0",)
    assert resolution.wheel.needs_toolkit is None
    assert str(resolution.wheel.nvrtc and resolution.wheel.nvrtc.highest) == "12.6"
    refused = "Not cupy-cuda13x[ctk] 14.2.0: needs at least glibc-2.27 for [ctk], found glibc-2.26."
    assert refused in resolution.explanation


def test_a_toolkit_on_the_host_outranks_packages_on_an_old_glibc(matrix: Matrix) -> None:
    facts = ("driver=580.95.05", "gpu=H100", "libc=glibc-2.26", "toolkit=13.0")
    assert choose_wheel(matrix, *facts).requirements == ("cupy-cuda13x==14.2.0",)


def test_an_old_glibc_rejects_cuda_packages_for_a_gpu_that_needs_newer_ones(matrix: Matrix) -> None:
    """cuBLAS, cuRAND and cuSOLVER 12.8 and newer are manylinux_2_27."""
    resolution = resolution_of(matrix, "driver=570.86.15", "gpu=RTX 5090", "libc=glibc-2.17")
    assert resolution.wheel is not None
    assert resolution.wheel.requirements == ("cupy-cuda12x==14.2.0",)
    assert resolution.wheel.needs_toolkit == "the libraries and headers of a toolkit, CUDA 12.8 to 12.9"
    refused = "cupy-cuda12x[ctk] 14.2.0: needs at least glibc-2.27 for [ctk] with CUDA 12.8 or newer, found glibc-2.17."
    assert refused in resolution.explanation


def test_an_unknown_glibc_is_assumed_to_run_the_cuda_packages_of_the_gpu(matrix: Matrix) -> None:
    machine = assume(Snapshot(), ("os=linux", "arch=x86_64", "driver=570.86.15", "gpu=RTX 5090"), matrix)
    assert "host.libc is at least glibc-2.27" in resolve(machine, matrix).explanation


def test_a_fitting_toolkit_on_the_host_replaces_the_extra(matrix: Matrix) -> None:
    wheel = resolution_of(matrix, "driver=580.95.05", "gpu=H100", "toolkit=13.1").wheel
    assert wheel is not None
    assert wheel.extra is None
    assert "fits" in (wheel.needs_toolkit or "")


@pytest.mark.parametrize(("toolkit", "line"), [("12.2", "cupy-cuda12x"), ("13.0", "cupy-cuda13x")])
def test_a_line_without_an_extra_is_chosen_by_the_hosts_libraries(matrix: Matrix, toolkit: str, line: str) -> None:
    """NumPy 1 requires CuPy 13.6 or older, whose wheels have no libraries: the other line would need a second CUDA."""
    wheel = resolution_of(matrix, "driver=580.95.05", "gpu=H100", "numpy=1.26.4", f"toolkit={toolkit}").wheel
    assert wheel is not None
    assert (wheel.distribution, wheel.version) == (line, "13.6.0")


def test_a_toolkit_of_another_major_does_not_count(matrix: Matrix) -> None:
    wheel = resolution_of(matrix, "driver=580.95.05", "gpu=H100", "toolkit=12.4").wheel
    assert wheel is not None
    assert wheel.extra == "ctk"


@pytest.mark.parametrize(
    ("extra", "assumed"),
    [
        ((), ("host.os and host.arch", "linux-x86_64")),
        (("os=windows",), ("host.arch", "x86_64")),
        (("arch=aarch64",), ("host.os", "linux")),
        (("os=windows", "arch=arm64"), None),
    ],
)
def test_an_incomplete_platform_is_completed_by_an_assumption(
    extra: tuple[str, ...], assumed: tuple[str, str] | None, matrix: Matrix
) -> None:
    resolution = resolve(assume(Snapshot(), ("driver=580.95.05", "gpu=H100", *extra), matrix), matrix)
    guessed = [(entry.fact, entry.value) for entry in resolution.assumptions if entry.value != BY_CALLER]
    assert [entry for entry in guessed if entry[0].startswith(("host.os", "host.arch"))] == [assumed] * bool(assumed)


def test_macos_has_no_wheel_on_an_unknown_architecture(matrix: Matrix) -> None:
    resolution = resolve(assume(Snapshot(), ("driver=580.95.05", "gpu=H100", "os=darwin"), matrix), matrix)
    assert resolution.wheel is None
    assert "darwin" in resolution.explanation


@pytest.mark.parametrize(
    ("extra", "rejected"), [((), False), (("driver-cuda=12.0",), True), (("driver-cuda=12.8",), False)]
)
def test_ptx_serves_a_gpu_unless_the_driver_is_known_to_be_too_old(
    extra: tuple[str, ...], *, rejected: bool, matrix: Matrix
) -> None:
    """cupy-cuda12x 13.3.0 was built with CUDA 12.6, has PTX of 9.0 and no code for Blackwell."""
    resolution = resolve(assume(Snapshot(), ("compute-capability=10.0", *extra), matrix), matrix)
    reasons = {entry.constraint for entry in resolution.rejected if entry.candidate.version == "13.3.0"}
    assert (ConstraintName.WHEEL_HAS_CODE_FOR_GPU in reasons) is rejected


@pytest.mark.parametrize(
    ("known", "line"),
    [
        ((), "cupy-cuda12x"),
        (("driver=580.95.05",), "cupy-cuda13x"),
        (("gpu=L4",), "cupy-cuda13x"),
    ],
)
def test_an_installed_line_is_kept_if_driver_and_gpu_are_unknown(
    known: tuple[str, ...], line: str, matrix: Matrix
) -> None:
    """Another CUDA may need a newer driver than there is."""
    facts = ("os=linux", "arch=x86_64", "python=3.9", "cupy=cupy-cuda12x==14.0.1", *known)
    wheel = resolve(assume(Snapshot(), facts, matrix), matrix).wheel
    assert wheel is not None
    assert (wheel.distribution, wheel.version) == (line, "13.6.0")


def test_unknown_facts_are_listed_as_assumptions(matrix: Matrix) -> None:
    resolution = resolve(assume(Snapshot(), ("gpu=H100",), matrix), matrix)
    facts = {entry.fact for entry in resolution.assumptions}
    assert "driver.version" in facts
    assert "target.python" in facts
    assert "host.libc" in facts or "host.os and host.arch" in facts


@pytest.mark.parametrize(
    ("python", "tag"),
    [
        ("3.12", "cp312-cp312-manylinux2014_x86_64"),
        ("3.14t", "cp314-cp314t-manylinux2014_x86_64"),
        ("3.7", "cp37-cp37m-manylinux1_x86_64"),
    ],
)
def test_the_wheel_has_the_tags_of_its_file_name(python: str, tag: str, matrix: Matrix) -> None:
    wheel = resolution_of(matrix, "driver=580.95.05", "gpu=A100", f"python={python}").wheel
    assert wheel is not None
    assert wheel.tags == (tag,)


def test_a_driver_newer_than_the_matrix_is_accepted(matrix: Matrix) -> None:
    resolution = resolution_of(matrix, "driver=999.10.01", "gpu=H100")
    assert resolution.wheel is not None
    assert resolution.wheel.distribution == "cupy-cuda13x"


def test_a_yanked_release_is_never_chosen(matrix: Matrix) -> None:
    yanked = {release.cupy for line in matrix.wheel_lines for release in line.releases if release.yanked}
    assert yanked
    rejected = {
        entry.candidate.version
        for entry in resolution_of(matrix, "driver=470", "gpu=K80").rejected
        if entry.constraint is ConstraintName.NOT_YANKED
    }
    assert rejected == yanked


def test_the_driver_level_alone_is_not_the_wheel_line(matrix: Matrix) -> None:
    """Trap: R565 reports CUDA 12.7, for which no toolkit exists."""
    wheel = resolution_of(matrix, "driver=565", "gpu=A100").wheel
    assert wheel is not None
    assert wheel.distribution == "cupy-cuda12x"


def test_versions_older_than_the_matrix_are_reported_as_such(matrix: Matrix) -> None:
    resolution = resolution_of(matrix, "driver=390.157", "gpu=GTX 980", "cupy=cupy-cuda102==10.6.0")
    assert resolution.wheel is None
    assert "Driver 390.157 is older than the matrix covers (branch 418 and newer)." in resolution.explanation
    assert "cupy-cuda102 10.6.0 is older than the matrix covers (CuPy 11.3.0 and newer)." in resolution.explanation


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (("driver=450.51.06", "gpu=A100"), "cupy-cuda110"),
        (("driver=440.33.01", "gpu=V100"), "cupy-cuda102"),
        (("driver=470.256.02", "gpu=GTX 680"), "cupy-cuda102"),
        (("driver-cuda=10.1", "gpu=V100"), None),
    ],
)
def test_old_wheel_lines_are_chosen_only_for_old_drivers_and_gpus(
    facts: tuple[str, ...], line: str | None, matrix: Matrix
) -> None:
    """CUDA 10.2 is the last for 3.0, and before CUDA 11 the driver's CUDA level must equal that of the toolkit."""
    wheel = resolution_of(matrix, *facts).wheel
    assert (wheel.distribution if wheel else None) == line


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        *((table, "cupy-cuda13x") for table in ("driver_branches", "generations", "products", "images", "companions")),
        ("wheel_lines conda_builds images", None),
    ],
)
def test_a_custom_matrix_may_have_empty_tables(matrix: Matrix, tables: str, line: str | None) -> None:
    smaller = replace(matrix, **dict.fromkeys(tables.split(), ()))  # type: ignore[arg-type]
    resolution = resolution_of(smaller, "driver=580.95.05", "compute-capability=8.0", "cupy=cupy-cuda12x==9.0.0")
    assert (resolution.wheel and resolution.wheel.distribution) == line


@pytest.mark.parametrize("digest", [None, f"sha256:{'1' * 64}"])
def test_an_unknown_image_digest_is_reported(digest: str | None, matrix: Matrix) -> None:
    images = tuple(image._replace(digest=digest) for image in matrix.images)
    resolution = resolution_of(replace(matrix, images=images), "driver=580.95.05", "gpu=H100")
    assert resolution.image is not None
    assert ("Its digest is unknown: no registry was queried." in resolution.explanation) == (digest is None)
