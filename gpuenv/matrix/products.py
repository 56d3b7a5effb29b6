"""Looks up GPU products by name and PCI id, and the drivers and CUDA versions that support them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import TypeVar

from gpuenv.matrix.tables import AmdProduct, Generation, Matrix, Product
from gpuenv.model.causes import Cause
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion

_OF_NVIDIA, _OF_AMD = {"nvidia", "tesla", "geforce"}, {"amd", "instinct", "radeon"}
_MAKERS = _OF_NVIDIA | _OF_AMD
# The name of a virtual GPU, such as GRID A100D-20C: board, letters for its kind, megabytes or gigabytes, and the
# licence. One backed by a MIG instance also has its slices, as GRID A100D-1-10C, and CUDA appends the instance
# (NVIDIA, Virtual GPU Software User Guide, Virtual GPU Types for Supported GPUs).
_VIRTUAL = re.compile(r"^(?:GRID|NVIDIA) ((?:RTX ?)?[A-Z]\d+)[A-Z]*(?:-\d)?-\d+(?:[ABCQ]?[ABCQ]|CME)(?: MIG \S+)?$")
_BRAND = "geforce"
_SEVERAL = re.compile(r"[,;+&]")


class ProductError(ValueError):
    """A name that matches no product, or several with different compute capabilities."""


def find_product(name: str, matrix: Matrix) -> Product:
    """Returns the product for ``V100``, ``RTX 5090`` or ``NVIDIA H100 80GB HBM3``.

    Raises:
        ProductError: with similar names.
    """
    found = _matches(name, matrix)
    if len({product.compute_capability for product in found}) == 1:
        return found[0]
    raise _error(name, [f"{product.name} ({product.compute_capability})" for product in found], _names(matrix))


def find_gpu(name: str, matrix: Matrix) -> Product | AmdProduct:
    """Returns the product of NVIDIA or AMD: also for ``MI300X``, ``W7900`` or ``Radeon RX 7900 XTX``.

    Raises:
        ProductError: with similar names.
    """
    words = set(_words(name))
    if not words & _OF_AMD and _matches(name, matrix):
        return find_product(name, matrix)
    spellings = [] if words & _OF_NVIDIA else [(row, _tokens(row.name)) for row in matrix.amd_products]
    wanted = _tokens(name)
    found = (_exact(wanted, spellings) or _wider(wanted, spellings) or _narrower(wanted, spellings)) if wanted else []
    if len({product.gfx for product in found}) == 1:
        return found[0]
    known = [*_names(matrix), *(row.name for row, _ in spellings)]
    raise _error(name, [f"{product.name} ({product.gfx})" for product in found], known)


def _names(matrix: Matrix) -> list[str]:
    return [known for product in matrix.products for known in (product.name, *product.aliases)]


def _error(name: str, found: Sequence[str], known: Sequence[str]) -> ProductError:
    """Returns the error for an ambiguous name, with what it may mean, or an unknown one, with similar ones."""
    if found:
        how = "pass each GPU separately" if _SEVERAL.search(name) else "use the full name"
        return ProductError(f"the GPU {name!r} is ambiguous: {', '.join([*dict.fromkeys(found)][:6])}; {how}")
    texts = dict.fromkeys(" ".join(_tokens(text)) for text in known)
    similar = difflib.get_close_matches(" ".join(_tokens(name)), texts, 3, 0.5)
    hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
    return ProductError(f"no GPU named {name!r} is known{hint}")


def capability_by_name(name: str, matrix: Matrix) -> ComputeCapability | None:
    """Returns the compute capability for a driver's product name; None if it is ambiguous."""
    for spelling in (name, _VIRTUAL.sub(r"\1", name)):
        try:
            return find_product(spelling, matrix).compute_capability
        except ProductError:
            continue
    return None


def capability_by_beginning(beginning: str, matrix: Matrix) -> ComputeCapability | None:
    """Returns the common compute capability of all products with this prefix, which must contain a digit."""
    wanted = "".join(_tokens(beginning))  # without vendor and brand, which some drivers omit
    if not any(letter.isdigit() for letter in wanted):
        return None
    spellings = _every_spelling(matrix)
    found = {product.compute_capability for product, tokens in spellings if "".join(tokens).startswith(wanted)}
    return found.pop() if len(found) == 1 else None


def product_by_pci(device: str, matrix: Matrix) -> Product | None:
    """Returns the product with a PCI device id (four hexadecimal digits)."""
    every = chain(matrix.products, matrix.older_products)
    return next((product for product in every if device.lower() in product.pci), None)


def product_near_pci(device: str, matrix: Matrix) -> Product | None:
    """Returns the product with the closest PCI device id; None for an id above all known ones.

    NVIDIA assigns ids chronologically in blocks per chip, so a neighbour has the same generation.

    Raises:
        ValueError: the id is not hexadecimal.
    """
    every = chain(matrix.products, matrix.older_products)
    known = [(int(number, 16), product) for product in every for number in product.pci]
    wanted = int(device, 16)
    if not known or wanted > max(number for number, _ in known):
        return None
    return min(known, key=lambda entry: abs(entry[0] - wanted))[1]


