"""Wheel lines and releases that do not fit, in venvs and conda environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.environments.builders import (
    CUPY,
    NUMPY,
    TWO_CUPYS,
    build_wheel,
    compile_cupy,
    install,
    install_by_conda,
    make_conda_prefix,
    make_system_python,
    site_packages,
    venv_of_python,
    write,
)
from tests.environments.cases import BuiltEnvironment, EnvironmentCase
from tests.install.wheels import Package, cupy, numpy
from tests.scenarios.target_setups import SUFFIX

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox

FIXED = {"cupy-cuda12x": "14.2.0", "numpy": "2.1.0"}
SOURCE = {"cupy/__init__.py": "", "cupyx/__init__.py": "", "cupy_backends/__init__.py": ""}
PIXI_METADATA = '{"manifest_path": "%s", "environment_name": "default"}'


def source_package(release: str) -> Package:
    return Package("cupy", release, ("numpy>=1.22",), files=SOURCE)


def python_39_without_cupy(sandbox: Sandbox) -> BuiltEnvironment:
    return BuiltEnvironment(venv_of_python(sandbox, "3.9", "nine", build_wheel(sandbox, numpy("2.0.2"))))


def wrong_line_in_python_313(sandbox: Sandbox) -> BuiltEnvironment:
    return BuiltEnvironment(venv_of_python(sandbox, "3.13", "thirteen", "cupy-cuda13x==14.2.0", NUMPY))


def built_with_cuda_11(sandbox: Sandbox) -> BuiltEnvironment:
    """The source distribution, built with the toolkit of CUDA 11."""
    target = sandbox.target("built", NUMPY)
    install(sandbox, target / "bin/python", build_wheel(sandbox, source_package("13.6.0")))
    compile_cupy(sandbox, site_packages(target), "libcublas.so.11")
    record = site_packages(target) / "cupy-13.6.0.dist-info/RECORD"
    with record.open("a", encoding="utf-8") as file:
        file.write(f"cupy/_core/core{SUFFIX},,\n")
    return BuiltEnvironment(target)


def source_and_wheel(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("source-too", CUPY, NUMPY)
    install(sandbox, target / "bin/python", build_wheel(sandbox, source_package("13.6.0")))
    return BuiltEnvironment(target)


def new_numpy_and_old_cupy(sandbox: Sandbox) -> BuiltEnvironment:
    old = cupy("cupy-cuda12x", "13.0.0", numpy="numpy<1.29,>=1.22")
    target = sandbox.target("old", NUMPY)
    install(sandbox, target / "bin/python", build_wheel(sandbox, old))
    return BuiltEnvironment(target)


def torch_of_cuda_13(sandbox: Sandbox) -> BuiltEnvironment:
    packages = ("cupy-cuda13x==14.2.0", NUMPY, "torch==2.6.0", "nvidia-cuda-nvrtc==13.5.37")
    return BuiltEnvironment(sandbox.target("torch", *packages))


def rocm_build(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("amd", NUMPY)
    install(sandbox, target / "bin/python", build_wheel(sandbox, cupy("cupy-rocm-5-0", "13.6.0")))
    return BuiltEnvironment(target)


def wrong_line_by_pip_in_conda(sandbox: Sandbox) -> BuiltEnvironment:
    prefix = make_conda_prefix(sandbox, "conda", NUMPY)
    install(sandbox, prefix / "bin/python", "cupy-cuda13x==14.2.0")
    return BuiltEnvironment(prefix, other_folders=(prefix / "conda-meta",))


def pip_cupy_over_conda_cupy(sandbox: Sandbox) -> BuiltEnvironment:
    prefix = make_conda_prefix(sandbox, "both", NUMPY)
    install_by_conda(sandbox, prefix, build_wheel(sandbox, source_package("14.1.1")), "cupy-core")
    write(prefix / "conda-meta/cuda-version-12.9-h4f385c5_3.json", '{"name": "cuda-version", "version": "12.9"}')
    install(sandbox, prefix / "bin/python", CUPY)
    return BuiltEnvironment(prefix)


def old_conda_numpy(sandbox: Sandbox) -> BuiltEnvironment:
    prefix = make_conda_prefix(sandbox, "old-numpy", "numpy==1.26.4")
    install(sandbox, prefix / "bin/python", CUPY)
    return BuiltEnvironment(prefix, other_folders=(prefix / "conda-meta",))


def old_pip_numpy_over_conda(sandbox: Sandbox) -> BuiltEnvironment:
    """Pip has replaced conda's NumPy by an older one, but conda's record remains."""
    prefix = make_conda_prefix(sandbox, "over-conda", NUMPY)
    install(sandbox, prefix / "bin/python", CUPY, "numpy==1.26.4")
    return BuiltEnvironment(prefix, other_folders=(prefix / "conda-meta",))


def pixi_project(sandbox: Sandbox) -> BuiltEnvironment:
    project = sandbox.folder / "project"
    prefix = make_conda_prefix(sandbox, "project/.pixi/envs/default", NUMPY)
    manifest = write(project / "pixi.toml", '[workspace]\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n')
    write(prefix / "conda-meta/pixi", PIXI_METADATA % manifest)
    return BuiltEnvironment(prefix, folder=project)


def pixi_project_with_wheel(sandbox: Sandbox) -> BuiltEnvironment:
    """The wheel is a PyPI dependency of the project, which pixi installs with uv."""
    environment = pixi_project(sandbox)
    install(sandbox, environment.prefix / "bin/python", "cupy-cuda13x==14.2.0")
    write(site_packages(environment.prefix) / "cupy_cuda13x-14.2.0.dist-info/INSTALLER", "uv-pixi\n")
    return environment


def two_lines_with_pip(sandbox: Sandbox) -> BuiltEnvironment:
    return BuiltEnvironment(sandbox.target("with-pip", *TWO_CUPYS, pip=True))


def two_lines_in_system_python(sandbox: Sandbox) -> BuiltEnvironment:
    system = make_system_python(sandbox.folder / "two", managed=False)
    install(sandbox, system / "bin/python3", *TWO_CUPYS)
    return BuiltEnvironment(system, python=system / "bin/python3")


LINES = (
    EnvironmentCase(
        "Python 3.9 without CuPy",
        python_39_without_cupy,
        "cupy-not-installed",
        first_fix="13.6.0",
        fixed_versions={"cupy-cuda12x": "13.6.0"},
    ),
    EnvironmentCase(
        "a wrong line in Python 3.13",
        wrong_line_in_python_313,
        "gpu-removed-from-toolkit",
        first_fix="cupy-cuda12x",
        fixed_versions=FIXED,
    ),
    EnvironmentCase(
        "built from source with CUDA 11",
        built_with_cuda_11,
        "wrong-cupy-wheel-for-cuda-major|cuda-library-missing",
        fixed_versions=FIXED,
    ),
    EnvironmentCase(
        "one from source and one by wheel", source_and_wheel, "multiple-cupy-packages", fixed_versions=FIXED
    ),
    EnvironmentCase(
        "NumPy 2 under CuPy 13.0", new_numpy_and_old_cupy, "numpy-incompatible", fixed_versions={"numpy": "2.1.0"}
    ),
    EnvironmentCase(
        "a wrong line next to torch of CUDA 13",
        torch_of_cuda_13,
        "gpu-removed-from-toolkit",
        first_fix="cupy-cuda12x",
        fixed_versions={**FIXED, "cupy-cuda12x": "13.6.0", "torch": "2.6.0", "nvidia-cuda-nvrtc": "13.5.37"},
    ),
    EnvironmentCase("a build for ROCm", rocm_build, "rocm-mismatch", first_fix="cupy-rocm-5-0", fixed_versions=FIXED),
    EnvironmentCase(
        "pip's wrong line in a conda environment",
        wrong_line_by_pip_in_conda,
        "gpu-removed-from-toolkit",
        first_fix="cupy-cuda12x",
        fixed_versions=FIXED,
    ),
    EnvironmentCase(
        "pip's CuPy over conda's", pip_cupy_over_conda_cupy, "mixed-pip-conda", first_fix="--force-reinstall"
    ),
    EnvironmentCase(
        "conda's NumPy is too old for pip's CuPy",
        old_conda_numpy,
        "numpy-incompatible",
        fixed_versions={"cupy-cuda12x": "13.6.0", "numpy": "1.26.4"},
    ),
    EnvironmentCase(
        "pip's NumPy over conda's is too old",
        old_pip_numpy_over_conda,
        "numpy-incompatible|mixed-pip-conda",
        fixed_versions={"cupy-cuda12x": "13.6.0", "numpy": "1.26.4"},
    ),
    EnvironmentCase(
        "a pixi project without CuPy",
        pixi_project,
        "cupy-not-installed",
        first_fix="pixi add",
        forbidden_words=("conda install", "pip install"),
        fix_exit_code=7,
        install_exit_code=7,
    ),
    EnvironmentCase(
        "a pixi project with a wrong line from PyPI",
        pixi_project_with_wheel,
        "gpu-removed-from-toolkit",
        first_fix="pixi add",
        forbidden_words=("conda install", "pip uninstall", "uv pip install"),
        fix_exit_code=7,
        install_exit_code=7,
    ),
    EnvironmentCase(
        "two lines in a venv with pip",
        two_lines_with_pip,
        "multiple-cupy-packages",
        first_fix="-m pip",
        fixed_versions=FIXED,
    ),
    EnvironmentCase(
        "two lines in an unmanaged Python", two_lines_in_system_python, "multiple-cupy-packages", fixed_versions=FIXED
    ),
)
