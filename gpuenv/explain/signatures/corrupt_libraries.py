"""Messages of the dynamic loader of Linux about damaged library files."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_LOADER = "glibc, elf/dl-load.c; CPython's ImportError repeats it"


def _library_weights(values: Mapping[str, str]) -> Weights:
    """The driver's own libraries come with the driver, all others with a distribution or a toolkit."""
    if "driver" in values:
        return ((Cause.DRIVER_INSTALL_BROKEN, 0.8), (Cause.CORRUPT_INSTALLATION, 0.08))
    return ((Cause.CORRUPT_INSTALLATION, 0.8),)


SIGNATURES = (
    Signature(
        "ld.damaged",
        "ld.so",
        ("file too short", "invalid elf header", "elf load command", "elf file's phentsize", "cannot read file data"),
        ((Cause.CORRUPT_INSTALLATION, 0.78), (Cause.KERNEL_CACHE_RACE, 0.04)),
        _LOADER,
        pattern=r"(?:(?P<driver>libcuda\.so|libnvidia-|libnvcuvid|libnvoptix)|lib(?:cu|nv)\w|cupy|lib(?:torch|c10|ATen|tensorflow|mxnet|paddle|xgboost|onnxruntime)|-packages/(?:\S+\.so)?)\S*: (?:file too short|invalid ELF header|ELF load command|ELF file's phentsize|cannot read file data)",
        title="A library's file is damaged",
        weights_fn=_library_weights,
        modifiers=(
            Modifier("empty-libcuda", Cause.CORRUPT_INSTALLATION, 0.1),
            Modifier("empty-libcuda", Cause.DRIVER_INSTALL_BROKEN, 0.1),
        ),
    ),
    Signature(
        "ld.empty-libcuda",
        "ld.so",
        ("file too short",),
        ((Cause.CONTAINER_WITHOUT_GPU, 0.62), (Cause.DRIVER_INSTALL_BROKEN, 0.3)),
        f"{_LOADER}; libnvidia-container leaves empty files where it mounts the driver's libraries",
        pattern=r"lib(?:cuda|nvidia-ml)\.so\S*: file too short",
        title="libcuda is an empty file, as an image keeps that was committed from a GPU container",
        evidence="empty-libcuda",
        modifiers=(
            Modifier("host", Cause.DRIVER_INSTALL_BROKEN, 5),
            Modifier("host", Cause.CONTAINER_WITHOUT_GPU, 0.1),
        ),
        decisive_fact="whether this is a container: --assume container=yes or no",
    ),
)
