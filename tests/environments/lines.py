"""Lines and releases that do not fit, in venvs and in conda's environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.environments.making import (
    NUMPY,
    TWELVE,
    add,
    compiled_with,
    conda_prefix,
    of_python,
    own_wheel,
    put_by_conda,
    site,
    write,
)
from tests.environments.table import Odd, Place
from tests.install.wheels import Package, cupy, numpy
from tests.scenarios.target_setups import SUFFIX

if TYPE_CHECKING:
    from tests.install.standins import Ground

RIGHT = {"cupy-cuda12x": "14.2.0", "numpy": "2.1.0"}
SOURCE = {"cupy/__init__.py": "", "cupyx/__init__.py": "", "cupy_backends/__init__.py": ""}
META_OF_PIXI = '{"manifest_path": "%s", "environment_name": "default"}'


def source_package(release: str) -> Package:
    return Package("cupy", release, ("numpy>=1.22",), files=SOURCE)


def of_python_39(ground: Ground) -> Place:
    return Place(of_python(ground, "3.9", "nine", own_wheel(ground, numpy("2.0.2"))))


def of_python_313(ground: Ground) -> Place:
    return Place(of_python(ground, "3.13", "thirteen", "cupy-cuda13x==14.2.0", NUMPY))


def built_with_cuda_11(ground: Ground) -> Place:
    """The source distribution, built where CUDA 11 was the toolkit."""
    target = ground.target("built", NUMPY)
    add(ground, target / "bin/python", own_wheel(ground, source_package("13.6.0")))
    compiled_with(ground, site(target), "libcublas.so.11")
    record = site(target) / "cupy-13.6.0.dist-info/RECORD"
    with record.open("a", encoding="utf-8") as file:
        file.write(f"cupy/_core/core{SUFFIX},,\n")
    return Place(target)


def source_and_wheel(ground: Ground) -> Place:
    target = ground.target("source-too", TWELVE, NUMPY)
    add(ground, target / "bin/python", own_wheel(ground, source_package("13.6.0")))
    return Place(target)


def new_numpy_and_old_cupy(ground: Ground) -> Place:
    old = cupy("cupy-cuda12x", "13.0.0", numpy="numpy<1.29,>=1.22")
    target = ground.target("old", NUMPY)
    add(ground, target / "bin/python", own_wheel(ground, old))
    return Place(target)


def torch_of_cuda_13(ground: Ground) -> Place:
    packages = ("cupy-cuda13x==14.2.0", NUMPY, "torch==2.6.0", "nvidia-cuda-nvrtc==13.5.37")
    return Place(ground.target("torch", *packages))


def for_rocm(ground: Ground) -> Place:
    target = ground.target("amd", NUMPY)
    add(ground, target / "bin/python", own_wheel(ground, cupy("cupy-rocm-5-0", "13.6.0")))
    return Place(target)


def wrong_line_by_pip_in_conda(ground: Ground) -> Place:
    prefix = conda_prefix(ground, "conda", NUMPY)
    add(ground, prefix / "bin/python", "cupy-cuda13x==14.2.0")
    return Place(prefix, others=(prefix / "conda-meta",))


def pip_beside_conda(ground: Ground) -> Place:
    prefix = conda_prefix(ground, "both", NUMPY)
    put_by_conda(ground, prefix, own_wheel(ground, source_package("14.1.1")), "cupy-core")
    write(prefix / "conda-meta/cuda-version-12.9-h4f385c5_3.json", '{"name": "cuda-version", "version": "12.9"}')
    add(ground, prefix / "bin/python", TWELVE)
    return Place(prefix)


def numpy_of_conda(ground: Ground) -> Place:
    prefix = conda_prefix(ground, "old-numpy", "numpy==1.26.4")
    add(ground, prefix / "bin/python", TWELVE)
    return Place(prefix, others=(prefix / "conda-meta",))


def numpy_of_pip_over_condas(ground: Ground) -> Place:
    """Pip has removed conda's NumPy, whose record stays, and has put an older one there."""
    prefix = conda_prefix(ground, "over-conda", NUMPY)
    add(ground, prefix / "bin/python", TWELVE, "numpy==1.26.4")
    return Place(prefix, others=(prefix / "conda-meta",))


def of_pixi(ground: Ground) -> Place:
    project = ground.folder / "project"
    prefix = conda_prefix(ground, "project/.pixi/envs/default", NUMPY)
    manifest = write(project / "pixi.toml", '[workspace]\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n')
    write(prefix / "conda-meta/pixi", META_OF_PIXI % manifest)
    return Place(prefix, folder=project)


def pixi_with_a_wheel(ground: Ground) -> Place:
    """A PyPI dependency of the project, which pixi itself installs by uv."""
    place = of_pixi(ground)
    add(ground, place.prefix / "bin/python", "cupy-cuda13x==14.2.0")
    write(site(place.prefix) / "cupy_cuda13x-14.2.0.dist-info/INSTALLER", "uv-pixi\n")
    return place


LINES = (
    Odd(
        "nothing yet, in Python 3.9",
        of_python_39,
        "cupy-not-installed",
        first="13.6.0",
        mended={"cupy-cuda12x": "13.6.0"},
    ),
    Odd("a wrong line in Python 3.13", of_python_313, "gpu-removed-from-toolkit", first="cupy-cuda12x", mended=RIGHT),
    Odd(
        "built from source with CUDA 11",
        built_with_cuda_11,
        "wrong-cupy-wheel-for-cuda-major|cuda-library-missing",
        mended=RIGHT,
    ),
    Odd("one from source and one by wheel", source_and_wheel, "multiple-cupy-packages", mended=RIGHT),
    Odd("NumPy 2 under CuPy 13.0", new_numpy_and_old_cupy, "numpy-incompatible", mended={"numpy": "2.1.0"}),
    Odd(
        "a wrong line beside torch of CUDA 13",
        torch_of_cuda_13,
        "gpu-removed-from-toolkit",
        first="cupy-cuda12x",
        mended={**RIGHT, "cupy-cuda12x": "13.6.0", "torch": "2.6.0", "nvidia-cuda-nvrtc": "13.5.37"},
    ),
    Odd("a build for ROCm", for_rocm, "rocm-mismatch", first="cupy-rocm-5-0", mended=RIGHT),
    Odd(
        "pip's wrong line in an environment of conda's",
        wrong_line_by_pip_in_conda,
        "gpu-removed-from-toolkit",
        first="cupy-cuda12x",
        mended=RIGHT,
    ),
    Odd("pip's CuPy beside conda's", pip_beside_conda, "mixed-pip-conda", first="--force-reinstall"),
    Odd(
        "conda's NumPy is too old for pip's CuPy",
        numpy_of_conda,
        "numpy-incompatible",
        mended={"cupy-cuda12x": "13.6.0", "numpy": "1.26.4"},
    ),
    Odd(
        "pip's NumPy over conda's is too old",
        numpy_of_pip_over_condas,
        "numpy-incompatible|mixed-pip-conda",
        mended={"cupy-cuda12x": "13.6.0", "numpy": "1.26.4"},
    ),
    Odd(
        "a pixi project without CuPy",
        of_pixi,
        "cupy-not-installed",
        first="pixi add",
        unsaid=("conda install", "pip install"),
        code=7,
        install=7,
    ),
    Odd(
        "a pixi project with a wrong line from PyPI",
        pixi_with_a_wheel,
        "gpu-removed-from-toolkit",
        first="pixi add",
        unsaid=("conda install", "pip uninstall", "uv pip install"),
        code=7,
        install=7,
    ),
)
