"""Environments over others, variables that lead elsewhere, and interpreters that are not there."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.environments.making import (
    NUMPY,
    SOUND,
    TWELVE,
    add,
    bare_uv,
    editable,
    of_python,
    site,
    system_python,
    write,
)
from tests.environments.table import Odd, Place
from tests.install.sandbox import run
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from pathlib import Path

    from tests.install.sandbox import Sandbox


def older_line_on_pythonpath(sandbox: Sandbox) -> Place:
    library = sandbox.folder / "lib-of-mine"
    target = sandbox.target("behind", *SOUND)
    options = ("--quiet", "--no-deps", "--python", target / "bin/python", "--target", library)
    bare_uv(sandbox, "pip", "install", *options, "cupy-cuda11x==13.6.0")
    return Place(target, variables={"PYTHONPATH": str(library)}, others=(library,))


def over_a_system(sandbox: Sandbox, below: tuple[str, ...], *packages: str) -> Place:
    """A venv that sees the packages of the Python that it was made of."""
    system = system_python(sandbox.folder / "below", managed=True)
    add(sandbox, system / "bin/python3", *below)
    target = sandbox.folder / "over"
    command = [str(system / "bin/python3"), "-m", "venv", "--without-pip", "--system-site-packages", str(target)]
    run(command, sandbox.environment())
    add(sandbox, target / "bin/python", *packages)
    return Place(target, others=(system,))


def over_another_line(sandbox: Sandbox) -> Place:
    return over_a_system(sandbox, ("cupy-cuda11x==13.6.0", NUMPY), TWELVE)


def over_an_old_numpy(sandbox: Sandbox) -> Place:
    return over_a_system(sandbox, ("numpy==1.26.4",), TWELVE)


def over_a_whole_one(sandbox: Sandbox) -> Place:
    return over_a_system(sandbox, SOUND)


def folder_named_cupy(sandbox: Sandbox) -> Place:
    work = sandbox.folder / "work"
    write(work / "cupy/__init__.py")
    return Place(sandbox.target("hidden", *SOUND), folder=work, others=(work,))


def another_environment_first(sandbox: Sandbox) -> Place:
    other = sandbox.target("first", "cupy-cuda12x==13.6.0")
    target = sandbox.target("second", *SOUND)
    run_at_start(site(target), f"import sys\nsys.path.insert(0, {str(site(other))!r})\n")
    return Place(target, others=(other,))


def managed(sandbox: Sandbox) -> Place:
    system = system_python(sandbox.folder / "managed", managed=True)
    add(sandbox, system / "bin/python3", NUMPY)
    return Place(system, python=system / "bin/python3")


def renamed_and_active(sandbox: Sandbox) -> Place:
    """The variable is of before the environment was renamed."""
    target = sandbox.target("before", *SOUND)
    after = target.rename(sandbox.folder / "after")
    return Place(after, python="", variables={"VIRTUAL_ENV": str(target)})


def base_gone(sandbox: Sandbox) -> Place:
    """Made by uv of a Python that has since been replaced by its next release."""
    system = system_python(sandbox.folder / "cpython-3.11.7", managed=True)
    target = sandbox.folder / "uvs"
    bare_uv(sandbox, "venv", "--quiet", "--python", system / "bin/python3", target)
    add(sandbox, target / "bin/python", *SOUND)
    shutil.rmtree(system)
    return Place(target)


def interpreters_in_a_circle(sandbox: Sandbox) -> Place:
    target = sandbox.target("circle", *SOUND)
    for entry in (target / "bin").glob("python*"):
        entry.unlink()
    for name, other in (("python", "python3"), ("python3", "python")):
        (target / "bin" / name).symlink_to(other)
    return Place(target)


def library_gone(sandbox: Sandbox) -> Place:
    """The folder of modules was removed and the programs are left."""
    system = system_python(sandbox.folder / "moved-base", managed=False)
    target = sandbox.folder / "without-library"
    bare_uv(sandbox, "venv", "--quiet", "--python", system / "bin/python3", target)
    (system / "lib").rename(sandbox.folder / "lib-elsewhere")
    return Place(target)


def python_of_2016(sandbox: Sandbox) -> Place:
    return Place(of_python(sandbox, "3.6", "six"))


def of_32_bits(sandbox: Sandbox) -> Place:
    target = sandbox.target("narrow")
    text = "import os\nos.environ['_PYTHON_HOST_PLATFORM'] = 'linux-i686'\n"
    run_at_start(site(target), text)
    return Place(target)


def kernel_elsewhere(sandbox: Sandbox) -> Place:
    """Jupyter's kernel is of an environment with CuPy, and the one that is active has none."""
    other = sandbox.target("of-the-kernel", *SOUND)
    target = sandbox.target("of-jupyter", NUMPY)
    text = '{"argv": ["%s", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}'
    write(sandbox.folder / ".local/share/jupyter/kernels/gpu/kernel.json", text % (other / "bin/python"))
    return Place(target, python="", variables={"VIRTUAL_ENV": str(target)}, others=(other,))


def needs_an_older_one(sandbox: Sandbox) -> Place:
    target = sandbox.target("app", *SOUND)
    project: Path = editable(sandbox, target, "gpu-app", "cupy-cuda12x<14")
    return Place(target, folder=project, others=(project,))


LAYERS = (
    Odd(
        "an older line first on PYTHONPATH",
        older_line_on_pythonpath,
        "multiple-cupy-packages",
        first="PYTHONPATH",
        install=7,
    ),
    Odd("another line in the system's Python below", over_another_line, "multiple-cupy-packages", first="below"),
    Odd(
        "a NumPy in the system's Python below that does not fit",
        over_an_old_numpy,
        "numpy-incompatible",
        mended={"cupy-cuda12x": "13.6.0"},
    ),
    Odd("everything in the system's Python below", over_a_whole_one),
    Odd("a folder named cupy where one works", folder_named_cupy, "cupy-shadowed", error=False, first="Rename"),
    Odd(
        "a path file that puts another environment first",
        another_environment_first,
        "multiple-cupy-packages",
        error=False,
    ),
    Odd(
        "a Python that the system manages",
        managed,
        "cupy-not-installed",
        first="virtual environment",
        unsaid=("--break-system-packages",),
        install=7,
    ),
    Odd("a variable of before the environment was renamed", renamed_and_active, "target-environment-broken", install=7),
    Odd("its base was replaced", base_gone, "target-environment-broken", install=7),
    Odd("its interpreters are links to one another", interpreters_in_a_circle, "target-environment-broken", install=7),
    # Python looks for its modules where it was built, and works.
    Odd("its base has lost its modules", library_gone, "cupy-not-installed", mended={"cupy-cuda12x": "14.2.0"}),
    Odd("Python 3.6", python_of_2016, "python-unsupported", first="uv venv", unsaid=("pip install cupy",), install=3),
    Odd("a Python of 32 bits", of_32_bits, "platform-wheel-missing", unsaid=("pip install cupy",), install=3),
    Odd(
        "Jupyter's kernel is of another environment",
        kernel_elsewhere,
        "cupy-not-installed",
        first="--python",
        mended={"cupy-cuda12x": "14.2.0", "numpy": "2.1.0"},
    ),
    Odd(
        "a project that needs an older CuPy",
        needs_an_older_one,
        "cupy-api-version-incompatible",
        error=False,
        first="cupy-cuda12x<14",
    ),
)
