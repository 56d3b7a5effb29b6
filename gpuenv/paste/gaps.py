"""What a paste leaves open that a decision needs, and the command whose output says it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.matrix.needs import driver_absent
from gpuenv.model.cupy import is_cupy
from gpuenv.model.snapshot import Snapshot
from gpuenv.paste.records import Gap, Pasted

_LIST, _LIST_OF_CONDA = "python -m pip list", "conda list"


def gaps(pasted: Pasted, snapshot: Snapshot) -> Iterator[Gap]:
    """The facts that are missing to decide, the weightiest first."""
    windows = snapshot.host.os.value == "windows"
    if not (snapshot.driver.version.known or snapshot.driver.cuda.known or driver_absent(snapshot)):
        yield Gap("driver", "the driver", "which CUDA it supports decides which wheels can start", "nvidia-smi")
    yield from _of_gpus(snapshot)
    if not snapshot.target.python.known:
        ask = "python -VV" if windows else "python --version"
        yield Gap("python", "the Python version", "a wheel is made for one", ask)
    yield from _of_cupy(pasted, snapshot)
    if not (snapshot.host.os.known and snapshot.host.arch.known):
        ask = "python -VV" if windows else "uname -a"
        yield Gap("arch", "the operating system and its architecture", "a wheel is made for one", ask)
    if snapshot.host.os.value in (None, "linux") and not snapshot.host.libc.known:
        yield Gap("libc", "the C library", "wheels need one that is new enough", "ldd --version")


def _of_gpus(snapshot: Snapshot) -> Iterator[Gap]:
    unnamed = [gpu for gpu in snapshot.gpus if not gpu.compute_capability.known]
    if not (snapshot.gpus or snapshot.pci_gpus or snapshot.amd_gpus):
        yield Gap("gpu", "the GPU", "its compute capability decides which wheels have code for it", "nvidia-smi -L")
    elif unnamed:
        yield Gap(
            "gpu", "the GPU's name in full", "it is cut or not known, so its compute capability is not", "nvidia-smi -L"
        )


def _of_cupy(pasted: Pasted, snapshot: Snapshot) -> Iterator[Gap]:
    ask = _LIST_OF_CONDA if "/envs/" in (snapshot.target.cuda_path.value or "") else _LIST
    if not snapshot.target.cupy and not pasted.listings:
        yield Gap("cupy", "the installed CuPy", "what is there may be the fault", ask)
    elif not any(is_cupy(name) for name in pasted.packages) and snapshot.target.cupy:
        yield Gap(
            "cupy",
            "the name of the installed CuPy",
            f"taken for {snapshot.target.cupy[0].distribution}; a second one or a build from source cannot be seen",
            ask,
        )
