"""GPUs by the names that people and drivers use and by PCI id; which drivers and which CUDAs serve them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from gpuenv.matrix.tables import Matrix, Product
from gpuenv.model.causes import Cause
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion

_MAKERS = {"nvidia", "tesla", "geforce"}
# A virtual GPU's name, such as GRID A100D-20C: board, letters for its kind, megabytes or gigabytes, and the licence.
# One that a MIG instance is behind has its slices too, as GRID A100D-1-10C, and CUDA names that instance as well
# (NVIDIA, Virtual GPU Software User Guide, Virtual GPU Types for Supported GPUs).
_VIRTUAL = re.compile(r"^(?:GRID|NVIDIA) ((?:RTX ?)?[A-Z]\d+)[A-Z]*(?:-\d)?-\d+(?:[ABCQ]?[ABCQ]|CME)(?: MIG \S+)?$")
_BRAND = "geforce"
_SEVERAL = re.compile(r"[,;+&]")


class ProductError(ValueError):
    """A name that no product has, or that several of different capability share."""


def find_product(name: str, matrix: Matrix) -> Product:
    """The product that a person means by ``V100``, ``RTX 5090`` or ``NVIDIA H100 80GB HBM3``.

    Raises:
        ProductError: with the names that come near.
    """
    found = _matches(name, matrix)
    capabilities = {product.compute_capability for product in found}
    if len(capabilities) == 1:
        return found[0]
    if capabilities:
        labels = dict.fromkeys(f"{product.name} ({product.compute_capability})" for product in found)
        how = "name several one by one" if _SEVERAL.search(name) else "name it in full"
        raise ProductError(f"the GPU {name!r} could be: {', '.join([*labels][:6])}; {how}")
    import difflib  # noqa: PLC0415 - for an error alone

    names = [known for product in matrix.products for known in (product.name, *product.aliases)]
    near = difflib.get_close_matches(name.lower(), [known.lower() for known in names], 3, 0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise ProductError(f"no GPU named {name!r} is known{hint}")


def capability_by_name(name: str, matrix: Matrix) -> ComputeCapability | None:
    """The compute capability of a product that a driver names; None where the name does not decide it."""
    for spelling in (name, _VIRTUAL.sub(r"\1", name)):
        try:
            return find_product(spelling, matrix).compute_capability
        except ProductError:
            continue
    return None


def capability_by_beginning(beginning: str, matrix: Matrix) -> ComputeCapability | None:
    """The compute capability of every product whose name begins so, where it is one; a series has to be in it."""
    wanted = _plain(beginning)
    if not any(letter.isdigit() for letter in wanted):
        return None
    names = [(name, product) for product in matrix.products for name in (product.name, *product.aliases)]
    found = {product.compute_capability for name, product in names if _plain(name).startswith(wanted)}
    return found.pop() if len(found) == 1 else None


def _plain(name: str) -> str:
    """A name without the maker and the brand, which drivers of different ages write and leave out."""
    return "".join(_words(name))


def product_by_pci(device: str, matrix: Matrix) -> Product | None:
    """The product with a PCI device id, four hexadecimal digits."""
    return next((product for product in _every(matrix) if device.lower() in product.pci), None)


def _every(matrix: Matrix) -> Iterator[Product]:
    yield from matrix.products
    yield from matrix.older_products


def product_near_pci(device: str, matrix: Matrix) -> Product | None:
    """The product whose PCI device id is the next to this one; None for an id beyond all that are known.

    NVIDIA gives its ids in the order of time, a block to each chip, so a neighbour is of the same generation.

    Raises:
        ValueError: for an id that is no hexadecimal number.
    """
    known = [(int(number, 16), product) for product in _every(matrix) for number in product.pci]
    wanted = int(device, 16)
    if not known or wanted > max(number for number, _ in known):
        return None
    return min(known, key=lambda entry: abs(entry[0] - wanted))[1]


def _matches(name: str, matrix: Matrix) -> list[Product]:
    """The products of exactly this name, else those with all its words or its end, else those whose words are in it.

    Of older ones exactly this name counts, with the brand or, where no newer one is like it, without.
    """
    wanted = _words(name)
    if not wanted:
        return []
    spellings = _every_spelling(matrix)
    if _BRAND in name.lower():  # a number of another brand is another GPU
        spellings = tuple(entry for entry in spellings if entry[0].name.lower().find(_BRAND) >= 0)
    exact = [product for product, words in spellings if words == wanted]
    exact = exact or [product for product, words in spellings if "".join(words) == "".join(wanted)]
    exact = exact or [product for product, words in _every_older(matrix) if words == _named(name)]
    wider = [product for product, words in spellings if set(wanted) < set(words)]
    narrower = [(len(words), product) for product, words in spellings if words and set(words) < set(wanted)]
    if exact or wider:
        return exact or wider
    joined = [product for product, words in spellings if "".join(words).endswith("".join(wanted))]
    joined = joined or [product for product, words in _every_older(matrix) if _without_maker(words) == wanted]
    if joined:
        return joined
    longest = max((length for length, _ in narrower), default=0)
    return [product for length, product in narrower if length == longest]


@lru_cache(maxsize=4)
def _every_spelling(matrix: Matrix) -> tuple[tuple[Product, tuple[str, ...]], ...]:
    return tuple((product, _words(name)) for product in matrix.products for name in (product.name, *product.aliases))


@lru_cache(maxsize=4)
def _every_older(matrix: Matrix) -> tuple[tuple[Product, list[str]], ...]:
    return tuple((row, _named(name)) for row in matrix.older_products for name in (row.name, *row.aliases))


def _named(name: str) -> list[str]:
    return [word for word in re.findall(r"[a-z0-9.]+", name.lower()) if word != "nvidia"]


def _words(name: str) -> tuple[str, ...]:
    return _without_maker(re.findall(r"[a-z0-9.]+", name.lower()))


def _without_maker(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in _MAKERS)


_TERA, _GIGA = 1e12, 1e9


def peaks_of(matrix: Matrix) -> Mapping[str, Mapping[str, float]]:
    """Product name, as the driver tells it -> name of the number -> FLOP/s or B/s."""
    found: dict[str, dict[str, float]] = {}
    for peak in matrix.peaks:
        rates = {"f16": peak.f16, "f32": peak.f32, "f64": peak.f64}
        numbers = {f"blas.matmul_{name}": rate * _TERA for name, rate in rates.items() if rate is not None}
        found |= {name: {**numbers, "transfer.device_copy": peak.memory * _GIGA} for name in peak.names}
    return found


_SAME_PTX = {CudaVersion(12, 6): CudaVersion(12, 5)}


class BranchRange(NamedTuple):
    """The first and the last driver branch of a GPU generation; None where it is open or not known."""

    first: int | None
    last: int | None
    source: str

    def wants(self, branch: int) -> str | None:
        """The branch that is needed instead, in words; None where this one will do."""
        if self.last is not None and branch > self.last:
            return f"branch {self.last} or older"
        if self.first is not None and branch < self.first:
            return f"branch {self.first} or newer"
        return None


@lru_cache(maxsize=1024)
def branches_for(capability: ComputeCapability | None, matrix: Matrix) -> BranchRange | None:
    """The driver branches of a GPU's generation; None where the matrix does not say."""
    row = next((entry for entry in matrix.generations if capability in entry.capabilities), None)
    return BranchRange(row.first_branch, row.last_branch, matrix.cite(row.source)) if row else None


