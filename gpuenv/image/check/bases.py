"""What is known of a base image by its name: its CUDA, its flavour, and whether it has any CUDA at all. Pure."""

from __future__ import annotations

import re

from gpuenv.image.check.facts import ImageError
from gpuenv.image.check.names import Name, parse_name
from gpuenv.image.check.variables import is_known
from gpuenv.matrix.packages import Flavour, Image
from gpuenv.matrix.records import Matrix
from gpuenv.model.record import dataclass
from gpuenv.model.versions import CudaVersion, PythonVersion

# nvidia/cuda: X.Y.Z, then cuDNN before or within the flavour, then the distribution: container-images/cuda,
# doc/supported-tags.md (as the matrix cites it) and README.md, announcements: no tag latest any more (read 2026-11-21).
_NVIDIA = re.compile(
    r"(\d{1,3})\.(\d{1,3})(?:\.\d+)?(?:-cudnn\d*)?(?:-(base|runtime|devel))?(?:-cudnn\d*)?(?:-([a-z]+[\d.]*))?"
)
_NVIDIA_NAMES = ("nvidia/cuda", "nvcr.io/nvidia/cuda")
_CUDA_IN_TAG = re.compile(r"(?:^|[^a-z0-9])(?:cuda|cu)[-_]?(\d{1,2})\.(\d{1,2})")
_PYTHON_TAG = re.compile(r"(\d\.\d{1,2})(?:\.\d+)?(?:[a-z]+\d+)?(?:-|$)")
# Images that have no CUDA: systems, and Python on them.
_PLAIN = (
    *("python", "debian", "ubuntu", "alpine", "fedora", "rockylinux", "almalinux", "centos", "amazonlinux", "scratch"),
    *("opensuse/leap", "redhat/ubi8", "redhat/ubi9", "oraclelinux", "archlinux", "busybox", "buildpack-deps"),
    *("continuumio/miniconda3", "continuumio/anaconda3", "condaforge/miniforge3", "condaforge/mambaforge"),
    *("mambaorg/micromamba", "ghcr.io/astral-sh/uv", "pypy"),
)


@dataclass(frozen=True, slots=True)
class Base:
    """A base image; null is what its name does not tell.

    Attributes:
        text: as it is written.
        name: its parts; null where a variable in it is not known.
        cuda: its CUDA.
        flavour: how much of CUDA it has.
        plain: whether it is known to have none.
        nvidia: whether it is one of nvidia/cuda, which sets the variables of the container runtime.
        musl: whether its C library is musl.
        python: its Python.
        row: the matrix's row.
    """

    text: str
    name: Name | None = None
    cuda: CudaVersion | None = None
    flavour: Flavour | None = None
    plain: bool = False
    nvidia: bool = False
    musl: bool = False
    python: PythonVersion | None = None
    row: Image | None = None

    @property
    def has_cuda(self) -> bool:
        """Whether it is an image for GPUs, as far as its name tells."""
        return self.nvidia or self.cuda is not None or self.row is not None


def base_of(text: str, matrix: Matrix) -> Base:
    """What a base image's name tells."""
    if not is_known(text):
        return _half_known(text)
    try:
        name = parse_name(text)
    except ImageError:
        return Base(text)
    tag = name.tag or ""
    row = next((row for row in matrix.images if row.reference == f"{name.familiar}:{tag}"), None)
    if name.familiar in _NVIDIA_NAMES:
        return _nvidia(text, name, row)
    if name.familiar in _PLAIN or name.familiar.startswith("gcr.io/distroless/"):
        python = _PYTHON_TAG.match(tag) if name.familiar == "python" else None
        musl = name.familiar == "alpine" or "alpine" in tag
        return Base(text, name, plain=True, musl=musl, python=PythonVersion.parse(python[1]) if python else None)
    if row is not None:
        return Base(text, name, row.cuda, row.flavour, row=row)
    match = _CUDA_IN_TAG.search(tag)
    return Base(text, name, CudaVersion(int(match[1]), int(match[2])) if match else None, musl="alpine" in tag)


def _nvidia(text: str, name: Name, row: Image | None) -> Base:
    match = _NVIDIA.fullmatch(name.tag or "")
    if match is None:
        return Base(text, name, nvidia=True, row=row)
    flavour = Flavour(match[3]) if match[3] else None
    return Base(text, name, CudaVersion(int(match[1]), int(match[2])), flavour, nvidia=True, row=row)


def _half_known(text: str) -> Base:
    """A name with a variable that nobody knows: what stands beside it may tell all the same."""
    bare = text.partition(":")
    flavour = re.search(r"-(base|runtime|devel)\b", bare[2])
    if bare[0] in _NVIDIA_NAMES:
        cuda = _NVIDIA.match(bare[2])
        version = CudaVersion(int(cuda[1]), int(cuda[2])) if cuda else None
        return Base(text, None, version, Flavour(flavour[1]) if flavour else None, nvidia=True)
    return Base(text, None, plain=bare[0] in _PLAIN, musl="alpine" in text)
