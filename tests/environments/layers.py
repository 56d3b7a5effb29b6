"""Environments over other environments, user packages, misleading variables, and broken interpreters."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.environments.builders import (
    CUPY,
    CUPY_AND_NUMPY,
    NUMPY,
    RELEASE,
    build_wheel,
    install,
    install_by_conda,
    install_editable,
    make_conda_prefix,
    make_system_python,
    run_uv,
    site_packages,
    venv_of_python,
    write,
)
from tests.environments.cases import BuiltEnvironment, EnvironmentCase
from tests.install.standins import run
from tests.install.wheels import Package
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from pathlib import Path

    from tests.install.standins import Ground


def older_line_on_pythonpath(ground: Ground) -> BuiltEnvironment:
    library = ground.folder / "lib-of-mine"
    target = ground.target("behind", *CUPY_AND_NUMPY)
    options = ("--quiet", "--no-deps", "--python", target / "bin/python", "--target", library)
    run_uv(ground, "pip", "install", *options, "cupy-cuda11x==13.6.0")
    return BuiltEnvironment(target, variables={"PYTHONPATH": str(library)}, other_folders=(library,))


def venv_over_system_python(ground: Ground, system_packages: tuple[str, ...], *packages: str) -> BuiltEnvironment:
    """A venv that sees the packages of its base Python."""
    system = make_system_python(ground.folder / "below", managed=True)
    install(ground, system / "bin/python3", *system_packages)
    target = ground.folder / "over"
    command = [str(system / "bin/python3"), "-m", "venv", "--without-pip", "--system-site-packages", str(target)]
    run(command, ground.environment())
    install(ground, target / "bin/python", *packages)
    return BuiltEnvironment(target, other_folders=(system,))


def other_line_in_system_python(ground: Ground) -> BuiltEnvironment:
    return venv_over_system_python(ground, ("cupy-cuda11x==13.6.0", NUMPY), CUPY)


def old_numpy_in_system_python(ground: Ground) -> BuiltEnvironment:
    return venv_over_system_python(ground, ("numpy==1.26.4",), CUPY)


def packages_in_system_python(ground: Ground) -> BuiltEnvironment:
    return venv_over_system_python(ground, CUPY_AND_NUMPY)


def folder_named_cupy(ground: Ground) -> BuiltEnvironment:
    work = ground.folder / "work"
    write(work / "cupy/__init__.py")
    return BuiltEnvironment(ground.target("hidden", *CUPY_AND_NUMPY), folder=work, other_folders=(work,))


def other_environment_first(ground: Ground) -> BuiltEnvironment:
    other = ground.target("first", "cupy-cuda12x==13.6.0")
    target = ground.target("second", *CUPY_AND_NUMPY)
    run_at_start(site_packages(target), f"import sys\nsys.path.insert(0, {str(site_packages(other))!r})\n")
    return BuiltEnvironment(target, other_folders=(other,))


def externally_managed_python(ground: Ground) -> BuiltEnvironment:
    system = make_system_python(ground.folder / "managed", managed=True)
    install(ground, system / "bin/python3", NUMPY)
    return BuiltEnvironment(system, python=system / "bin/python3")


def renamed_active_environment(ground: Ground) -> BuiltEnvironment:
    """VIRTUAL_ENV is the path before the renaming."""
    target = ground.target("before", *CUPY_AND_NUMPY)
    after = target.rename(ground.folder / "after")
    return BuiltEnvironment(after, python="", variables={"VIRTUAL_ENV": str(target)})


def replaced_base(ground: Ground) -> BuiltEnvironment:
    """A uv environment whose Python was replaced by its next release."""
    system = make_system_python(ground.folder / "cpython-3.11.7", managed=True)
    target = ground.folder / "uvs"
    run_uv(ground, "venv", "--quiet", "--python", system / "bin/python3", target)
    install(ground, target / "bin/python", *CUPY_AND_NUMPY)
    shutil.rmtree(system)
    return BuiltEnvironment(target)


def interpreter_link_loop(ground: Ground) -> BuiltEnvironment:
    target = ground.target("circle", *CUPY_AND_NUMPY)
    for entry in (target / "bin").glob("python*"):
        entry.unlink()
    for name, other in (("python", "python3"), ("python3", "python")):
        (target / "bin" / name).symlink_to(other)
    return BuiltEnvironment(target)


def base_without_modules(ground: Ground) -> BuiltEnvironment:
    """The base's lib folder was removed, but not its programs."""
    system = make_system_python(ground.folder / "moved-base", managed=False)
    target = ground.folder / "without-library"
    run_uv(ground, "venv", "--quiet", "--python", system / "bin/python3", target)
    (system / "lib").rename(ground.folder / "lib-elsewhere")
    return BuiltEnvironment(target)


def python_36(ground: Ground) -> BuiltEnvironment:
    return BuiltEnvironment(venv_of_python(ground, "3.6", "six"))


def python_of_32_bits(ground: Ground) -> BuiltEnvironment:
    target = ground.target("narrow")
    text = "import os\nos.environ['_PYTHON_HOST_PLATFORM'] = 'linux-i686'\n"
    run_at_start(site_packages(target), text)
    return BuiltEnvironment(target)


def other_jupyter_kernel(ground: Ground) -> BuiltEnvironment:
    """Jupyter's kernel belongs to an environment with CuPy, which the active environment lacks."""
    other = ground.target("of-the-kernel", *CUPY_AND_NUMPY)
    target = ground.target("of-jupyter", NUMPY)
    text = '{"argv": ["%s", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}'
    write(ground.folder / ".local/share/jupyter/kernels/gpu/kernel.json", text % (other / "bin/python"))
    return BuiltEnvironment(target, python="", variables={"VIRTUAL_ENV": str(target)}, other_folders=(other,))


