"""Of several outputs, which is believed, and where they contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from gpuenv.model.reading import Answer, Reading, missing, settle
from gpuenv.paste import forms
from gpuenv.paste.records import Conflict, Pasted, PastedGpu, Said

T = TypeVar("T")

_UNSAID = "the paste does not say it"
UNSAID: Reading[Any] = missing(_UNSAID)

NO_DEVICE = "cudaErrorNoDevice"
_HIDING = ("", "-1", "NoDevFiles")
# Several toolkits may be there, and a distribution has several names.
_ONE_A_MACHINE = (
    *(
        "driver",
        "driver-cuda",
        "cupy-release",
        "cupy-cuda",
        "python",
        "numpy",
        "libc",
        "kernel",
        "arch",
        "package.torch",
    ),
    *("nvrtc", "cuda-path", "distribution-id", "distribution-release"),
)
_OF_NVML = (*forms.ALL_GPUS, forms.COLLECT_ENV)  # their numbers are NVML's

# What CuPy asks of libcuda itself is what its CUDA programs get; what nvidia-smi prints in Windows may
# stand beside what a WSL says of itself.
_TRUST = {
    "driver-cuda": (forms.SHOW_CONFIG, *forms.TRUST),
    "os": (*(form for form in forms.TRUST if form != forms.SMI), forms.SMI),
}


def answers(pasted: Pasted, fact: str) -> tuple[Said, ...]:
    """Who says what of a fact, the most trusted first; what says the same less exactly comes behind."""
    trust = _TRUST.get(fact, forms.TRUST)
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


def reading(pasted: Pasted, fact: str, parse: Callable[[str], T], only: str | None = None) -> Reading[T]:
    """A fact as a reading, each answer with the output and the line that it stands in; of one output, if so wished."""
    told = [entry for entry in answers(pasted, fact) if only in (None, entry.form)]
    return settle([_answer(entry, parse) for entry in told], _UNSAID)


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
        if others and (fact in _ONE_A_MACHINE or fact.startswith("env.")):
            found.append(Conflict(fact, (told[0], *others)))
    whole = {form: gpus for form, gpus in pasted.gpus.items() if not _is_cut(pasted, form)}
    return (*found, *_gpu_conflicts(whole))


def _is_cut(pasted: Pasted, form: str) -> bool:
    """Whether a list is of some GPUs alone: nvidia-smi -q says how many there are, and may be asked for one."""
    attached = reading(pasted, "attached", int).value
    return form == forms.SMI_Q and attached is not None and attached > len(pasted.gpus.get(form, ()))


def _gpu_conflicts(gpus: Mapping[str, tuple[PastedGpu, ...]]) -> Iterable[Conflict]:
    """Lists of all GPUs that differ in length, or in what the GPUs are called."""
    whole = [(form, gpus[form]) for form in forms.ALL_GPUS if form in gpus]
    told = [Said("GPUs", _named(entries), form, 0) for form, entries in whole]
    differing = [
        said
        for said, (_, entries) in zip(told[1:], whole[1:], strict=True)
        if len(entries) != len(whole[0][1]) or not _alike(entries, whole[0][1])
    ]
    if differing:
        yield Conflict("GPUs", (told[0], *differing))


def _alike(first: Iterable[PastedGpu], second: Iterable[PastedGpu]) -> bool:
    return all(_may_be(one, two) and _may_be(two, one) for one, two in zip(first, second, strict=True))


def _named(gpus: Iterable[PastedGpu]) -> str:
    return ", ".join(gpu.name or "a GPU whose name is cut" for gpu in gpus)


def merged_gpus(pasted: Pasted) -> tuple[str | None, tuple[PastedGpu, ...]]:
    """The list of GPUs that is believed, with what the other lists add; and the output that it is from."""
    trusted = [entry for entry in forms.GPU_TRUST if pasted.gpus.get(entry) and not _of_amd(pasted, entry)]
    if not trusted:
        return None, ()
    form, *others = sorted(trusted, key=lambda entry: _is_cut(pasted, entry))
    merged = list(pasted.gpus[form])
    for other in others:
        for gpu in pasted.gpus.get(other, ()):
            _add(merged, gpu, numbered=form in _OF_NVML and other in _OF_NVML)
    return form, tuple(merged)


def amd_gpus(pasted: Pasted) -> tuple[tuple[str | None, str | None], ...]:
    """The GPUs of AMD's that are told of: name, and the compiler's target."""
    named = pasted.gpus.get(forms.SHOW_CONFIG, ()) if _of_amd(pasted, forms.SHOW_CONFIG) else ()
    return pasted.amd or tuple((gpu.name, None) for gpu in named)


def _of_amd(pasted: Pasted, form: str) -> bool:
    """Whether the devices that CuPy lists are those of a build for ROCm."""
    return form == forms.SHOW_CONFIG and bool(answers(pasted, "rocm"))


def _may_be(known: PastedGpu, gpu: PastedGpu) -> bool:
    """Whether two entries may be of one GPU, as far as their names tell."""
    if known.name is None or gpu.name is None:
        return gpu.name is None or known.name_begins is None or gpu.name.startswith(known.name_begins)
    return known.name == gpu.name


def _add(merged: list[PastedGpu], gpu: PastedGpu, *, numbered: bool) -> None:
    """Fills what is not known of the one GPU that is meant: by its address, UUID or number, or because it is alone."""
    for number, known in enumerate(merged):
        alone = _may_be(known, gpu) and (len(merged) == 1 or (numbered and gpu.index == known.index))
        by_address = gpu.pci is not None and known.pci is not None and _address(gpu.pci) == _address(known.pci)
        by_uuid = gpu.uuid is not None and gpu.uuid == known.uuid
        by_name = gpu.name is not None and gpu.name == known.name
        if alone or by_address or by_uuid:
            merged[number] = _filled(known, gpu)
        elif by_name:  # another GPU of the same product is as capable
            merged[number] = replace(known, capability=known.capability or gpu.capability)


def _filled(known: PastedGpu, more: PastedGpu) -> PastedGpu:
    values = {name: getattr(more, name) for name in PastedGpu.__slots__ if getattr(known, name) in (None, ())}
    return replace(known, **{**values, "health": {**more.health, **known.health}})


def _address(pci: str) -> str:
    return pci.lower()[-10:]


def visible(pasted: Pasted) -> Reading[int]:
    """How many devices CUDA programs saw, as CuPy lists them, or as an error or a variable tells."""
    listed = pasted.gpus.get(forms.SHOW_CONFIG)
    if listed and not _of_amd(pasted, forms.SHOW_CONFIG):
        return Reading(len(listed), f"pasted {forms.SHOW_CONFIG}")
    hiding = [entry for entry in answers(pasted, "env.CUDA_VISIBLE_DEVICES")[:1] if entry.value in _HIDING]
    none = [entry for entry in answers(pasted, "cuda-init")[:1] if entry.value == NO_DEVICE]
    for entry in (*none, *hiding, *_without_instance(pasted)):
        return Reading(0, f"pasted {entry.form}, line {entry.line}")
    return UNSAID


def _without_instance(pasted: Pasted) -> tuple[Said, ...]:
    """That nvidia-smi found no MIG instance, where every GPU is in MIG mode: CUDA has nothing to show then."""
    listed = merged_gpus(pasted)[1]
    no_instance = listed and all(gpu.mig and not gpu.mig_instances and not gpu.mig_count for gpu in listed)
    return answers(pasted, "mig-none")[:1] if no_instance else ()


def count(pasted: Pasted) -> Reading[int]:
    """How many GPUs the driver lists, where a whole list of them is pasted."""
    attached = reading(pasted, "attached", int)
    for form in forms.ALL_GPUS:
        if pasted.gpus.get(form):
            number = len(pasted.gpus[form])  # where the list was cut off, nvidia-smi -q has said how many there are
            told = attached.value if form == forms.SMI_Q and attached.value is not None else number
            return Reading(max(number, told), f"pasted {form}")
    return reading(pasted, "gpu-count", int)
