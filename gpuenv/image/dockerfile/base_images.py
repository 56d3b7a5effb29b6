"""Facts about a base image from its name: its CUDA, its flavour and its Python, or that it has no CUDA.

The rules for names are rows of data/base_images.csv, NVIDIA's monthly images rows of ``ngc_releases`` in matrix.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpuenv.image.dockerfile.shell import Command
from gpuenv.image.dockerfile.stages import Stage
from gpuenv.image.dockerfile.variables import is_known
from gpuenv.image.reference import HUB, ImageReference, ImageReferenceError, parse_reference
from gpuenv.matrix.alternatives import python_of_ubuntu
from gpuenv.matrix.tables import BaseImageKind, Flavour, Image, Matrix, NgcRelease
from gpuenv.model.versions import CudaVersion, PythonVersion

_NVIDIA_NAMES = ("nvidia/cuda", "nvcr.io/nvidia/cuda")
# Repositories of Docker Hub that mirrors and proxies serve under their own name plus this one.
_MIRRORED = re.compile(
    r"(?:.*/)?(library/[a-z0-9-]+|nvidia/cuda|pytorch/pytorch|tensorflow/tensorflow|cupy/cupy|mambaorg/micromamba"
    r"|rapidsai/[a-z-]+|condaforge/[a-z0-9]+|continuumio/[a-z0-9]+)"
)
_LONGEST = 255  # characters of a repository
# Commands that install another Python, or an environment with another one.
_OTHER_PYTHONS = (
    *("conda", "mamba", "micromamba", "uv", "uvx", "pyenv", "pixi"),
    *("add-apt-repository", "update-alternatives", "make"),
)
_NAMED_PYTHON = re.compile(r"(?:mini|ana)conda|(?:mini|mamba)forge|python-?3?\.\d", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BaseImage:
    """The facts about a base image; null if its name does not show them.

    Attributes:
        text: its name in the Dockerfile.
        name: the parsed name; null if it contains an unknown variable.
        plain: whether it is known to have no CUDA.
        nvidia: whether it is an image of nvidia/cuda, which sets the variables of the container runtime.
        nvidia_row: the matrix's row of nvidia/cuda with the same CUDA, if it is built from that image.
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
    nvidia_row: Image | None = None
    tegra: bool = False
    rocm: bool = False

    @property
    def unknown(self) -> bool:
        """Whether the name shows neither its CUDA nor that it has none."""
        return not (self.plain or self.has_cuda or self.tegra or self.rocm)

    @property
    def has_cuda(self) -> bool:
        """Whether its name shows CUDA."""
        return self.nvidia or self.cuda is not None or self.row is not None

    def may_have(self, flavour: Flavour) -> bool:
        """Whether it has, or may have, what this flavour has: runtime the libraries, devel also the headers."""
        return not self.plain and self.flavour in (None, flavour, Flavour.DEVEL)


def base_of(text: str, matrix: Matrix) -> BaseImage:
    """The facts about the base image of a name."""
    if not is_known(text):
        return _from_partial_name(text, matrix)
    try:
        name = _unmirrored(parse_reference(text))
    except ImageReferenceError:
        return BaseImage(text)
    reference = f"{name.familiar}:{name.tag or ''}"
    row = next((row for row in matrix.images if row.reference == reference), None)
    base = replace(_by_rules(reference, text, matrix), name=name)
    if row is None or base.plain:
        return base
    return replace(base, row=row, cuda=base.cuda or row.cuda, flavour=base.flavour or row.flavour)


def _unmirrored(name: ImageReference) -> ImageReference:
    """The name on Docker Hub of an image of a mirror or a proxy."""
    found = None if name.registry == HUB else _MIRRORED.fullmatch(name.repository)
    return replace(name, registry=HUB, repository=found[1]) if found is not None else name


