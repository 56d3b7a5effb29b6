"""Of several outputs, which is believed, and where they contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from gpuenv.model.reading import Answer, Reading, missing, settle
from gpuenv.paste import forms
from gpuenv.paste.records import Conflict, Pasted, PastedGpu, Said

T = TypeVar("T")

# The most trusted first: who asks the driver or the system itself, then who repeats what another program said.
_TRUST = (
    *(forms.SMI, forms.SMI_Q, forms.SHOW_CONFIG, forms.NVCC, forms.UNAME, forms.LDD, forms.OS_RELEASE, forms.PYTHON),
    *(forms.SMI_L, forms.CONDA, forms.NUMBA, forms.COLLECT_ENV, forms.ENV),
)
# What CuPy and numba ask of libcuda itself is what their CUDA programs get.
_CUDA_TRUST = (forms.SHOW_CONFIG, forms.NUMBA, *_TRUST)
_GPU_TRUST = (forms.SMI_Q, forms.SMI, forms.SMI_L, forms.COLLECT_ENV, forms.SHOW_CONFIG, forms.NUMBA)
_ALL_GPUS = (forms.SMI_Q, forms.SMI, forms.SMI_L)  # lists that no CUDA_VISIBLE_DEVICES shortens


def answers(pasted: Pasted, fact: str) -> tuple[Said, ...]:
    """Who says what of a fact, the most trusted first; what says the same less exactly comes behind."""
    trust = _CUDA_TRUST if fact == "driver-cuda" else _TRUST
    told = sorted(
        (entry for entry in pasted.said if entry.fact == fact), key=lambda entry: (trust.index(entry.form), entry.line)
    )
    if not told:
        return ()
    exact = max((entry for entry in told if same(entry.value, told[0].value)), key=lambda entry: len(entry.value))
    return (exact, *(entry for entry in told if entry is not exact))


def same(first: str, second: str) -> bool:
    """Whether two values agree, where one may say less: ``3.10`` and ``3.10.12``."""
    short, long = sorted((first.lower(), second.lower()), key=len)
    return long == short or long.startswith(short + ".")


def reading(pasted: Pasted, fact: str, parse: Callable[[str], T]) -> Reading[T]:
    """A fact as a reading, each answer with the output and the line that it stands in."""
    return settle([_answer(entry, parse) for entry in answers(pasted, fact)], "the paste does not say it")


def _answer(entry: Said, parse: Callable[[str], T]) -> Answer[T] | None:
    try:
        return Answer(parse(entry.value), f"pasted {entry.form}, line {entry.line}")
    except ValueError:
        return None


def conflicts(pasted: Pasted) -> tuple[Conflict, ...]:
    """The facts that the paste states in two ways."""
    found = []
    for fact in dict.fromkeys(entry.fact for entry in pasted.said):
        told = answers(pasted, fact)
        others = tuple(entry for entry in told[1:] if not same(entry.value, told[0].value))
        if others and fact != "toolkit":  # several toolkits may be there
            found.append(Conflict(fact, (told[0], *others)))
    return (*found, *_gpu_conflicts(pasted.gpus))


def _gpu_conflicts(gpus: Mapping[str, tuple[PastedGpu, ...]]) -> Iterable[Conflict]:
    """Lists of all GPUs that differ in length, or in what the GPUs are called."""
    whole = [(form, gpus[form]) for form in _ALL_GPUS if form in gpus]
    told = [Said("GPUs", _named(entries), form, 0) for form, entries in whole]
    differing = [
        said
        for said, (_, entries) in zip(told[1:], whole[1:], strict=True)
        if len(entries) != len(whole[0][1]) or not _alike(entries, whole[0][1])
    ]
    if differing:
        yield Conflict("GPUs", (told[0], *differing))


def _alike(first: Iterable[PastedGpu], second: Iterable[PastedGpu]) -> bool:
    return all(one.name in (None, two.name) or two.name is None for one, two in zip(first, second, strict=True))


def _named(gpus: Iterable[PastedGpu]) -> str:
    return ", ".join(gpu.name or "a GPU whose name is cut" for gpu in gpus)


def merged_gpus(pasted: Pasted) -> tuple[str | None, tuple[PastedGpu, ...]]:
    """The list of GPUs that is believed, with what the other lists add; and the output that it is from."""
    form = next((entry for entry in _GPU_TRUST if pasted.gpus.get(entry)), None)
    if form is None:
        return None, ()
    merged = list(pasted.gpus[form])
    for other in _GPU_TRUST[_GPU_TRUST.index(form) + 1 :]:
        for gpu in pasted.gpus.get(other, ()):
            _add(merged, gpu)
    return form, tuple(merged)


def _add(merged: list[PastedGpu], gpu: PastedGpu) -> None:
    """Fills what is not known of the one GPU that is meant: by its address or UUID, or because it is the only one."""
    for number, known in enumerate(merged):
        alone = len(merged) == 1 and (known.name is None or gpu.name in (None, known.name))
        by_address = gpu.pci is not None and known.pci is not None and _address(gpu.pci) == _address(known.pci)
        by_uuid = gpu.uuid is not None and gpu.uuid == known.uuid
        by_name = gpu.name is not None and gpu.name == known.name
        if alone or by_address or by_uuid:
            merged[number] = _filled(known, gpu)
        elif by_name:  # another GPU of the same product is as capable
            merged[number] = replace(known, capability=known.capability or gpu.capability)


def _filled(known: PastedGpu, more: PastedGpu) -> PastedGpu:
    values = {name: getattr(more, name) for name in PastedGpu.__slots__ if getattr(known, name) is None}
    return replace(known, **values)


def _address(pci: str) -> str:
    return pci.lower()[-10:]


def visible(pasted: Pasted) -> Reading[int]:
    """How many devices CUDA programs saw, as CuPy and numba list them."""
    for form in (forms.SHOW_CONFIG, forms.NUMBA):
        if pasted.gpus.get(form):
            return Reading(len(pasted.gpus[form]), f"pasted {form}")
    return missing("the paste does not say it")


def count(pasted: Pasted) -> Reading[int]:
    """How many GPUs the driver lists, where a whole list of them is pasted."""
    for form in _ALL_GPUS:
        if pasted.gpus.get(form):
            return Reading(len(pasted.gpus[form]), f"pasted {form}")
    return missing("the paste does not say it")
