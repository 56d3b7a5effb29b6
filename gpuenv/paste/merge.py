"""Merges the outputs of a paste: the most trusted value of each fact, and the contradictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from gpuenv.model.nvidia import pci_key
from gpuenv.model.reading import Answer, Reading, missing, settle
from gpuenv.paste import outputs
from gpuenv.paste.content import Conflict, PasteContent, PastedGpu, ReportedValue

T = TypeVar("T")

_NOT_IN_PASTE = "not in the paste"
NOT_IN_PASTE: Reading[Any] = missing(_NOT_IN_PASTE)

_HIDING = ("", "-1", "NoDevFiles")
# Facts with one value per machine. A machine may have several toolkits, and a distribution several names.
_UNIQUE_FACTS = (
    *("driver", "driver-cuda", "kernel", "arch", "libc", "distribution-id", "distribution-release"),
    *("python", "numpy", "cupy-release", "cupy-cuda", "cuda-path", "nvrtc", "package.torch"),
)
_OF_NVML = (*outputs.ALL_GPUS, outputs.COLLECT_ENV)  # these number GPUs as NVML does

# CuPy queries the libcuda that its programs use. A paste from WSL may contain the nvidia-smi of Windows.
_TRUST = {
    "driver-cuda": (outputs.SHOW_CONFIG, *outputs.TRUST),
    "os": (*(output for output in outputs.TRUST if output != outputs.SMI), outputs.SMI),
}


def answers(content: PasteContent, fact: str) -> tuple[ReportedValue, ...]:
    """The values of a fact, the most trusted first; a more exact form of that value leads."""
    trust = _TRUST.get(fact, outputs.TRUST)
    values = [entry for entry in content.values if entry.fact == fact]
    values.sort(key=lambda entry: (trust.index(entry.output), entry.line))
    if not values:
        return ()
    exact = max((entry for entry in values if _agree(entry.value, values[0].value)), key=lambda entry: len(entry.value))
    return (exact, *(entry for entry in values if entry is not exact))


def _agree(first: str, second: str) -> bool:
    """Whether two values agree; one may be less exact: ``3.10`` and ``3.10.12``."""
    short, long = sorted((first.lower(), second.lower()), key=len)
    return long == short or long.startswith(short + ".")


def reading(content: PasteContent, fact: str, parse: Callable[[str], T], only: str | None = None) -> Reading[T]:
    """A fact as a reading, each answer with its output and line; with ``only``, of that output."""
    values = [entry for entry in answers(content, fact) if only in (None, entry.output)]
    return settle([_answer(entry, parse) for entry in values], _NOT_IN_PASTE)


def _answer(entry: ReportedValue, parse: Callable[[str], T]) -> Answer[T] | None:
    try:
        return Answer(parse(entry.value), entry.source)
    except ValueError:
        return None


def conflicts(content: PasteContent) -> tuple[Conflict, ...]:
    """The facts that the paste reports with different values."""
    contradictions = []
    for fact in dict.fromkeys(entry.fact for entry in content.values):
        first, *more = answers(content, fact)
        others = [entry for entry in more if not _agree(entry.value, first.value)]
        if others and (fact in _UNIQUE_FACTS or fact.startswith("env.")):
            contradictions.append(Conflict(fact, (first, *others)))
    complete = {output: gpus for output, gpus in content.gpus.items() if not _is_cut(content, output)}
    return (*contradictions, *_gpu_conflicts(complete))


def _is_cut(content: PasteContent, output: str) -> bool:
    """Whether a list lacks GPUs: nvidia-smi -q reports how many are attached."""
    attached = reading(content, "attached", int).value
    return output == outputs.SMI_Q and attached is not None and attached > len(content.gpus.get(output, ()))


def _gpu_conflicts(gpus: Mapping[str, tuple[PastedGpu, ...]]) -> Iterator[Conflict]:
    """Lists of all GPUs that differ in length or names."""
    lists = [(output, gpus[output]) for output in outputs.ALL_GPUS if output in gpus]
    first = lists[0][1] if lists else ()
    differing = [(output, entries) for output, entries in lists[1:] if not _match(entries, first)]
    if differing:
        values = (ReportedValue("GPUs", _names(entries), output, 0) for output, entries in (lists[0], *differing))
        yield Conflict("GPUs", tuple(values))


def _match(first: tuple[PastedGpu, ...], second: tuple[PastedGpu, ...]) -> bool:
    pairs = zip(first, second, strict=False)
    return len(first) == len(second) and all(_may_be(one, two) and _may_be(two, one) for one, two in pairs)


def _names(gpus: Iterable[PastedGpu]) -> str:
    return ", ".join(gpu.name or "a GPU with a truncated name" for gpu in gpus)


def merged_gpus(content: PasteContent) -> tuple[str | None, tuple[PastedGpu, ...]]:
    """The most trusted list of GPUs with its output, completed from the other lists."""
    trusted = [entry for entry in outputs.GPU_TRUST if content.gpus.get(entry) and not _of_amd(content, entry)]
    if not trusted:
        return None, ()
    output, *others = sorted(trusted, key=lambda entry: _is_cut(content, entry))
    merged = list(content.gpus[output])
    for other in others:
        for gpu in content.gpus[other]:
            _add(merged, gpu, numbered=output in _OF_NVML and other in _OF_NVML)
    return output, tuple(merged)


def amd_gpus(content: PasteContent) -> tuple[tuple[str | None, str | None], ...]:
    """The AMD GPUs: name, and target of the compiler."""
    listed = content.gpus.get(outputs.SHOW_CONFIG, ()) if _of_amd(content, outputs.SHOW_CONFIG) else ()
    return content.amd or tuple((gpu.name, None) for gpu in listed)


def _of_amd(content: PasteContent, output: str) -> bool:
    """Whether the list is by a CuPy that was built for ROCm."""
    return output == outputs.SHOW_CONFIG and bool(answers(content, "rocm"))


def _may_be(known: PastedGpu, gpu: PastedGpu) -> bool:
    """Whether two entries may be the same GPU, by their names."""
    if known.name is None or gpu.name is None:
        return gpu.name is None or known.name_begins is None or gpu.name.startswith(known.name_begins)
    return known.name == gpu.name


def _add(merged: list[PastedGpu], gpu: PastedGpu, *, numbered: bool) -> None:
    """Completes the entry of the same GPU: by address, UUID or number, or because it is the only one."""
    address = pci_key(gpu.pci)
    for number, known in enumerate(merged):
        by_number = _may_be(known, gpu) and (len(merged) == 1 or (numbered and gpu.index == known.index))
        by_address = address is not None and address == pci_key(known.pci)
        by_uuid = gpu.uuid is not None and gpu.uuid == known.uuid
        if by_number or by_address or by_uuid:
            more = {name: getattr(gpu, name) for name in PastedGpu.__slots__ if getattr(known, name) in (None, ())}
            mappings = {"pcie": {**gpu.pcie, **known.pcie}, "health": {**gpu.health, **known.health}}
            merged[number] = replace(known, **{**more, **mappings})
        elif gpu.name is not None and gpu.name == known.name:  # the same product has the same capability
            merged[number] = replace(known, capability=known.capability or gpu.capability)


def visible(content: PasteContent) -> Reading[int]:
    """How many devices CUDA programs see: as CuPy lists them, or none due to an error, a variable or MIG mode."""
    listed = content.gpus.get(outputs.SHOW_CONFIG)
    if listed and not _of_amd(content, outputs.SHOW_CONFIG):
        return Reading(len(listed), f"pasted {outputs.SHOW_CONFIG}")
    none = [entry for entry in answers(content, "cuda-init")[:1] if entry.value == "cudaErrorNoDevice"]
    hiding = [entry for entry in answers(content, "env.CUDA_VISIBLE_DEVICES")[:1] if entry.value in _HIDING]
    # If every GPU is in MIG mode, CUDA has no device without a MIG instance.
    gpus = merged_gpus(content)[1]
    no_instance = gpus and all(gpu.mig and not gpu.mig_instances and not gpu.mig_count for gpu in gpus)
    for entry in (*none, *hiding, *(answers(content, "mig-none") if no_instance else ())):
        return Reading(0, entry.source)
    return NOT_IN_PASTE


def count(content: PasteContent) -> Reading[int]:
    """How many GPUs the driver lists, if a complete list is pasted."""
    for output in outputs.ALL_GPUS:
        if content.gpus.get(output):
            attached = reading(content, "attached", int).value if output == outputs.SMI_Q else None
            return Reading(max(len(content.gpus[output]), attached or 0), f"pasted {output}")  # a list may be truncated
    return reading(content, "gpu-count", int)
