"""A second round: the user's own packages in front, wrappers, other spellings of RECORD, and what nobody owns."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.environments.making import (
    BOTH,
    NUMPY,
    RELEASE,
    SOUND,
    TWELVE,
    add,
    conda_prefix,
    own_wheel,
    put_by_conda,
    site,
    system_python,
    write,
)
from tests.environments.table import Odd, Place
from tests.install.wheels import Package

if TYPE_CHECKING:
    from pathlib import Path

    from tests.install.sandbox import Ground

RIGHT = {"cupy-cuda12x": "14.2.0", "numpy": "2.1.0"}


def of_the_user(ground: Ground, *packages: str) -> Path:
    """What ``pip install --user`` once put into the home folder."""
    made = ground.target("once", *packages)
    own = ground.folder / ".local/lib" / RELEASE / "site-packages"
    own.parent.mkdir(parents=True)
    shutil.copytree(site(made), own)
    return own


def line_of_the_user_before_condas(ground: Ground) -> Place:
    prefix = conda_prefix(ground, "conda", NUMPY)
    files = {"cupy/__init__.py": "", "cupyx/__init__.py": "", "cupy_backends/__init__.py": ""}
    put_by_conda(ground, prefix, own_wheel(ground, Package("cupy", "14.1.1", ("numpy",), files=files)), "cupy-core")
    write(prefix / "conda-meta/cuda-version-12.9-h4f385c5_3.json", '{"name": "cuda-version", "version": "12.9"}')
    return Place(prefix, others=(of_the_user(ground, "cupy-cuda11x==13.6.0"),))


def numpy_of_the_user_before_condas(ground: Ground) -> Place:
    prefix = conda_prefix(ground, "conda", NUMPY)
    add(ground, prefix / "bin/python", TWELVE)
    return Place(prefix, others=(of_the_user(ground, "numpy==1.26.4"), prefix / "conda-meta"))


def line_of_the_user_before_the_systems(ground: Ground) -> Place:
    system = system_python(ground.folder / "system", managed=False)
    add(ground, system / "bin/python3", *SOUND)
    return Place(system, others=(of_the_user(ground, "cupy-cuda11x==13.6.0"),))


def with_pip_of_its_own(ground: Ground) -> Place:
    return Place(ground.target("with-pip", *BOTH, pip=True))


def system_with_two(ground: Ground) -> Place:
    system = system_python(ground.folder / "two", managed=False)
    add(ground, system / "bin/python3", *BOTH)
    return Place(system, python=system / "bin/python3")


def by_a_wrapper(ground: Ground) -> Place:
    """As modules of clusters have it: a script that sets a few things and starts the Python."""
    target = ground.target("wrapped", *SOUND)
    wrapper = write(
        ground.folder / "bin/python", f'#!/bin/sh\nexport OMP_NUM_THREADS=4\nexec {target}/bin/python "$@"\n'
    )
    wrapper.chmod(0o755)
    return Place(target, python=wrapper)


def two_that_are_active(ground: Ground) -> Place:
    base = conda_prefix(ground, "base")
    target = ground.target("inner", *SOUND)
    return Place(target, python="", variables={"VIRTUAL_ENV": str(target), "CONDA_PREFIX": str(base)}, others=(base,))


def lines_as_windows_ends_them(ground: Ground) -> Place:
    target = ground.target("crlf", *BOTH)
    for record in site(target).glob("cupy*.dist-info/RECORD"):
        text = record.read_bytes()
        record.unlink()
        record.write_bytes(text.replace(b"\n", b"\r\n") + b"\r\n")
    return Place(target)


def numpy_of_nobody(ground: Ground) -> Place:
    """A folder that was copied there, with a file of somebody's own in it."""
    target = ground.target("copied-numpy", *SOUND)
    shutil.rmtree(site(target) / "numpy-2.1.0.dist-info")
    write(site(target) / "numpy/mine.py", "# of my own\n")
    return Place(target)


FURTHER = (
    Odd(
        "the user's own line before conda's CuPy",
        line_of_the_user_before_condas,
        "multiple-cupy-packages|mixed-pip-conda",
        first="PYTHONNOUSERSITE=1",
        unsaid=("--force-reinstall", "uninstall"),
    ),
    Odd(
        "the user's own NumPy before conda's",
        numpy_of_the_user_before_condas,
        "numpy-incompatible",
        first="PYTHONNOUSERSITE=1",
        mended={"cupy-cuda12x": "13.6.0"},
    ),
    Odd(
        "the user's own line before that of the system's Python",
        line_of_the_user_before_the_systems,
        "multiple-cupy-packages",
        first="PYTHONNOUSERSITE=1",
        unsaid=("uninstall",),
    ),
    Odd("two lines in a venv with pip", with_pip_of_its_own, "multiple-cupy-packages", first="-m pip", mended=RIGHT),
    Odd("two lines in a Python that nobody manages", system_with_two, "multiple-cupy-packages", mended=RIGHT),
    Odd("a wrapper around a venv's Python", by_a_wrapper, install=0),
    Odd("a venv over an active conda environment", two_that_are_active, install=0),
    Odd(
        "two lines with RECORDs of Windows' line ends",
        lines_as_windows_ends_them,
        "multiple-cupy-packages",
        mended=RIGHT,
    ),
    Odd("a NumPy that nobody owns", numpy_of_nobody, "numpy-incompatible|corrupt-installation", mended=RIGHT),
)