def _matches(name: str, matrix: Matrix) -> list[Product]:
    """Returns products with this exact name, else with all its words or its suffix, else with a subset of its words.

    Older products need an exact match, with the brand or, if no newer one is similar, without.
    """
    wanted = _tokens(name)
    if not wanted:
        return []
    spellings = _every_spelling(matrix)
    if _BRAND in name.lower():  # the same number of another brand is another GPU
        spellings = tuple(entry for entry in spellings if entry[0].name.lower().find(_BRAND) >= 0)
    older = _every_older(matrix)
    return (
        _exact(wanted, spellings)
        or [product for product, tokens in older if tokens == _named(name)]
        or _wider(wanted, spellings)
        or [product for product, tokens in older if _without_maker(tokens) == wanted]
        or _narrower(wanted, spellings)
    )


_T = TypeVar("_T")
_Spellings = Sequence[tuple[_T, tuple[str, ...]]]


def _exact(wanted: tuple[str, ...], spellings: _Spellings[_T]) -> list[_T]:
    exact = [product for product, tokens in spellings if tokens == wanted]
    return exact or [product for product, tokens in spellings if "".join(tokens) == "".join(wanted)]


def _wider(wanted: tuple[str, ...], spellings: _Spellings[_T]) -> list[_T]:
    wider = [product for product, tokens in spellings if set(wanted) < set(tokens)]
    return wider or [product for product, tokens in spellings if "".join(tokens).endswith("".join(wanted))]


def _narrower(wanted: tuple[str, ...], spellings: _Spellings[_T]) -> list[_T]:
    narrower = [(len(tokens), product) for product, tokens in spellings if tokens and set(tokens) < set(wanted)]
    longest = max((length for length, _ in narrower), default=0)
    return [product for length, product in narrower if length == longest]


@lru_cache(maxsize=4)
def _every_spelling(matrix: Matrix) -> tuple[tuple[Product, tuple[str, ...]], ...]:
    return tuple((product, _tokens(name)) for product in matrix.products for name in (product.name, *product.aliases))


@lru_cache(maxsize=4)
def _every_older(matrix: Matrix) -> tuple[tuple[Product, list[str]], ...]:
    return tuple((row, _named(name)) for row in matrix.older_products for name in (row.name, *row.aliases))


def _named(name: str) -> list[str]:
    return [part for part in _words(name) if part != "nvidia"]


def _tokens(name: str) -> tuple[str, ...]:
    return _without_maker(_words(name))


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9.]+", name.lower())


def _without_maker(tokens: Iterable[str]) -> tuple[str, ...]:
    return tuple(part for part in tokens if part not in _MAKERS)


_TERA, _GIGA = 1e12, 1e9


def peaks_of(matrix: Matrix) -> Mapping[str, Mapping[str, float]]:
    """Maps product names of the driver to the name of a number and its peak in FLOP/s or B/s."""
    found: dict[str, dict[str, float]] = {}
    for peak in matrix.peaks:
        rates = {"f16": peak.f16, "f32": peak.f32, "f64": peak.f64}
        numbers = {f"blas.matmul_{name}": rate * _TERA for name, rate in rates.items() if rate is not None}
        found |= {name: {**numbers, "transfer.device_copy": peak.memory * _GIGA} for name in peak.names}
    return found


_SAME_PTX = {CudaVersion(12, 6): CudaVersion(12, 5)}


@lru_cache(maxsize=1024)
def generation_for(capability: ComputeCapability | None, matrix: Matrix) -> Generation | None:
    """Returns a GPU's generation; None if not in the matrix."""
    return next((row for row in matrix.generations if capability in row.capabilities), None)


def outside(compiled_for: Collection[ComputeCapability], gpus: Collection[ComputeCapability]) -> Cause:
    """Returns the cause why GPUs are unsupported: too old or too new for the CUDA, or only for CuPy."""
    if any(gpu < min(compiled_for) for gpu in gpus):
        return Cause.GPU_REMOVED_FROM_TOOLKIT
    return Cause.GPU_TOO_NEW_FOR_TOOLKIT if set(gpus) - set(compiled_for) else Cause.CUPY_TOO_OLD_FOR_GPU


def reads_ptx(driver: CudaVersion, wrote: CudaVersion) -> bool:
    """Whether a driver of one CUDA level compiles the PTX of another CUDA version.

    Each CUDA writes a newer PTX ISA than the previous one, except 12.5 and 12.6, which both write 8.5 (PTX ISA, Release
    Notes, table of PTX ISA versions).
    """
    return driver >= _SAME_PTX.get(wrote, wrote)


@lru_cache(maxsize=1024)
def branch_of(driver: DriverVersion, matrix: Matrix) -> int:
    """Returns the branch of a driver, the nearest known one below: Windows counts within a branch (581.15 is 580)."""
    known = [row.branch for row in matrix.driver_branches if row.branch <= driver.branch]
    newest = max((row.branch for row in matrix.driver_branches), default=0)
    return max(known, default=driver.branch) if driver.branch <= newest else driver.branch


# The newest major compute capability of unmeasured CUDA versions: a cubin runs only on its own major.
_NEWEST_OF_OLD = {8: 6, 9: 7}
OF_OLD = "NVIDIA, Volta Compatibility Guide and Turing Compatibility Guide, Building Applications (read 2026-11-22)"


def newest_of_old(cuda: CudaVersion) -> int | None:
    """Returns the newest major compute capability of an old CUDA; None for measured and even older ones."""
    return _NEWEST_OF_OLD.get(cuda.major)