def _by_rules(reference: str, text: str, matrix: Matrix) -> BaseImage:
    """The facts from data/base_images.csv; the first matching row with a value for a fact decides it."""
    kind = cuda = flavour = python = None
    for rule in matrix.base_images:
        match = re.fullmatch(rule.pattern, reference)
        if match is None:
            continue
        groups = match.groupdict()
        release = _ngc_release(groups, matrix)
        kind = kind or rule.kind
        cuda = cuda or rule.cuda or _cuda(groups.get("cuda")) or (release and release.cuda)
        flavour = flavour or rule.flavour or (Flavour(groups["flavour"]) if groups.get("flavour") else None)
        python = python or rule.python or _python(groups.get("python")) or (release and release.python)
    plain = kind is BaseImageKind.PLAIN
    name, _, tag = reference.rpartition(":")
    return BaseImage(
        text,
        cuda=None if plain else cuda,
        flavour=None if plain else flavour,
        plain=plain,
        nvidia=kind is BaseImageKind.NVIDIA,
        musl=name == "alpine" or "alpine" in tag,
        python=python,
        nvidia_row=_nvidia_row(cuda, matrix) if kind in (BaseImageKind.NVIDIA, BaseImageKind.ON_NVIDIA) else None,
        tegra=kind is BaseImageKind.TEGRA,
        rocm=kind is BaseImageKind.ROCM,
    )


def _ngc_release(groups: dict[str, str | None], matrix: Matrix) -> NgcRelease | None:
    """The matrix's row of ``ngc_releases`` for one of NVIDIA's monthly images; None without a row."""
    image, release = groups.get("image"), groups.get("release")
    return next((row for row in matrix.ngc_releases if row.release == release and image in row.images), None)


def _cuda(text: str | None) -> CudaVersion | None:
    """Reads 12.4, 12-4, 12_4 and 124."""
    if text is None:
        return None
    major, *minor = re.split("[-_.]", text)
    return CudaVersion(int(major), int(minor[0])) if minor else CudaVersion(int(text[:-1]), int(text[-1]))


def _python(text: str | None) -> PythonVersion | None:
    """Reads 3.11 and 311."""
    return PythonVersion.parse(text if "." in text else f"cp{text}") if text else None


def _nvidia_row(cuda: CudaVersion | None, matrix: Matrix) -> Image | None:
    """A row of nvidia/cuda with the same CUDA: derived images inherit its requirement on the driver."""
    rows = (row for row in matrix.images if row.cuda == cuda and row.line is None)
    return next((row for row in rows if row.reference.rsplit(":", 1)[0] in _NVIDIA_NAMES), None)


def _from_partial_name(text: str, matrix: Matrix) -> BaseImage:
    """The facts from a name with an unknown variable: the rest of it may be enough."""
    name, _, tag = text.partition(":")
    base = replace(_by_rules(f"{name[:_LONGEST]}:", text, matrix), musl="alpine" in text)
    if not base.nvidia:
        return base
    cuda, flavour = re.match(r"\d{1,3}\.\d{1,3}", tag), re.search(r"-(base|runtime|devel)\b", tag)
    known = _cuda(cuda[0]) if cuda else None
    return replace(
        base, cuda=known, flavour=Flavour(flavour[1]) if flavour else None, nvidia_row=_nvidia_row(known, matrix)
    )


def python_of(base: BaseImage, stages: Sequence[Stage], commands: Iterable[Command]) -> PythonVersion | None:
    """The Python of the pip in an image: the base image's or its Ubuntu's, if no other is installed or copied."""
    if base.name is None:
        return None
    system = python_of_ubuntu(f"{base.name.familiar}{base.name.tag}") if base.nvidia or base.plain else None
    known = base.python or _python(system)
    if base.name.familiar == "python" or known is None:
        return known
    return None if any(stage.copies_from for stage in stages) or any(map(_installs_python, commands)) else known


def _installs_python(command: Command) -> bool:
    return command.program in _OTHER_PYTHONS or any(_NAMED_PYTHON.search(word.text) for word in command.words)
