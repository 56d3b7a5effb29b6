"""What conda can do where none of its builds fits an environment as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.model.finding import Fix
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Snapshot
from tests.support.matrix import MATRIX

HOST = ("os=linux", "arch=x86_64")
NEW = ("conda", "create", "--name=ENVIRONMENT", "--channel=conda-forge")
LIST = ("conda", "search", "--channel=conda-forge", "cupy")


def fixes(code: str, *given: str) -> tuple[Fix, ...]:
    """The cures of a finding in a conda environment in which conda's CuPy is, or none."""
    snapshot = assume(Snapshot(), [*HOST, "libc=glibc-2.36", *given], MATRIX)
    ours = {entry.distribution: entry.release for entry in snapshot.target.cupy}
    ours |= {"numpy": snapshot.target.numpy.value or "2.1.0", "cuda-version": "12.9"}
    target = replace(snapshot.target, kind=known("conda", "x"), prefix=known("/env", "x"), conda_packages=ours)
    snapshot = replace(snapshot, target=target)
    findings = diagnose(snapshot, MATRIX, resolve(snapshot, MATRIX), lambda: 0.0).findings
    return next(finding.fix for finding in findings if finding.code == code)


@pytest.mark.parametrize(
    ("given", "command"),
    [
        (
            ("driver=580.95.05", "gpu=H100", "python=3.11", "numpy=1.26.4", "cupy=none"),
            (
                "conda",
                "install",
                "--prefix=/env",
                "--channel=conda-forge",
                "cupy=14.1.1",
                "cuda-version=13",
                "numpy>=2.0",
            ),
        ),
        (
            ("driver=580.95.05", "gpu=V100", "python=3.9", "numpy=1.26.4", "cupy=none"),
            (*NEW, "python=3.12", "cupy=14.1.1", "cuda-version=12"),
        ),
        (
            ("driver=470.82.01", "gpu=K80", "python=3.11", "numpy=2.1.0", "cupy=none"),
            (*NEW, "python=3.14", "cupy=13.6.0", "cuda-version=11"),
        ),
    ],
)
def test_conda_s_own_way_comes_first(given: tuple[str, ...], command: tuple[str, ...]) -> None:
    first = fixes("WHL503", *given)[0]
    assert first.command == command
    assert "mamba" in first.text


def test_a_way_of_pip_s_is_another_one_and_said_to_be() -> None:
    told = fixes("WHL503", "driver=470.82.01", "gpu=K80", "python=3.11", "numpy=2.1.0", "cupy=none")
    assert told[1].text.startswith("Or, by pip, install: cupy-cuda11x")


def test_where_conda_has_no_way_that_is_said() -> None:
    """A GPU of compute capability 3.0, which CUDA 10.2 alone still serves."""
    given = ("driver=470.82.01", "compute-capability=3.0", "gpu-count=1", "python=3.9", "numpy=1.22.4", "cupy=none")
    told = fixes("WHL503", *given)
    assert told[0].text.startswith("No build of CuPy on conda-forge that the matrix has fits here: it needs ")
    assert told[0].command == LIST
    assert told[1].text.startswith("Or, by pip, install: cupy-cuda102")


def test_a_numpy_of_conda_s_is_moved_by_conda() -> None:
    told = fixes("WHL506", "driver=580.95.05", "gpu=H100", "python=3.12", "numpy=1.26.4", "cupy=cupy-cuda12x==14.2.0")
    assert told[0].command == ("conda", "install", "--prefix=/env", "numpy<2.6,>=2.0")