def outside(compiled_for: Collection[ComputeCapability], gpus: Collection[ComputeCapability]) -> Cause:
    """Whether GPUs are too old or too new for a CUDA that compiles for these, or only CuPy does not know them."""
    if any(gpu < min(compiled_for) for gpu in gpus):
        return Cause.GPU_REMOVED_FROM_TOOLKIT
    return Cause.GPU_TOO_NEW_FOR_TOOLKIT if set(gpus) - set(compiled_for) else Cause.CUPY_TOO_OLD_FOR_GPU


def reads_ptx(driver: CudaVersion, wrote: CudaVersion) -> bool:
    """Whether a driver of one CUDA level compiles the PTX that another CUDA wrote.

    Each CUDA writes a newer PTX ISA than the one before, but for 12.5 and 12.6, which both write 8.5 (PTX ISA, Release
    Notes, table of PTX ISA versions).
    """
    return driver >= _SAME_PTX.get(wrote, wrote)


@lru_cache(maxsize=1024)
def branch_of(driver: DriverVersion, matrix: Matrix) -> int:
    """The branch of a driver: Windows counts within a branch (581.15 is of 580), so the nearest known one below."""
    known = [row.branch for row in matrix.driver_branches if row.branch <= driver.branch]
    newest = max((row.branch for row in matrix.driver_branches), default=0)
    return max(known, default=driver.branch) if driver.branch <= newest else driver.branch


# The newest major compute capability of CUDA majors that were not measured: a cubin runs on its own major alone.
_NEWEST_OF_OLD = {8: 6, 9: 7}
OF_OLD = "NVIDIA, Volta Compatibility Guide and Turing Compatibility Guide, Building Applications (read 2026-11-22)"


def newest_of_old(cuda: CudaVersion) -> int | None:
    """The newest major compute capability that an old CUDA knows; None for one that was measured, or is older still."""
    return _NEWEST_OF_OLD.get(cuda.major)