def project_with_older_cupy(ground: Ground) -> BuiltEnvironment:
    target = ground.target("app", *CUPY_AND_NUMPY)
    project: Path = install_editable(ground, target, "gpu-app", "cupy-cuda12x<14")
    return BuiltEnvironment(target, folder=project, other_folders=(project,))


def add_user_site(ground: Ground, *packages: str) -> Path:
    """Packages in the home folder, as by ``pip install --user``."""
    environment = ground.target("once", *packages)
    user_site = ground.folder / ".local/lib" / RELEASE / "site-packages"
    user_site.parent.mkdir(parents=True)
    shutil.copytree(site_packages(environment), user_site)
    return user_site


def user_line_over_conda(ground: Ground) -> BuiltEnvironment:
    prefix = make_conda_prefix(ground, "conda", NUMPY)
    files = {"cupy/__init__.py": "", "cupyx/__init__.py": "", "cupy_backends/__init__.py": ""}
    install_by_conda(
        ground, prefix, build_wheel(ground, Package("cupy", "14.1.1", ("numpy",), files=files)), "cupy-core"
    )
    write(prefix / "conda-meta/cuda-version-12.9-h4f385c5_3.json", '{"name": "cuda-version", "version": "12.9"}')
    return BuiltEnvironment(prefix, other_folders=(add_user_site(ground, "cupy-cuda11x==13.6.0"),))


def user_numpy_over_conda(ground: Ground) -> BuiltEnvironment:
    prefix = make_conda_prefix(ground, "conda", NUMPY)
    install(ground, prefix / "bin/python", CUPY)
    return BuiltEnvironment(prefix, other_folders=(add_user_site(ground, "numpy==1.26.4"), prefix / "conda-meta"))


def user_line_over_system_python(ground: Ground) -> BuiltEnvironment:
    system = make_system_python(ground.folder / "system", managed=False)
    install(ground, system / "bin/python3", *CUPY_AND_NUMPY)
    return BuiltEnvironment(system, other_folders=(add_user_site(ground, "cupy-cuda11x==13.6.0"),))


LAYERS = (
    EnvironmentCase(
        "an older line first on PYTHONPATH",
        older_line_on_pythonpath,
        "multiple-cupy-packages",
        first_fix="PYTHONPATH",
        install_exit_code=7,
    ),
    EnvironmentCase(
        "another line in the system's Python below",
        other_line_in_system_python,
        "multiple-cupy-packages",
        first_fix="below",
    ),
    EnvironmentCase(
        "an incompatible NumPy in the system's Python below",
        old_numpy_in_system_python,
        "numpy-incompatible",
        fixed_versions={"cupy-cuda12x": "13.6.0"},
    ),
    EnvironmentCase("everything in the system's Python below", packages_in_system_python),
    EnvironmentCase(
        "a folder named cupy in the working folder", folder_named_cupy, "cupy-shadowed", error=False, first_fix="Rename"
    ),
    EnvironmentCase(
        "a path file that puts another environment first",
        other_environment_first,
        "multiple-cupy-packages",
        error=False,
    ),
    EnvironmentCase(
        "an externally managed Python",
        externally_managed_python,
        "cupy-not-installed",
        first_fix="virtual environment",
        forbidden_words=("--break-system-packages",),
        install_exit_code=7,
    ),
    EnvironmentCase(
        "a variable with the former name of a renamed environment",
        renamed_active_environment,
        "target-environment-broken",
        install_exit_code=7,
    ),
    EnvironmentCase("its base was replaced", replaced_base, "target-environment-broken", install_exit_code=7),
    EnvironmentCase(
        "its interpreters form a link loop",
        interpreter_link_loop,
        "target-environment-broken",
        install_exit_code=7,
    ),
    # Python still works, since it finds its modules where it was built.
    EnvironmentCase(
        "its base has lost its modules",
        base_without_modules,
        "cupy-not-installed",
        fixed_versions={"cupy-cuda12x": "14.2.0"},
    ),
    EnvironmentCase(
        "Python 3.6",
        python_36,
        "python-unsupported",
        first_fix="uv venv",
        forbidden_words=("pip install cupy",),
        install_exit_code=3,
    ),
    EnvironmentCase(
        "a Python of 32 bits",
        python_of_32_bits,
        "platform-wheel-missing",
        forbidden_words=("pip install cupy",),
        install_exit_code=3,
    ),
    EnvironmentCase(
        "Jupyter's kernel belongs to another environment",
        other_jupyter_kernel,
        "cupy-not-installed",
        first_fix="--python",
        fixed_versions={"cupy-cuda12x": "14.2.0", "numpy": "2.1.0"},
    ),
    EnvironmentCase(
        "a project that needs an older CuPy",
        project_with_older_cupy,
        "cupy-api-version-incompatible",
        error=False,
        first_fix="cupy-cuda12x<14",
    ),
    EnvironmentCase(
        "the user's own line before conda's CuPy",
        user_line_over_conda,
        "multiple-cupy-packages|mixed-pip-conda",
        first_fix="PYTHONNOUSERSITE=1",
        forbidden_words=("--force-reinstall", "uninstall"),
    ),
    EnvironmentCase(
        "the user's own NumPy before conda's",
        user_numpy_over_conda,
        "numpy-incompatible",
        first_fix="PYTHONNOUSERSITE=1",
        fixed_versions={"cupy-cuda12x": "13.6.0"},
    ),
    EnvironmentCase(
        "the user's own line before that of the system's Python",
        user_line_over_system_python,
        "multiple-cupy-packages",
        first_fix="PYTHONNOUSERSITE=1",
        forbidden_words=("uninstall",),
    ),
)
