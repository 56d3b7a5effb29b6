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
from tests.install.sandbox import run
from tests.install.wheels import Package
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from pathlib import Path

    from tests.install.sandbox import Sandbox


def older_line_on_pythonpath(sandbox: Sandbox) -> BuiltEnvironment:
    library = sandbox.folder / "lib-of-mine"
    target = sandbox.target("behind", *CUPY_AND_NUMPY)
    options = ("--quiet", "--no-deps", "--python", target / "bin/python", "--target", library)
    run_uv(sandbox, "pip", "install", *options, "cupy-cuda11x==13.6.0")
    return BuiltEnvironment(target, variables={"PYTHONPATH": str(library)}, other_folders=(library,))


def venv_over_system_python(sandbox: Sandbox, system_packages: tuple[str, ...], *packages: str) -> BuiltEnvironment:
    """A venv that sees the packages of its base Python."""
    system = make_system_python(sandbox.folder / "below", managed=True)
    install(sandbox, system / "bin/python3", *system_packages)
    target = sandbox.folder / "over"
    command = [str(system / "bin/python3"), "-m", "venv", "--without-pip", "--system-site-packages", str(target)]
    run(command, sandbox.environment())
    install(sandbox, target / "bin/python", *packages)
    return BuiltEnvironment(target, other_folders=(system,))


def other_line_in_system_python(sandbox: Sandbox) -> BuiltEnvironment:
    return venv_over_system_python(sandbox, ("cupy-cuda11x==13.6.0", NUMPY), CUPY)


def old_numpy_in_system_python(sandbox: Sandbox) -> BuiltEnvironment:
    return venv_over_system_python(sandbox, ("numpy==1.26.4",), CUPY)


def packages_in_system_python(sandbox: Sandbox) -> BuiltEnvironment:
    return venv_over_system_python(sandbox, CUPY_AND_NUMPY)


def folder_named_cupy(sandbox: Sandbox) -> BuiltEnvironment:
    work = sandbox.folder / "work"
    write(work / "cupy/__init__.py")
    return BuiltEnvironment(sandbox.target("hidden", *CUPY_AND_NUMPY), folder=work, other_folders=(work,))


def other_environment_first(sandbox: Sandbox) -> BuiltEnvironment:
    other = sandbox.target("first", "cupy-cuda12x==13.6.0")
    target = sandbox.target("second", *CUPY_AND_NUMPY)
    run_at_start(site_packages(target), f"import sys\nsys.path.insert(0, {str(site_packages(other))!r})\n")
    return BuiltEnvironment(target, other_folders=(other,))


def externally_managed_python(sandbox: Sandbox) -> BuiltEnvironment:
    system = make_system_python(sandbox.folder / "managed", managed=True)
    install(sandbox, system / "bin/python3", NUMPY)
    return BuiltEnvironment(system, python=system / "bin/python3")


def renamed_active_environment(sandbox: Sandbox) -> BuiltEnvironment:
    """VIRTUAL_ENV is the path before the renaming."""
    target = sandbox.target("before", *CUPY_AND_NUMPY)
    after = target.rename(sandbox.folder / "after")
    return BuiltEnvironment(after, python="", variables={"VIRTUAL_ENV": str(target)})


def replaced_base(sandbox: Sandbox) -> BuiltEnvironment:
    """A uv environment whose Python was replaced by its next release."""
    system = make_system_python(sandbox.folder / "cpython-3.11.7", managed=True)
    target = sandbox.folder / "uvs"
    run_uv(sandbox, "venv", "--quiet", "--python", system / "bin/python3", target)
    install(sandbox, target / "bin/python", *CUPY_AND_NUMPY)
    shutil.rmtree(system)
    return BuiltEnvironment(target)


