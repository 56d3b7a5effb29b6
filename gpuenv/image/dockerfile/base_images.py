"""What is known of a base image by its name: its CUDA, its flavour, and whether it has any CUDA at all."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gpuenv.image.dockerfile.variables import is_known
from gpuenv.image.reference import HUB, ImageReference, ImageReferenceError, parse_reference
from gpuenv.matrix.tables import Flavour, Image, Matrix
from gpuenv.model.versions import CudaVersion, PythonVersion

# nvidia/cuda: X.Y.Z, then cuDNN before or within the flavour, then the distribution: container-images/cuda,
# doc/supported-tags.md (as the matrix cites it) and README.md, announcements: no tag latest any more (read 2026-11-21).
# With TensorRT in cuDNN's place from 13.0.0 on, as public Dockerfiles have it: 13.0.0-tensorrt-devel-ubuntu24.04.
_NVIDIA = re.compile(
    r"(\d{1,3})\.(\d{1,3})(\.\d+)?(?:-(?:cudnn\d*|tensorrt))?(?:-(base|runtime|devel))?(?:-cudnn\d*)?"
    r"(?:-([a-z]+[\d.]*))?"
)
_NVIDIA_NAMES = ("nvidia/cuda", "nvcr.io/nvidia/cuda")
# How tags and repositories name a CUDA: cuda12.1, cuda-12.1, cuda-12-1, cu12.1; without a point cu118, cuda92. A lone
# major (cuda12) tells no version, and neither does what follows it (cuda12-1.19.2 is of something else).
_CUDA_NAMED = re.compile(
    r"(?:^|[^a-z0-9])(?:cuda|cu)(?:[-_.]?(\d{1,2})\.(\d{1,2})|[-_](\d\d)[-_](\d)(?![\d.])|[-_]?(\d\d|[89])(\d)(?![\d.]))"
)
# container-images/cuda, doc/supported-tags.md (as the matrix cites it): no tag X.Y without the third number. Of CUDA up
# to 11.1 there were such tags, and public Dockerfiles name them.
_FIRST_WHOLE = CudaVersion(11, 2)
_OLDEST_NAMED, _NEWEST_NAMED = 7, 20  # majors: what is outside of them is no CUDA
# Images whose tags with a CUDA are made from nvidia/cuda's of the flavour base: mamba-org/micromamba-docker, CHANGELOG
# ("Add image based on nvidia/cuda:12.4.1-base-ubuntu22.04"); prefix-dev/pixi, Container ("noble-cuda-12.9.1 - based on
# nvidia/cuda:12.9.1-base-ubuntu24.04") (both read 2026-11-22). Their other tags are systems without CUDA.
# PyTorch's of the flavour devel are made from nvidia/cuda's devel: pytorch/pytorch, docker.Makefile, BASE_DEVEL (read
# 2026-11-22).
_ON_NVIDIA = (
    (re.compile(r"(?:mambaorg/micromamba|ghcr\.io/prefix-dev/pixi):.*"), Flavour.BASE),
    (re.compile(r"pytorch/pytorch:.*-devel"), Flavour.DEVEL),
)
# nvcr.io/nvidia/pytorch:25.12-py3 and the like: the month of the release names the CUDA, which the matrix has of some.
_NGC = re.compile(r"nvcr\.io/nvidia/([a-z]+):(\d\d\.\d\d(?:\.\d)?)-(?:tf\d-)?py\d")
# What a mirror or a proxy of Docker Hub has under its own name and that one.
_MIRRORED = re.compile(
    r"(?:.*/)?(library/[a-z0-9-]+|nvidia/cuda|pytorch/pytorch|cupy/cupy|mambaorg/micromamba|condaforge/[a-z0-9]+"
    r"|continuumio/[a-z0-9]+)"
)
# Images for other GPUs: NVIDIA's of L4T and those of jetson-containers, which are made from them, and those of NGC that
# are for the GPU of a Jetson by their tag; AMD's own.
_TEGRA = re.compile(r"(?:nvcr\.io/nvidia/(?:l4t-|deepstream-l4t)|dustynv/|balenalib/jetson).*|.*:(?:.*-)?igpu(?:-.*)?")
_ROCM = "rocm/"
_PYTHON_TAG = re.compile(r"(\d\.\d{1,2})(?:\.\d+)?(?:[a-z]+\d+)?(?:-|$)")
# Images that have no CUDA: systems, and Python on them.
_PLAIN = (
    *("python", "debian", "ubuntu", "alpine", "fedora", "rockylinux", "almalinux", "centos", "amazonlinux", "scratch"),
    *("opensuse/leap", "redhat/ubi8", "redhat/ubi9", "oraclelinux", "archlinux", "busybox", "buildpack-deps"),
    *("continuumio/miniconda3", "continuumio/anaconda3", "condaforge/miniforge3", "condaforge/mambaforge"),
    *("mambaorg/micromamba", "ghcr.io/prefix-dev/pixi", "ghcr.io/astral-sh/uv", "pypy", "bash", "docker", "gcc"),
    *("caddy", "eclipse-temurin", "elasticsearch", "golang", "gradle", "haproxy", "httpd", "julia", "mariadb", "maven"),
    *("memcached", "mongo", "mysql", "nginx", "node", "openjdk", "perl", "php", "postgres", "r-base", "rabbitmq"),
    *("redis", "ruby", "rust", "swift", "traefik"),
)
_PLAIN_FOLDERS = ("gcr.io/distroless/", "mcr.microsoft.com/devcontainers/", "mcr.microsoft.com/vscode/devcontainers/")


@dataclass(frozen=True, slots=True)
class BaseImage:
    """A base image, judged by its name; fields are null where the name says nothing.

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
        akin: the matrix's row of nvidia/cuda with the same CUDA, where it is made from an image of that.
        tegra: whether it is for a Jetson.
        rocm: whether it is for AMD's GPUs.
    """

    text: str
    name: ImageReference | None = None
    cuda: CudaVersion | None = None
    flavour: Flavour | None = None
    plain: bool = False
    nvidia: bool = False
    musl: bool = False
    python: PythonVersion | None = None
    row: Image | None = None
    akin: Image | None = None
    tegra: bool = False
    rocm: bool = False

    @property
    def unknown(self) -> bool:
        """Whether nothing tells what it has of CUDA, or that it has none."""
        return not (self.plain or self.has_cuda or self.tegra or self.rocm)

    @property
    def has_cuda(self) -> bool:
        """Whether it is an image for GPUs, as far as its name tells."""
        return self.nvidia or self.cuda is not None or self.row is not None


def base_of(text: str, matrix: Matrix) -> BaseImage:
    """The base image of a name."""
    name = _name(text) if is_known(text) else None
    if name is None:
        return BaseImage(text) if is_known(text) else _half_known(text, matrix)
    name = _unmirrored(name)
    tag = name.tag or ""
    row = next((row for row in matrix.images if row.reference == f"{name.familiar}:{tag}"), None)
    if name.familiar in _NVIDIA_NAMES:
        return _nvidia(text, name, row, matrix)
    cuda = _named_cuda(name)
    flavour = next((known for pattern, known in _ON_NVIDIA if pattern.fullmatch(f"{name.familiar}:{tag}")), None)
    if flavour is not None and cuda is not None:
        return BaseImage(text, name, cuda, flavour, akin=_akin(cuda, matrix))
    if name.familiar in _PLAIN or name.familiar.startswith(_PLAIN_FOLDERS):
        return _plain(text, name)
    if row is not None:
        return BaseImage(text, name, row.cuda, row.flavour, row=row)
    return _other(text, name, cuda or _of_month(name, matrix))


def _of_month(name: ImageReference, matrix: Matrix) -> CudaVersion | None:
    """The CUDA of a release of NVIDIA's framework images; unknown where its release notes were not read."""
    match = _NGC.fullmatch(f"{name.familiar}:{name.tag or ''}")
    rows = (row for row in matrix.ngc_releases if match and (row.image, row.release) == (match[1], match[2]))
    return next((row.cuda for row in rows), None)


