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

    from tests.install.sandbox import Sandbox

RIGHT = {"cupy-cuda12x": "14.2.0", "numpy": "2.1.0"}


def of_the_user(sandbox: Sandbox, *packages: str) -> Path:
    """What ``pip install --user`` once put into the home folder."""
    made = sandbox.target("once", *packages)
    own = sandbox.folder / ".local/lib" / RELEASE / "site-packages"
    own.parent.mkdir(parents=True)
    shutil.copytree(site(made), own)
    return own


def line_of_the_user_before_condas(sandbox: Sandbox) -> Place:
    prefix = conda_prefix(sandbox, "conda", NUMPY)
    files = {"cupy/__init__.py": "", "cupyx/__init__.py": "", "cupy_backends/__init__.py": ""}
    put_by_conda(sandbox, prefix, own_wheel(sandbox, Package("cupy", "14.1.1", ("numpy",), files=files)), "cupy-core")
    write(prefix / "conda-meta/cuda-version-12.9-h4f385c5_3.json", '{"name": "cuda-version", "version": "12.9"}')
    return Place(prefix, others=(of_the_user(sandbox, "cupy-cuda11x==13.6.0"),))


def numpy_of_the_user_before_condas(sandbox: Sandbox) -> Place:
    prefix = conda_prefix(sandbox, "conda", NUMPY)
    add(sandbox, prefix / "bin/python", TWELVE)
    return Place(prefix, others=(of_the_user(sandbox, "numpy==1.26.4"), prefix / "conda-meta"))


def line_of_the_user_before_the_systems(sandbox: Sandbox) -> Place:
    system = system_python(sandbox.folder / "system", managed=False)
    add(sandbox, system / "bin/python3", *SOUND)
    return Place(system, others=(of_the_user(sandbox, "cupy-cuda11x==13.6.0"),))


def with_pip_of_its_own(sandbox: Sandbox) -> Place:
    return Place(sandbox.target("with-pip", *BOTH, pip=True))


def system_with_two(sandbox: Sandbox) -> Place:
    system = system_python(sandbox.folder / "two", managed=False)
    add(sandbox, system / "bin/python3", *BOTH)
    return Place(system, python=system / "bin/python3")


def by_a_wrapper(sandbox: Sandbox) -> Place:
    """As modules of clusters have it: a script that sets a few things and starts the Python."""
    target = sandbox.target("wrapped", *SOUND)
    wrapper = write(
        sandbox.folder / "bin/python", f'#!/bin/sh\nexport OMP_NUM_THREADS=4\nexec {target}/bin/python "$@"\n'
    )
    wrapper.chmod(0o755)
    return Place(target, python=wrapper)


def two_that_are_active(sandbox: Sandbox) -> Place:
    base = conda_prefix(sandbox, "base")
    target = sandbox.target("inner", *SOUND)
    return Place(target, python="", variables={"VIRTUAL_ENV": str(target), "CONDA_PREFIX": str(base)}, others=(base,))


def lines_as_windows_ends_them(sandbox: Sandbox) -> Place:
    target = sandbox.target("crlf", *BOTH)
    for record in site(target).glob("cupy*.dist-info/RECORD"):
        text = record.read_bytes()
        record.unlink()
        record.write_bytes(text.replace(b"\n", b"\r\n") + b"\r\n")
    return Place(target)


def numpy_of_nobody(sandbox: Sandbox) -> Place:
    """A folder that was copied there, with a file of somebody's own in it."""
    target = sandbox.target("copied-numpy", *SOUND)
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