def interpreter_link_loop(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("circle", *CUPY_AND_NUMPY)
    for entry in (target / "bin").glob("python*"):
        entry.unlink()
    for name, other in (("python", "python3"), ("python3", "python")):
        (target / "bin" / name).symlink_to(other)
    return BuiltEnvironment(target)


def base_without_modules(sandbox: Sandbox) -> BuiltEnvironment:
    """The base's lib folder was removed, but not its programs."""
    system = make_system_python(sandbox.folder / "moved-base", managed=False)
    target = sandbox.folder / "without-library"
    run_uv(sandbox, "venv", "--quiet", "--python", system / "bin/python3", target)
    (system / "lib").rename(sandbox.folder / "lib-elsewhere")
    return BuiltEnvironment(target)


def python_36(sandbox: Sandbox) -> BuiltEnvironment:
    return BuiltEnvironment(venv_of_python(sandbox, "3.6", "six"))


def python_of_32_bits(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("narrow")
    text = "import os\nos.environ['_PYTHON_HOST_PLATFORM'] = 'linux-i686'\n"
    run_at_start(site_packages(target), text)
    return BuiltEnvironment(target)


def other_jupyter_kernel(sandbox: Sandbox) -> BuiltEnvironment:
    """Jupyter's kernel belongs to an environment with CuPy, which the active environment lacks."""
    other = sandbox.target("of-the-kernel", *CUPY_AND_NUMPY)
    target = sandbox.target("of-jupyter", NUMPY)
    text = '{"argv": ["%s", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}'
    write(sandbox.folder / ".local/share/jupyter/kernels/gpu/kernel.json", text % (other / "bin/python"))
    return BuiltEnvironment(target, python="", variables={"VIRTUAL_ENV": str(target)}, other_folders=(other,))


def project_with_older_cupy(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("app", *CUPY_AND_NUMPY)
    project: Path = install_editable(sandbox, target, "gpu-app", "cupy-cuda12x<14")
    return BuiltEnvironment(target, folder=project, other_folders=(project,))


def add_user_site(sandbox: Sandbox, *packages: str) -> Path:
    """Packages in the home folder, as by ``pip install --user``."""
    environment = sandbox.target("once", *packages)
    user_site = sandbox.folder / ".local/lib" / RELEASE / "site-packages"
    user_site.parent.mkdir(parents=True)
    shutil.copytree(site_packages(environment), user_site)
    return user_site


def user_line_over_conda(sandbox: Sandbox) -> BuiltEnvironment:
    prefix = make_conda_prefix(sandbox, "conda", NUMPY)
    files = {"cupy/__init__.py": "", "cupyx/__init__.py": "", "cupy_backends/__init__.py": ""}
    install_by_conda(
        sandbox, prefix, build_wheel(sandbox, Package("cupy", "14.1.1", ("numpy",), files=files)), "cupy-core"
    )
    write(prefix / "conda-meta/cuda-version-12.9-h4f385c5_3.json", '{"name": "cuda-version", "version": "12.9"}')
    return BuiltEnvironment(prefix, other_folders=(add_user_site(sandbox, "cupy-cuda11x==13.6.0"),))


def user_numpy_over_conda(sandbox: Sandbox) -> BuiltEnvironment:
    prefix = make_conda_prefix(sandbox, "conda", NUMPY)
    install(sandbox, prefix / "bin/python", CUPY)
    return BuiltEnvironment(prefix, other_folders=(add_user_site(sandbox, "numpy==1.26.4"), prefix / "conda-meta"))


def user_line_over_system_python(sandbox: Sandbox) -> BuiltEnvironment:
    system = make_system_python(sandbox.folder / "system", managed=False)
    install(sandbox, system / "bin/python3", *CUPY_AND_NUMPY)
    return BuiltEnvironment(system, other_folders=(add_user_site(sandbox, "cupy-cuda11x==13.6.0"),))


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
        first_fix="because this environment includes the system's packages",
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
        first_fix="python3 -m venv",
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
    ),
    EnvironmentCase(
        "the user's own line before that of the system's Python",
        user_line_over_system_python,
        "multiple-cupy-packages",
        first_fix="PYTHONNOUSERSITE=1",
        forbidden_words=("uninstall",),
    ),
)