def _name(text: str) -> ImageReference | None:
    try:
        return parse_reference(text)
    except ImageReferenceError:
        return None


def _unmirrored(name: ImageReference) -> ImageReference:
    """The name on Docker Hub of an image that a mirror or a proxy has under its own name plus that one."""
    found = None if name.registry == HUB else _MIRRORED.fullmatch(name.repository)
    return replace(name, registry=HUB, repository=found[1]) if found is not None else name


def _plain(text: str, name: ImageReference) -> BaseImage:
    tag = name.tag or ""
    python = _PYTHON_TAG.match(tag) if name.familiar == "python" else None
    musl = name.familiar == "alpine" or "alpine" in tag
    return BaseImage(text, name, plain=True, musl=musl, python=PythonVersion.parse(python[1]) if python else None)


def _other(text: str, name: ImageReference, cuda: CudaVersion | None) -> BaseImage:
    tag = name.tag or ""
    tegra = _TEGRA.fullmatch(f"{name.familiar}:{tag}") is not None
    rocm = name.familiar.startswith(_ROCM)
    return BaseImage(text, name, cuda, musl="alpine" in tag, tegra=tegra, rocm=rocm)


def _named_cuda(name: ImageReference) -> CudaVersion | None:
    """The CUDA that a tag names, or the last part of a repository; or a tag as NVIDIA's, of a repository for CUDA."""
    last = name.repository.rsplit("/", 1)[-1]
    whole = _NVIDIA.fullmatch(name.tag or "") if "cuda" in last else None
    if whole is not None and whole[4]:
        return CudaVersion(int(whole[1]), int(whole[2]))
    for text in (name.tag or "", last):
        for match in _CUDA_NAMED.finditer(text):
            major, minor = (int(part) for part in match.groups() if part is not None)
            if _OLDEST_NAMED <= major <= _NEWEST_NAMED:
                return CudaVersion(major, minor)
    return None


