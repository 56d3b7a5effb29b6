"""What a transaction can cure of a report's findings, and what it would ask for. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.doctor.repair import Wound, as_it_is, choices, loses_libraries, will_do, wound_of
from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.model.finding import Allowance, Finding, Severity
from gpuenv.model.reading import known
from gpuenv.model.resolution import WheelChoice
from gpuenv.model.snapshot import FileFault, FileState, Library, Snapshot, Toolkit
from gpuenv.model.versions import CudaVersion
from tests.support.matrix import MATRIX

MACHINE = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "driver=580.95.05", "gpu=H100", "numpy=2.1.0")
SITE = "/venv/lib/python3.12/site-packages"


def machine(*given: str) -> Snapshot:
    return replace(assume(Snapshot(), [*MACHINE, *given], MATRIX), assumed=())


def findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    return diagnose(snapshot, MATRIX, resolve(snapshot, MATRIX), lambda: 0.0).findings


def wound(snapshot: Snapshot) -> Wound | None:
    return wound_of(findings(snapshot), snapshot)


def test_a_healthy_machine_has_no_wound() -> None:
    assert wound(machine("cupy=cupy-cuda12x==14.2.0")) is None


def test_what_is_the_machines_is_none() -> None:
    assert wound(machine("driver=none", "cupy=cupy-cuda12x==14.2.0")) is None


def test_two_lines_want_a_choice() -> None:
    found = wound(machine("cupy=cupy-cuda12x==14.2.0", "package.cupy-cuda11x=13.6.0"))
    assert found == Wound(("WHL502",), choice=True)


@pytest.mark.parametrize("release", ["12.9.1.4", "12.9-patched", "unknown"])
@pytest.mark.parametrize(
    ("state", "afresh"), [(FileState.MISSING, False), (FileState.CHANGED, True), (FileState.WRONG_SIZE, True)]
)
def test_damaged_files_are_put_in_anew(state: FileState, release: str, *, afresh: bool) -> None:
    snapshot = machine("cupy=cupy-cuda12x==14.2.0")
    fault = FileFault(f"{SITE}/nvidia/cublas/lib/libcublas.so.12", state, ("nvidia-cublas-cu12",))
    packages = {**snapshot.target.packages, "nvidia-cublas-cu12": release}
    target = replace(snapshot.target, file_faults=(fault,), file_faults_count=known(1, "RECORD"), packages=packages)
    found = wound(replace(snapshot, target=target))
    assert found == Wound(("WHL510",), again=("nvidia-cublas-cu12",), afresh=afresh)


def test_a_python_that_the_system_manages_is_for_a_person() -> None:
    snapshot = machine("cupy=cupy-cuda12x==14.2.0", "package.cupy-cuda11x=13.6.0")
    managed = replace(snapshot, target=replace(snapshot.target, externally_managed=known(value=True, source="x")))
    assert wound(managed) is None


def test_what_is_allowed_is_not_mended() -> None:
    snapshot = machine("cupy=cupy-cuda12x==14.2.0", "package.cupy-cuda11x=13.6.0")
    entry = Allowance("WHL502", "x", "2999-01-01", "x")
    notes = [replace(f, severity=Severity.NOTE, allowed=entry) for f in findings(snapshot)]
    assert wound_of(notes, snapshot) is None


def test_the_choice_goes_from_what_is_there_to_anything() -> None:
    snapshot = machine("cupy=cupy-cuda11x==13.5.1", "package.cupy-cuda12x=14.1.0")
    free = resolve(snapshot, MATRIX)
    steps = [
        [(line.name, len(line.releases)) for line in narrowed.wheel_lines]
        for narrowed in choices(snapshot, MATRIX, free)
    ]
    releases, lines, everything = [step for step in steps if step[0][1] == 1 and len(step) == 1], steps[2:-1], steps[-1]
    assert [name for step in releases for name, _ in step] == ["cupy-cuda11x", "cupy-cuda12x"]
    assert [name for step in lines for name, _ in step] == ["cupy-cuda11x", "cupy-cuda12x"]
    assert len(everything) == len(MATRIX.wheel_lines)
    assert as_it_is(snapshot) == ("cupy-cuda11x==13.5.1",)


PLAIN = WheelChoice("cupy-cuda12x", "13.6.0", None, ("cupy-cuda12x==13.6.0",), 12, None, "a toolkit", ())
KIT = Toolkit("/usr/local/cuda-12.4", "/usr/local", known(CudaVersion(12, 4), "x"), has_nvrtc=True, has_headers=True)


def with_libraries(folder: str) -> Snapshot:
    snapshot = machine("cupy=cupy-cuda12x==14.2.0")
    library = Library("nvrtc", "libnvrtc.so.12", f"{folder}/libnvrtc.so.12")
    return replace(snapshot, target=replace(snapshot.target, libraries=(library,)))


def test_a_choice_without_its_libraries_will_do_where_they_are() -> None:
    need = Wound(("WHL506",), choice=True)
    assert will_do(replace(PLAIN, extra="ctk"), need, machine())
    assert not will_do(PLAIN, need, machine())
    assert will_do(PLAIN, need, replace(machine(), toolkits=(KIT,)))
    assert will_do(PLAIN, need, with_libraries("/usr/lib"))
    assert not will_do(PLAIN, replace(need, with_libraries=True), replace(machine(), toolkits=(KIT,)))


def test_libraries_of_wheels_would_be_lost_to_an_older_cupy() -> None:
    need = Wound(("WHL506",), choice=True)
    assert loses_libraries(PLAIN, need, with_libraries(f"{SITE}/nvidia/cuda_nvrtc/lib"))
    assert not loses_libraries(PLAIN, need, with_libraries("/usr/lib"))
    assert not loses_libraries(PLAIN, need, machine()), "there is nothing to lose"
