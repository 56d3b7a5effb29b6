"""Two machines side by side: "it works there and not here".

A difference that stands in the evidence of a finding of this machine alone explains it best; the others are ranked by
the family of the fact, by how often that family was the cause in public reports of broken CuPy environments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from gpuenv.doctor.fixes.adapt import for_pixi
from gpuenv.doctor.fixes.packages import pip_fix
from gpuenv.matrix.needs import driver_absent
from gpuenv.model.causes import Cause
from gpuenv.model.codec import field_names
from gpuenv.model.documents import DIFF, Comparison, NewFinding, SnapshotDifference
from gpuenv.model.finding import Finding, Fix, Severity
from gpuenv.model.gpus import gpu_is_absent
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import Gpu, Snapshot, SourceState, Target
from gpuenv.model.strings import NONE, format_value
from gpuenv.model.versions import CudaVersion, DriverVersion

_OF_PRIMARY, _OF_FINDING = 0.95, 0.8

# The first pattern that fits counts.
_FAMILIES: tuple[tuple[str, float, str], ...] = (
    ("target.cupy", 0.75, "another CuPy line or release"),
    ("target.libraries.*", 0.7, "CuPy would load another CUDA library"),
    ("visible_count", 0.7, "this process sees another number of GPUs"),
    ("gpus[[]].hidden_by", 0.65, "something hides a GPU"),
    ("driver.cuda_init", 0.65, "CUDA starts on one of them alone"),
    ("driver.nvml_init", 0.65, "NVML starts on one of them alone"),
    ("driver.module", 0.65, "the kernel module is in another state"),
    ("driver.device_nodes./dev/nvidia-modeset", 0.2, "a device file that CUDA does not need"),
    ("driver.device_nodes.*", 0.6, "access to the driver's device files"),
    ("target.file_faults_count", 0.6, "installed files are not as they were"),
    ("driver.cuda", 0.55, "the driver supports another CUDA version"),
    ("driver.cuda_origin", 0.55, "libcuda comes from another place"),
    ("driver.version", 0.5, "another driver"),
    ("driver.library_version", 0.5, "another driver"),
    ("driver.module_version", 0.5, "another driver"),
    ("driver.*", 0.4, "another state of the driver"),
    ("gpus[[]].compute_capability", 0.5, "GPUs of another generation"),
    ("gpus[[]].compute_mode", 0.5, "the GPU may be used by others"),
    ("gpus[[]].mig", 0.5, "MIG mode"),
    ("gpus[[]].fabric.state", 0.5, "the NVSwitch fabric"),
    ("gpus[[]].health.*", 0.4, "the GPU's health"),
    ("target.packages.numpy", 0.5, "another NumPy"),
    ("target.numpy", 0.45, "another NumPy"),
    ("target.packages.nvidia-*", 0.5, "other CUDA wheels beside CuPy"),
    ("target.packages.cuda-*", 0.5, "other CUDA packages beside CuPy"),
    ("environment.LD_LIBRARY_PATH", 0.55, "the loader looks in other places"),
    ("environment.LD_PRELOAD", 0.55, "something is loaded beforehand"),
    ("environment.CUDA_VISIBLE_DEVICES", 0.6, "the variable that chooses GPUs"),
    ("environment.CUDA_PATH", 0.5, "CuPy takes another toolkit"),
    ("environment.CUDA_HOME", 0.4, "another toolkit"),
    ("environment.NVIDIA_*", 0.45, "what the container is given of the driver"),
    ("environment.CUPY_*", 0.45, "CuPy's own settings"),
    ("environment.*", 0.3, "the environment"),
    ("host.container", 0.4, "one of them is a container"),
    ("host.libc", 0.4, "another C library"),
    ("host.arch", 0.4, "another processor"),
    ("host.*", 0.2, "another system"),
    ("target.python", 0.4, "another Python"),
    ("target.packages.*", 0.3, "another package beside CuPy"),
    ("toolkits", 0.3, "other CUDA toolkits"),
    ("grant.*", 0.4, "the scheduler granted other GPUs"),
    ("gpus[[]].name", 0.25, "other GPUs"),
    ("gpu_count", 0.3, "another number of GPUs"),
)
_REST = (0.15, "it differs")
_EXTRA_NODE = (0.2, "a device file more, which hides nothing")
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
_FACT_OF_ENTRY = {
    "target.packages.numpy": ("target.numpy",),
    "gpus[].compute_capability": ("GPU",),
    "gpus[].name": ("GPU",),
}
# The fact that a cause is about, whatever its evidence calls it.
_ABOUT: Mapping[Cause, str] = {Cause.NO_NVIDIA_GPU: "gpu_count"}
# What comes of a cause: it shows that something is wrong, and nobody can set it.
_OUTCOMES = ("visible_count", "gpu_count", "driver.cuda_init", "driver.nvml_init", "driver.branch")
_VERSION = "driver.version"
# Facts that come with the driver's release.
_OF_THE_RELEASE = (_VERSION, "driver.cuda", "driver.branch", "driver.library_version", "driver.module_version")
_LIBRARIES = "target.libraries."  # which one is loaded comes of these, where they differ too
_LEADING_TO_LIBRARIES = (
    *("environment.LD_LIBRARY_PATH", "environment.LD_PRELOAD", "environment.CUDA_PATH", "environment.CUDA_HOME"),
    *("environment.CONDA_PREFIX", _CUPY, "target.packages.nvidia-*", "target.packages.cuda-*"),
)


def compare(
    there: Snapshot, here: Snapshot, findings_there: Sequence[Finding], findings_here: Sequence[Finding]
) -> Comparison:
    """The differences of a machine that works (``there``) and one that does not (``here``), likeliest first."""
    first, second = dict(_facts(there)), dict(_facts(here))
    known = {(finding.code, finding.cause) for finding in findings_there}
    new = [finding for finding in findings_here if (finding.code, finding.cause) not in known]
    listed_there, listed_here = _listed_kinds(there), _listed_kinds(here)
    differences = []
    for fact in sorted(first.keys() | second.keys()):
        before, after = first.get(fact), second.get(fact)
        # A package, variable or device that is absent is a difference; a fact that is unknown is none.
        missing = listed_there if before is None else listed_here if after is None else ("",)
        if before != after and fact.startswith(missing):
            differences.append(SnapshotDifference(fact, before, after, *_rank(fact, before, after, new)))
    differences = sorted(_harmless(_leading(differences), here), key=_order)
    return Comparison(
        schema=DIFF,
        differences=tuple(differences),
        findings=tuple(NewFinding(finding.code, finding.cause, finding.title) for finding in new),
        try_first=_try_first(differences, new, here),
        compared=len(first.keys() & second.keys()),
    )


def _listed_kinds(snapshot: Snapshot) -> tuple[str, ...]:
    """The kinds of entries that a machine lists completely, so that an entry that is not listed is absent.

    A paste may contain a part of a list, and no device files.
    """
    asked = snapshot.source("kernel").state is not SourceState.NOT_ASKED
    listed = asked or snapshot.source("target").state is SourceState.ANSWERED
    return ("environment.", *((_PACKAGES,) if listed else ()), *((_NODES,) if asked else ()))


def _leading(differences: list[SnapshotDifference]) -> list[SnapshotDifference]:
    """Where CuPy would load another library, what leads there explains as much."""
    most = max((entry.likelihood for entry in differences if entry.fact.startswith(_LIBRARIES)), default=0.0)
    return [
        replace(entry, likelihood=most, why=f"{entry.why}; CuPy would load another library")
        if entry.likelihood < most and _leads(entry)
        else entry
        for entry in differences
    ]


def _leads(entry: SnapshotDifference) -> bool:
    """Another release of the same CuPy line looks for the same libraries in the same places."""
    if entry.fact == _CUPY and _lines(entry.there) == _lines(entry.here):
        return False
    return any(fnmatchcase(entry.fact, pattern) for pattern in _LEADING_TO_LIBRARIES)


def _lines(distributions: str | None) -> set[str]:
    return {distribution.partition(" ")[0] for distribution in (distributions or "").split(", ")}


def _harmless(differences: list[SnapshotDifference], here: Snapshot) -> list[SnapshotDifference]:
    """Where CUDA starts and sees every GPU, no device file is why it does not work: fewer GPUs have fewer of them."""
    counts = (here.visible_count.value, here.gpu_count.value)
    if here.driver.cuda_init.value != 0 or not counts[0] or counts[0] != counts[1]:
        return differences
    likelihood, why = _HARMLESS_NODE
    return [
        replace(entry, likelihood=likelihood, why=why)
        if entry.fact.startswith(_NODES) and likelihood < entry.likelihood < _OF_FINDING
        else entry
        for entry in differences
    ]


def _is_outcome(fact: str) -> bool:
    return fact in _OUTCOMES or fact.startswith(_LIBRARIES)


def _order(entry: SnapshotDifference) -> tuple[float, bool, float, str]:
    """The likeliest first; of equals what can be set before what only comes of it, and the likelier family first."""
    return (-entry.likelihood, _is_outcome(entry.fact), -_family(entry.fact, entry.there, entry.here)[0], entry.fact)


def _family(fact: str, before: str | None, after: str | None) -> tuple[float, str]:
    """How often the family of a fact is the cause, and what it means."""
    if fact.startswith(_NODES) and before is None:
        return _EXTRA_NODE
    if fact in _NEWER and not {before, after} & {None, NONE} and _NEWER[fact](str(after)) > _NEWER[fact](str(before)):
        return _NEWER_DRIVER
    return next(((share, why) for pattern, share, why in _FAMILIES if fnmatchcase(fact, pattern)), _REST)


def _rank(fact: str, before: str | None, after: str | None, new: Sequence[Finding]) -> tuple[float, str]:
    """The likelihood of a difference, and why; more where a finding of this machine alone names the fact."""
    likelihood, why = _family(fact, before, after)
    names = {fact, *_FACT_OF_ENTRY.get(fact, ()), fact.rsplit(".", 1)[-1]}
    if fact.startswith(_LIBRARIES):  # evidence names a library by its file
        names |= {text.split(maxsplit=1)[0] for text in (before, after) if text and ".so" in text}
    for finding in new:
        named = (entry.fact for entry in finding.evidence if entry.to_the_point)
        if finding.severity is not Severity.NOTE and (
            _ABOUT.get(finding.cause) == fact or any(name in names or _without_index(name) in names for name in named)
        ):
            share = _OF_PRIMARY if finding.primary else _OF_FINDING
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


# A Snapshot as named texts that can be held against another machine's.
# What tells machines apart by nature is left out: a UUID, a PCI address, a temperature or a home folder always differs
# and explains nothing.

_OF_PLACES = (
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
    yield from _readings("driver", snapshot.driver, leaving=("nvml_library", "cuda_library"))
    yield from _readings("target", snapshot.target, leaving=_OF_PLACES)
    yield from _readings("grant", snapshot.grant, leaving=("devices",))
    yield from _readings("mps", snapshot.mps)
    yield from _readings("container_support", snapshot.container_support)
    # What was looked for and not found is a fact as well; what is unknown is none.
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
        yield "toolkits", _listed(str(kit.toolkit.value or "of unknown version") for kit in snapshot.toolkits)
    for name, value in snapshot.environment.items():
        yield f"environment.{name}", value


def _readings(path: str, record: Any, leaving: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - any record
    for name in field_names(record):
        value = getattr(record, name)
        if isinstance(value, Reading) and name not in leaving:
            yield from _reading(f"{path}.{name}", value)


def _reading(path: str, reading: Reading[Any]) -> Iterator[tuple[str, str]]:
    if reading.value is not None:
        yield path, _text(reading.value)


def _text(value: Any) -> str:  # noqa: ANN401 - a reading's value
    return _listed(map(format_value, value)) if isinstance(value, tuple) else format_value(value)


def _listed(texts: Iterator[str] | map[str]) -> str:
    return ", ".join(sorted(set(texts))) or NONE


def _gpus(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """GPUs by kind: their order and addresses are each machine's own."""
    if not snapshot.gpus:
        return
    for name, tell in _OF_A_GPU.items():
        counted = Counter(text for gpu in snapshot.gpus if (text := tell(gpu)) is not None)
        if counted:
            yield name, ", ".join(f"{count} x {text}" for text, count in sorted(counted.items()))
    for field in _HEALTH:
        readings = [getattr(gpu.health, field) for gpu in snapshot.gpus]
        told = [_text(reading.value) for reading in readings if reading.known]
        if told:
            yield f"gpus[].health.{field}", _listed(iter(told))