def _akin(cuda: CudaVersion | None, matrix: Matrix) -> Image | None:
    """A row of nvidia/cuda with the same CUDA, whose requirement on the driver derived images share."""
    rows = (row for row in matrix.images if row.cuda == cuda and row.line is None)
    return next((row for row in rows if row.reference.rsplit(":", 1)[0] in _NVIDIA_NAMES), None)


def _nvidia(text: str, name: ImageReference, row: Image | None, matrix: Matrix) -> BaseImage:
    match = _NVIDIA.fullmatch(name.tag or "")
    if match is None:
        return BaseImage(text, name, nvidia=True, row=row)
    flavour = Flavour(match[4]) if match[4] else None
    cuda = CudaVersion(int(match[1]), int(match[2]))
    return BaseImage(text, name, cuda, flavour, nvidia=True, row=row, akin=_akin(cuda, matrix))


def is_whole_tag(tag: str) -> bool:
    """Whether a tag of nvidia/cuda has every part that there is: CUDA, flavour and distribution."""
    match = _NVIDIA.fullmatch(re.sub(r"\d{4,}", "999", tag))  # a CUDA that may come one day, as far as its form goes
    if match is None or not (match[4] and match[5]) or f"{match[4]}-cudnn" in tag:
        return False
    return match[3] is not None or CudaVersion(int(match[1]), int(match[2])) < _FIRST_WHOLE


def _half_known(text: str, matrix: Matrix) -> BaseImage:
    """A name with an unknown variable: the rest of it may still be enough."""
    bare = text.partition(":")
    flavour = re.search(r"-(base|runtime|devel)\b", bare[2])
    if bare[0] in _NVIDIA_NAMES:
        cuda = _NVIDIA.match(bare[2])
        version = CudaVersion(int(cuda[1]), int(cuda[2])) if cuda else None
        known = Flavour(flavour[1]) if flavour else None
        return BaseImage(text, None, version, known, nvidia=True, akin=_akin(version, matrix))
    return BaseImage(text, None, plain=bare[0] in _PLAIN, musl="alpine" in text)
