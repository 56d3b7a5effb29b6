"""Environments of public reports: wheel lines that do not match the installed CUDA, package lists and variables."""

from __future__ import annotations

from gpuenv.model.reading import known
from gpuenv.model.snapshot import CupyInstallation, Snapshot
from tests.doctor.public_reports import (
    LACKING,
    LINUX,
    NOWHERE,
    WINDOWS,
    WRONG,
    Change,
    Reported,
    changed,
    libraries,
    on,
    toolkit,
    unloadable,
)
from tests.doctor.test_user_machines import SITE

DLL = "windows-dll-load-failure"
NO_DLL = "Could not find module 'core.cp310-win_amd64.pyd' (or one of its dependencies)."
TORCH = (
    *("package.torch=2.11.0", "package.nvidia-cuda-nvrtc=13.0.88", "package.nvidia-cublas=13.1.0.3"),
    *("package.nvidia-cufft=12.0.0.61", "package.nvidia-cusparse=12.6.3.3"),
)
BESIDE_TORCH = on(
    LINUX, "driver-cuda=12.7", "gpu=A100", "python=3.13", "numpy=2.4.3", "cupy=cupy-cuda12x==14.0.1", *TORCH
)
GTX_1080 = on(LINUX, "driver=580.95.05", "gpu=GTX 1080", "python=3.13", "numpy=2.3.4", "cupy=cupy==13.6.0")


def built(release: str, cuda: int) -> Change:
    """A CuPy built from source, linked with this CUDA."""
    entry = CupyInstallation("cupy", release, cuda_major=cuda)
    return lambda snapshot: snapshot._replace(target=snapshot.target._replace(cupy=(entry,)))


def astray(snapshot: Snapshot) -> Snapshot:
    """cuda-pathfinder finds the libraries of CUDA 13 first."""
    libraries_of_cuda_13 = tuple(
        entry._replace(finder_path=f"{SITE}/nvidia/cu13/lib/{entry.soname.replace('so.12', 'so.13')}")
        for entry in snapshot.target.libraries
    )
    return snapshot._replace(target=snapshot.target._replace(libraries=libraries_of_cuda_13))


def windows(cupy: str, python: str) -> Reported:
    """A wheel older than CuPy 13 on Windows without a toolkit."""
    result = ("driver=560.94", "gpu=RTX 3070", f"python={python}", "numpy=1.23.5", f"cupy={cupy}", "toolkit=none")
    return Reported(DLL, on(WINDOWS, *result), "CUDA_PATH", unloadable(NO_DLL))


def linked(soname: str, cause: str, fix_text: str, *options: str, change: Change) -> Reported:
    """A CuPy whose module is linked with a library that the loader does not find."""
    return Reported(cause, on(LINUX, *options), fix_text, changed(change, unloadable(f"{soname}: {NOWHERE}")))


def on_tegra(snapshot: Snapshot) -> Snapshot:
    return snapshot._replace(host=snapshot.host._replace(tegra=known("R32.3.1", "/etc/nv_tegra_release")))