_OF_A_GPU: Mapping[str, Callable[[Gpu], str | None]] = {
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
        yield _CUPY, _listed(entry.label for entry in target.cupy)
    for name, release in target.packages.items():
        if not name.startswith("cupy"):  # listed above
            yield f"{_PACKAGES}{name}", release
    for library in target.libraries:
        release = f" {library.release}" if library.release else ""
        found = f"{library.soname}{release} by {library.found_via or 'loader'}" if library.path else "not found"
        yield f"{_LIBRARIES}{library.name}", found


def undo(difference: SnapshotDifference, every: Sequence[SnapshotDifference], here: Snapshot) -> Fix:
    """The step that removes the likeliest difference; ``every`` is all that differs, for what it may follow from."""
    family, _, name = difference.fact.rpartition(".")
    there, now = difference.shown
    if family == "target.packages":
        if difference.there is None:
            step = pip_fix(here, f"Try without {name}, which is not there.", "uninstall", "-y", name)
        else:
            step = pip_fix(here, f"Install {name} {there}, as it is there.", "install", f"{name}=={there}")
        return for_pixi((step,), here.target)[0]._replace(safe=False)  # it is an attempt
    if family == "environment" and difference.there is None:
        return Fix(f"Try without {name}, which is not set there.", ("env", "-u", name, "python"))
    if family == "environment":
        return Fix(f"Set {name} as it is there: {there}")
    instead = f"{there} instead of {now}"
    if difference.fact in _OF_THE_RELEASE:
        version = next((" instead of ".join(entry.shown) for entry in every if entry.fact == _VERSION), None)
        if version is None and difference.fact == "driver.cuda":  # of the same driver, another libcuda is loaded
            return Fix(f"Let the same libcuda be loaded as there: it is of CUDA {there}, and here of {now}.")
        return Fix(f"Try the driver that is there{f': {version}' if version else f' ({difference.fact}: {instead})'}.")
    what = "a GPU" if family.startswith("gpus[]") else "a system" if family == "host" else None
    as_there = f"Try {what} as it is there ({difference.fact}: {instead})."
    return Fix(as_there if what else f"Make {difference.fact} as it is there: {instead}.")
