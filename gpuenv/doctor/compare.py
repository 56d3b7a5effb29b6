"""Compares two machines: "it works there and not here".

A difference that appears in the evidence of a finding of the broken machine alone explains it best. The others are
ranked by the kind of fact, by how often it was the cause in public reports of broken CuPy environments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from gpuenv.doctor.fixes.adaptation import adapt_for_pixi
from gpuenv.doctor.fixes.packages import pip_fix
from gpuenv.doctor.fixes.variables import change_fix
from gpuenv.matrix.needs import driver_absent
from gpuenv.model.causes import Cause
from gpuenv.model.codec import field_names
from gpuenv.model.documents import DIFF, Comparison, NewFinding, SnapshotDifference
from gpuenv.model.finding import Finding, Fix, Severity
from gpuenv.model.gpus import gpu_is_absent
from gpuenv.model.reading import Reading
from gpuenv.model.redaction import hide_value
from gpuenv.model.snapshot import Gpu, Snapshot, SourceState, Target
from gpuenv.model.strings import NONE, format_value
from gpuenv.model.versions import CudaVersion, DriverVersion

_PRIMARY_LIKELIHOOD, _FINDING_LIKELIHOOD = 0.95, 0.8

# Pattern of facts, likelihood and meaning; the first match counts.
_FAMILIES: tuple[tuple[str, float, str], ...] = (
    ("target.cupy", 0.75, "another CuPy line or release"),
    ("target.libraries.*", 0.7, "CuPy would load another CUDA library"),
    ("visible_count", 0.7, "this process sees a different number of GPUs"),
    ("gpus[[]].hidden_by", 0.65, "something hides a GPU"),
    ("driver.cuda_init", 0.65, "CUDA starts on one of the machines only"),
    ("driver.nvml_init", 0.65, "NVML starts on one of the machines only"),
    ("driver.module", 0.65, "the kernel module is in a different state"),
    ("driver.device_nodes./dev/nvidia-modeset", 0.2, "a device file that CUDA does not need"),
    ("driver.device_nodes.*", 0.6, "access to the driver's device files"),
    ("target.file_faults_count", 0.6, "installed files are missing or changed"),
    ("driver.cuda", 0.55, "the driver supports a different CUDA version"),
    ("driver.cuda_origin", 0.55, "libcuda comes from a different location"),
    ("driver.version", 0.5, "a different driver"),
    ("driver.library_version", 0.5, "a different driver"),
    ("driver.module_version", 0.5, "a different driver"),
    ("driver.*", 0.4, "a different state of the driver"),
    ("gpus[[]].compute_capability", 0.5, "GPUs of a different generation"),
    ("gpus[[]].compute_mode", 0.5, "the compute mode of a GPU"),
    ("gpus[[]].mig", 0.5, "MIG mode"),
    ("gpus[[]].fabric.state", 0.5, "the NVSwitch fabric"),
    ("gpus[[]].health.*", 0.4, "the GPU's health"),
    ("target.packages.numpy", 0.5, "a different NumPy"),
    ("target.numpy", 0.45, "a different NumPy"),
    ("target.packages.nvidia-*", 0.5, "other CUDA wheels next to CuPy"),
    ("target.packages.cuda-*", 0.5, "other CUDA packages next to CuPy"),
    ("environment.LD_LIBRARY_PATH", 0.55, "the loader searches other folders"),
    ("environment.LD_PRELOAD", 0.55, "a library is preloaded"),
    ("environment.CUDA_VISIBLE_DEVICES", 0.6, "the variable that chooses GPUs"),
    ("environment.CUDA_PATH", 0.5, "CuPy uses another toolkit"),
    ("environment.CUDA_HOME", 0.4, "another toolkit"),
    ("environment.NVIDIA_*", 0.45, "the parts of the driver in the container"),
    ("environment.CUPY_*", 0.45, "CuPy's own settings"),
    ("environment.*", 0.3, "the environment"),
    ("host.container", 0.4, "one of the machines is a container"),
    ("host.libc", 0.4, "a different C library"),
    ("host.arch", 0.4, "a different architecture"),
    ("host.*", 0.2, "a different system"),
    ("target.python", 0.4, "a different Python"),
    ("target.packages.*", 0.3, "a different package next to CuPy"),
    ("toolkits", 0.3, "other CUDA toolkits"),
    ("grant.*", 0.4, "the scheduler granted other GPUs"),
    ("gpus[[]].name", 0.25, "other GPUs"),
    ("gpu_count", 0.3, "a different number of GPUs"),
)
_REST = (0.15, "it differs")
_EXTRA_NODE = (0.2, "an additional device file, which hides nothing")
_HARMLESS_NODE = (0.2, "a device file that hides nothing: CUDA starts here and sees every GPU")
# NVIDIA, CUDA Compatibility, Minor Version Compatibility, table (read 2026-11-20): above its range, a release runs on
# newer drivers by backward compatibility.
_NEWER_DRIVER = (0.3, "a newer driver, which runs what the older one does")
_NEWER: Mapping[str, Callable[[str], tuple[int, ...]]] = {
    "driver.version": lambda text: DriverVersion.parse(text).parts,
    "driver.library_version": lambda text: DriverVersion.parse(text).parts,
    "driver.module_version": lambda text: DriverVersion.parse(text).parts,
    "driver.branch": lambda text: (int(text),),
    "driver.cuda": lambda text: (CudaVersion.parse(text).major, CudaVersion.parse(text).minor),
}
_NODES, _PACKAGES, _CUPY = "driver.device_nodes.", "target.packages.", "target.cupy"
_OTHER_NAMES = {
    "target.packages.numpy": ("target.numpy",),
    "gpus[].compute_capability": ("GPU",),
    "gpus[].name": ("GPU",),
}
# The fact behind a cause, if its evidence has another name.
_FACT_OF_CAUSE: Mapping[Cause, str] = {Cause.NO_NVIDIA_GPU: "gpu_count"}
# Consequences of a cause, which cannot be set.
_OUTCOMES = ("visible_count", "gpu_count", "driver.cuda_init", "driver.nvml_init", "driver.branch")
_VERSION = "driver.version"
# Facts that depend on the driver's release.
_DRIVER_FACTS = (_VERSION, "driver.cuda", "driver.branch", "driver.library_version", "driver.module_version")
_LIBRARIES = "target.libraries."  # which file is loaded depends on the facts below
_LIBRARY_SOURCES = (
    *("environment.LD_LIBRARY_PATH", "environment.LD_PRELOAD", "environment.CUDA_PATH", "environment.CUDA_HOME"),
    *("environment.CONDA_PREFIX", _CUPY, "target.packages.nvidia-*", "target.packages.cuda-*"),
)


def compare(
    there: Snapshot, here: Snapshot, findings_there: Sequence[Finding], findings_here: Sequence[Finding]
) -> Comparison:
    """The differences between a working machine (``there``) and a broken one (``here``), the likeliest first."""
    first, second = dict(_facts(there)), dict(_facts(here))
    known = {(finding.code, finding.cause) for finding in findings_there}
    new = [finding for finding in findings_here if (finding.code, finding.cause) not in known]
    kinds_there, kinds_here = _complete_kinds(there), _complete_kinds(here)
    differences = []
    for fact in sorted(first.keys() | second.keys()):
        before, after = first.get(fact), second.get(fact)
        # An absent package, variable or device is a difference; an unknown fact is not.
        comparable = kinds_there if before is None else kinds_here if after is None else ("",)
        if before != after and fact.startswith(comparable):
            rank = _rank(fact, before, after, new)
            if fact.startswith("environment."):
                name = fact.partition(".")[2]
                before, after = (value and hide_value(name, value) for value in (before, after))
            differences.append(SnapshotDifference(fact, before, after, *rank))
    differences = sorted(_lower_device_files(_raise_library_sources(differences), here), key=_order)
    return Comparison(
        schema=DIFF,
        differences=tuple(differences),
        findings=tuple(NewFinding(finding.code, finding.cause, finding.title) for finding in new),
        try_first=_try_first(differences, new, here),
        compared=len(first.keys() & second.keys()),
    )


def _complete_kinds(snapshot: Snapshot) -> tuple[str, ...]:
    """Kinds of entries that a snapshot lists completely, so that an unlisted entry is absent.

    A paste may contain part of a list, and no device files.
    """
    has_nodes = snapshot.source("kernel").state is not SourceState.NOT_ASKED
    has_packages = has_nodes or snapshot.source("target").state is SourceState.ANSWERED
    return ("environment.", *((_PACKAGES,) if has_packages else ()), *((_NODES,) if has_nodes else ()))


def _raise_library_sources(differences: list[SnapshotDifference]) -> list[SnapshotDifference]:
    """If CuPy would load another library, raises the likelihood of the facts that decide which one."""
    most = max((entry.likelihood for entry in differences if entry.fact.startswith(_LIBRARIES)), default=0.0)
    return [
        replace(entry, likelihood=most, why=f"{entry.why}; CuPy would load another library")
        if entry.likelihood < most and _selects_libraries(entry)
        else entry
        for entry in differences
    ]


def _selects_libraries(entry: SnapshotDifference) -> bool:
    """Another release of the same CuPy line searches the same folders for the same libraries."""
    if entry.fact == _CUPY and _lines(entry.there) == _lines(entry.here):
        return False
    return any(fnmatchcase(entry.fact, pattern) for pattern in _LIBRARY_SOURCES)


def _lines(distributions: str | None) -> set[str]:
    return {distribution.partition(" ")[0] for distribution in (distributions or "").split(", ")}


def _lower_device_files(differences: list[SnapshotDifference], here: Snapshot) -> list[SnapshotDifference]:
    """If CUDA starts and sees every GPU, no device file is the cause: fewer GPUs have fewer of them."""
    counts = (here.visible_count.value, here.gpu_count.value)
    if here.driver.cuda_init.value != 0 or not counts[0] or counts[0] != counts[1]:
        return differences
    likelihood, why = _HARMLESS_NODE
    return [
        replace(entry, likelihood=likelihood, why=why)
        if entry.fact.startswith(_NODES) and likelihood < entry.likelihood < _FINDING_LIKELIHOOD
        else entry
        for entry in differences
    ]


def _is_outcome(fact: str) -> bool:
    return fact in _OUTCOMES or fact.startswith(_LIBRARIES)


def _order(entry: SnapshotDifference) -> tuple[float, bool, float, str]:
    """The likeliest first; of equals those that can be set, then the likelier kind of fact."""
    return (-entry.likelihood, _is_outcome(entry.fact), -_family(entry.fact, entry.there, entry.here)[0], entry.fact)


def _family(fact: str, before: str | None, after: str | None) -> tuple[float, str]:
    """The likelihood of the kind of fact, and what the difference means."""
    if fact.startswith(_NODES) and before is None:
        return _EXTRA_NODE
    if fact in _NEWER and not {before, after} & {None, NONE} and _NEWER[fact](str(after)) > _NEWER[fact](str(before)):
        return _NEWER_DRIVER
    return next(((share, why) for pattern, share, why in _FAMILIES if fnmatchcase(fact, pattern)), _REST)


def _rank(fact: str, before: str | None, after: str | None, new: Sequence[Finding]) -> tuple[float, str]:
    """The likelihood of a difference, and why; higher if the evidence of a new finding names the fact."""
    likelihood, why = _family(fact, before, after)
    names = {fact, *_OTHER_NAMES.get(fact, ()), fact.rsplit(".", 1)[-1]}
    if fact.startswith(_LIBRARIES):  # evidence names a library by its file name
        names |= {text.split(maxsplit=1)[0] for text in (before, after) if text and ".so" in text}
    for finding in new:
        named = (entry.fact for entry in finding.evidence if entry.to_the_point)
        if finding.severity is not Severity.NOTE and (
            _FACT_OF_CAUSE.get(finding.cause) == fact
            or any(name in names or _without_index(name) in names for name in named)
        ):
            share = _PRIMARY_LIKELIHOOD if finding.primary else _FINDING_LIKELIHOOD
            return max(likelihood, share), f"{why}: evidence of {finding.code} ({finding.cause.value})"
    return likelihood, why


def _without_index(path: str) -> str:
    head, bracket, rest = path.partition("[")
    return f"{head}[]{rest.partition(']')[2]}" if bracket else path


def _try_first(differences: Sequence[SnapshotDifference], new: Sequence[Finding], here: Snapshot) -> tuple[Fix, ...]:
    fixes = next((finding.fix for finding in new if finding.fix and finding.severity is Severity.ERROR), None)
    if fixes is not None:
        return fixes
    causes = [entry for entry in differences if entry.fact not in _OUTCOMES]
    settable = [entry for entry in causes if not _is_outcome(entry.fact) and entry.likelihood >= causes[0].likelihood]
    return (undo((settable or causes)[0], differences, here),) if causes else ()


# A snapshot as named texts, comparable between machines. Facts that always differ and explain nothing are excluded: a
# UUID, a PCI address, a temperature, a home folder.

_LOCATIONS = (
    "executable",
    "prefix",
    "user_site",
    "cupy_module",
    "numpy_module",
    "numpy_fault",
    "pathfinder_hidden_by",
    "cuda_path",
    "headers",
)
_HEALTH = ("ecc", "pages_pending", "rows_pending", "rows_failed", "throttle_reasons")


def _facts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    yield from _readings("host", snapshot.host)
    yield from _readings("driver", snapshot.driver, excluded=("nvml_library", "cuda_library"))
    yield from _readings("target", snapshot.target, excluded=_LOCATIONS)
    yield from _readings("grant", snapshot.grant, excluded=("devices",))
    yield from _readings("mps", snapshot.mps)
    yield from _readings("container_support", snapshot.container_support)
    # What is known to be absent is a fact; what is unknown is not.
    if not snapshot.driver.version.known and driver_absent(snapshot):
        yield "driver.version", NONE
    if not snapshot.gpu_count.known and gpu_is_absent(snapshot):
        yield "gpu_count", NONE
    for name in ("gpu_count", "visible_count", "rocm"):
        yield from _reading(name, getattr(snapshot, name))
    yield from _gpus(snapshot)
    yield from _target(snapshot.target, assumed="target.cupy" in snapshot.assumed)
    for node in snapshot.driver.device_nodes:
        yield f"{_NODES}{node.path}", "accessible" if node.accessible else "not accessible"
    if snapshot.toolkits:
        yield "toolkits", _join(str(kit.toolkit.value or "of unknown version") for kit in snapshot.toolkits)
    for name, value in snapshot.environment.items():
        yield f"environment.{name}", value


def _readings(path: str, record: Any, excluded: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - any record
    for name in field_names(record):
        value = getattr(record, name)
        if isinstance(value, Reading) and name not in excluded:
            yield from _reading(f"{path}.{name}", value)


def _reading(path: str, reading: Reading[Any]) -> Iterator[tuple[str, str]]:
    if reading.value is not None:
        yield path, _text(reading.value)


def _text(value: Any) -> str:  # noqa: ANN401 - a reading's value
    return _join(map(format_value, value)) if isinstance(value, tuple) else format_value(value)


def _join(texts: Iterator[str] | map[str]) -> str:
    return ", ".join(sorted(set(texts))) or NONE


def _gpus(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """GPUs by kind: their order and addresses differ between machines."""
    if not snapshot.gpus:
        return
    for name, describe in _GPU_FACTS.items():
        counted = Counter(text for gpu in snapshot.gpus if (text := describe(gpu)) is not None)
        if counted:
            yield name, ", ".join(f"{count} x {text}" for text, count in sorted(counted.items()))
    for field in _HEALTH:
        readings = [getattr(gpu.health, field) for gpu in snapshot.gpus]
        values = [_text(reading.value) for reading in readings if reading.known]
        if values:
            yield f"gpus[].health.{field}", _join(iter(values))


_GPU_FACTS: Mapping[str, Callable[[Gpu], str | None]] = {
    "gpus[].name": lambda gpu: gpu.name.value,
    "gpus[].compute_capability": lambda gpu: (
        str(gpu.compute_capability.value) if gpu.compute_capability.known else None
    ),
    "gpus[].memory_total": lambda gpu: (
        None if gpu.memory_total.value is None else f"{gpu.memory_total.value / 2**30:.0f} GiB"
    ),
    "gpus[].mig": lambda gpu: None if gpu.mig.value is None else ("MIG on" if gpu.mig.value else "MIG off"),
    "gpus[].compute_mode": lambda gpu: gpu.compute_mode.value and gpu.compute_mode.value.value,
    "gpus[].virtualization": lambda gpu: gpu.virtualization.value and gpu.virtualization.value.value,
    "gpus[].hidden_by": lambda gpu: gpu.hidden_by.value,
    "gpus[].fabric.state": lambda gpu: gpu.fabric.state.value,
}


def _target(target: Target, *, assumed: bool) -> Iterator[tuple[str, str]]:
    if target.python.known or target.cupy or assumed:
        yield _CUPY, _join(entry.label for entry in target.cupy)
    for name, release in target.packages.items():
        if not name.startswith("cupy"):  # listed above
            yield f"{_PACKAGES}{name}", release
    for library in target.libraries:
        release = f" {library.release}" if library.release else ""
        found = f"{library.soname}{release} by {library.found_via or 'loader'}" if library.path else "not found"
        yield f"{_LIBRARIES}{library.name}", found


def undo(difference: SnapshotDifference, every: Sequence[SnapshotDifference], here: Snapshot) -> Fix:
    """The step that removes the likeliest difference; ``every`` has all differences, as it may follow from another."""
    family, _, name = difference.fact.rpartition(".")
    there, now = difference.shown
    if family == "target.packages":
        if difference.there is None:
            step = pip_fix(here, f"Try without {name}, which the other machine does not have.", "uninstall", "-y", name)
        else:
            step = pip_fix(here, f"Install {name} {there}, as on the other machine.", "install", f"{name}=={there}")
        return adapt_for_pixi((step,), here.target)[0]._replace(safe=False)  # an experiment, not a repair
    if family == "environment" and difference.there is None:
        return change_fix(here, name, text=f"Try without {name}, which is not set on the other machine.")
    if family == "environment":
        return change_fix(here, name, there, f"Set {name} as on the other machine.")
    instead = f"{there} instead of {now}"
    if difference.fact in _DRIVER_FACTS:
        version = next((" instead of ".join(entry.shown) for entry in every if entry.fact == _VERSION), None)
        if version is None and difference.fact == "driver.cuda":  # same driver, another libcuda
            return Fix(f"Load the same libcuda as on the other machine: it is of CUDA {there}, here of {now}.")
        change = f": {version}" if version else f" ({difference.fact}: {instead})"
        return Fix(f"Try the driver of the other machine{change}.")
    what = "a GPU" if family.startswith("gpus[]") else "a system" if family == "host" else None
    similar = f"Try {what} like that of the other machine ({difference.fact}: {instead})."
    return Fix(similar if what else f"Make {difference.fact} the same as on the other machine: {instead}.")