REPORTED_LINES = {
    "cupy/cupy#6157": Reported(
        "jetson-tegra",
        (
            "os=linux", "arch=aarch64", "libc=glibc-2.27", "python=3.6", "driver-cuda=10.0", "compute-capability=7.2",
            "cupy=none", "toolkit=10.0",
        ),
        "JetPack",
        on_tegra,
    ),
    "rapidsai/cusignal#304": Reported(
        "jetson-tegra",
        (
            "os=linux", "arch=aarch64", "libc=glibc-2.27", "python=3.8", "driver-cuda=10.0", "gpu=Jetson Nano",
            "cupy=none", "toolkit=10.0",
        ),
        "CUPY_NVCC_GENERATE_CODE",
        on_tegra,
    ),
    "arch4edu/arch4edu#220": linked(
        "libcudart.so.11.0", WRONG, "cupy-cuda12x",
        "driver=525.85.12", "gpu=RTX 3090", "python=3.10", "numpy=1.23.5", "cupy=cupy==11.4.0",
        change=toolkit("12.0", "/opt/cuda"),
    ),
    "rapidsai-community/rapidsai-csp-utils#91": linked(
        "libcudart.so.11.0", WRONG, "cupy-cuda12x",
        "driver=525.85.12", "gpu=T4", "python=3.10", "numpy=1.23.5", "cupy=cupy-cuda11x==11.6.0",
        change=changed(libraries(11, gone=True), toolkit("12.0", "/usr/local/cuda-12.0")),
    ),
    "cupy/cupy#714": linked(
        "libcudart.so.7.5", WRONG, "CUDA 7.5",
        "driver=384.66", "gpu=GTX 1080", "python=3.5", "numpy=1.14.0", "cupy=cupy==2.0.0",
        change=toolkit("8.0", "/usr/local/cuda-8.0"),
    ),
    "asappresearch/sru#59": linked(
        "libcublas.so.9.1", WRONG, "CUDA 9.1",
        "driver=390.46", "gpu=Titan V", "python=3.5", "numpy=1.14.0", "cupy=cupy-cuda91==4.1.0",
        change=toolkit("9.0", "/usr/local/cuda-9.0"),
    ),
    "cupy/cupy#4608": linked(
        "libcudart.so.10.2", LACKING, "LD_LIBRARY_PATH=/usr/local/cuda-10.2/lib64",
        "driver=440.33.01", "gpu=V100", "python=3.6", "numpy=1.19.5", "cupy=cupy-cuda102==8.4.0",
        change=toolkit("10.2", "/usr/local/cuda-10.2"),
    ),
    "Fannovel16/ComfyUI-Frame-Interpolation#26": Reported(
        WRONG,
        on(
            WINDOWS, "driver=560.94", "gpu=RTX 3070", "python=3.11", "numpy=1.26.4", "cupy=cupy-cuda11x==12.3.0",
            "package.torch=2.1.2+cu121",
        ),
        "cupy-cuda12x",
        libraries(11, gone=True),
    ),
    "Fannovel16/ComfyUI-Frame-Interpolation#19": windows("cupy-cuda12x==12.1.0", "3.10"),
    "cupy/cupy#6325": windows("cupy-cuda111==9.6.0", "3.8"),
    "cupy/cupy#7253": windows("cupy-cuda11x==11.3.0", "3.10"),
    "cupy/cupy#9827, by its list of packages": Reported("torch-cupy-conflict", BESIDE_TORCH, "nvidia-cuda-nvrtc"),
    "cupy/cupy#9827, by its libraries": Reported(
        "torch-cupy-conflict", BESIDE_TORCH, "nvidia-cuda-nvrtc", changed(libraries(12, release="13.0"), astray)
    ),
    "cupy/cupy#9475": Reported(
        "gpu-removed-from-toolkit",
        GTX_1080,
        "cupy-cuda12x",
        changed(built("13.6.0", 13), libraries(13, release="13.0"), toolkit("13.0", "/opt/cuda")),
    ),
    "cupy/cupy#9604": Reported(
        "python-unsupported",
        on(LINUX, "driver=580.95.05", "gpu=RTX 4090", "python=3.14", "cupy=cupy-cuda13x==13.6.0"),
        "cupy-cuda13x[ctk]==14",
    ),
    "numba/numba#5793, by its variable": Reported(
        "visible-devices-hide-gpu", ("env.CUDA_VISIBLE_DEVICES=-1",), "CUDA_VISIBLE_DEVICES"
    ),
    "cupy/cupy#2950": Reported(
        "cuda-path-wrong",
        on(
            WINDOWS, "driver=560.94", "gpu=GTX 1080", "python=3.8", "numpy=1.19.5", "cupy=cupy-cuda101==7.1.1",
            r"env.CUDA_PATH=C:\NVIDIA\CUDA\v10.2\bin",
        ),
        r"CUDA_PATH = 'C:\NVIDIA\CUDA\v10.2",
    ),
    "cupy/cupy#5847": Reported(
        "gpu-removed-from-toolkit",
        on(
            LINUX, "driver=470.63.01", "gpu=TITAN V", "gpu=Quadro K600", "python=3.6", "numpy=1.19.5",
            "cupy=cupy-cuda114==9.5.0",
        ),
        "CUDA_VISIBLE_DEVICES=0",
    ),
}  # fmt: skip
