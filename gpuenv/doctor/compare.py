"""Compares two machines: "it works there and not here".

The worst finding that only the second machine has explains the failure, with the differing facts that belong to it. The
other differences are ranked by the kind of fact, by how often it was the cause in public reports of broken CuPy
environments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any

from gpuenv.doctor.fixes.adaptation import adapt_for_pixi
from gpuenv.doctor.fixes.packages import pip_fix
from gpuenv.doctor.fixes.variables import change_fix
from gpuenv.doctor.predicates import is_gpu_node
from gpuenv.matrix.needs import driver_absent
from gpuenv.model.causes import Cause
from gpuenv.model.codec import field_names
from gpuenv.model.documents import DIFF, ComparedFinding, Comparison, SnapshotDifference
from gpuenv.model.finding import Finding, Fix, Severity
from gpuenv.model.gpus import gpu_is_absent
from gpuenv.model.nvidia import Cuda, Nvml
from gpuenv.model.reading import Reading
from gpuenv.model.redaction import hide_value
from gpuenv.model.snapshot import Gpu, Snapshot, SourceState, Target
from gpuenv.model.strings import NONE, format_value, pattern
from gpuenv.model.versions import CudaVersion, DriverVersion

_EXPLANATION_LIKELIHOOD, _FINDING_LIKELIHOOD = 0.95, 0.8

# Pattern of facts, likelihood and meaning; the first match counts. What selects a library is as likely as the library.
_KINDS: tuple[tuple[str, float, str], ...] = (
    ("target.cupy", 0.75, "another CuPy line or release"),
    ("environment.LD_LIBRARY_PATH", 0.7, "the loader searches other folders"),
    ("environment.LD_PRELOAD", 0.7, "a library is preloaded"),
    ("environment.CUDA_PATH", 0.7, "CuPy uses another toolkit"),
    ("target.packages.nvidia-*", 0.7, "other CUDA wheels next to CuPy"),
    ("target.packages.cuda-*", 0.7, "other CUDA packages next to CuPy"),
    ("target.libraries.*", 0.7, "CuPy would load another CUDA library"),
    ("visible_count", 0.7, "this process does not see the same GPUs"),
    ("gpus[[]].hidden_by", 0.65, "something hides a GPU"),
    ("driver.cuda_init", 0.65, "how CUDA starts"),
    ("driver.nvml_init", 0.65, "how NVML starts"),
    ("driver.module", 0.65, "the kernel module is in a different state"),
    ("environment.CUDA_VISIBLE_DEVICES", 0.6, "the variable that chooses GPUs"),
    ("target.file_faults_count", 0.6, "installed files are missing or changed"),
    ("driver.cuda", 0.55, "the driver supports a different CUDA version"),
    ("driver.cuda_origin", 0.55, "libcuda comes from a different location"),
    ("driver.version", 0.5, "a different driver"),
    ("driver.device_nodes", 0.3, "the driver's device files that this user may open"),
    ("driver.flavor", 0.35, "open or proprietary kernel modules"),
    ("driver.*", 0.4, "a different state of the driver"),
    ("gpus[[]].compute_capability", 0.5, "GPUs of a different generation"),
    ("gpus[[]].compute_mode", 0.5, "the compute mode of a GPU"),
    ("gpus[[]].mig*", 0.5, "MIG mode"),
    ("gpus[[]].fabric.state", 0.5, "the NVSwitch fabric"),
    ("gpus[[]].memory_total", 0.25, "the memory of a GPU"),
    ("gpus[[]].*", 0.4, "the state of a GPU"),
    ("gpus", 0.3, "other GPUs"),
    ("target.*numpy", 0.5, "a different NumPy"),
    ("environment.NVIDIA_*", 0.45, "the parts of the driver in the container"),
    ("environment.CUPY_*", 0.45, "CuPy's own settings"),
    ("environment.CUDA_HOME", 0.4, "another toolkit"),
    ("environment.*", 0.3, "the environment"),
    ("host.container", 0.4, "one of the machines is a container"),
    ("host.libc", 0.4, "a different C library"),
    ("host.arch", 0.4, "a different architecture"),
    ("host.*", 0.2, "a different system"),
    ("target.python", 0.4, "a different Python"),
    ("target.packages.*", 0.3, "a different package next to CuPy"),
    ("toolkits", 0.3, "other CUDA toolkits"),
    ("grant.*", 0.4, "the scheduler granted other GPUs"),
    ("*", 0.15, "it differs"),
)
_DRIVER = "driver.version"
# NVIDIA, CUDA Compatibility, Minor Version Compatibility, table (read 2026-11-20): above its range, a release runs on
# newer drivers by backward compatibility.
_NEWER_DRIVER = (0.3, "a newer driver, which runs what the older one does")
_NEWER: Mapping[str, Callable[[str], Any]] = {
    _DRIVER: lambda text: DriverVersion.parse(text.partition(",")[0]).parts,
    "driver.cuda": CudaVersion.parse,
}
_COUNT = pattern(r"\b\d+ x ")
_COUNTS_DIFFER = (0.3, "a different number of GPUs")
_PACKAGES, _LIBRARIES, _VARIABLES = "target.packages.", "target.libraries.", "environment."
# Consequences of a cause, which cannot be set.
_OUTCOMES = ("visible_count", "gpus[].hidden_by", "driver.cuda_init", "driver.nvml_init")
_FACT_OF_CAUSE = {Cause.NO_NVIDIA_GPU: "gpus", Cause.CUPY_NOT_INSTALLED: "target.cupy"}
# Other names of facts in the evidence of findings.
_OTHER_NAMES = {
    "gpus": ("GPU", "gpu_count", "amd_gpus"),
    "gpus[].compute_capability": ("GPU",),
    _DRIVER: ("driver.module_version", "driver.library_version"),
    "driver.cuda_init": ("status of libcuda",),
    "driver.nvml_init": ("status of nvml",),
    "target.packages.numpy": ("target.numpy",),
}


def compare(
    there: Snapshot, here: Snapshot, findings_there: Sequence[Finding], findings_here: Sequence[Finding]
) -> Comparison:
    """The differences between a working machine (``there``) and a broken one (``here``), the likeliest first."""
    new = [finding for finding in findings_here if not _has(findings_there, finding)]
    explaining = [finding for finding in new if finding.severity is not Severity.NOTE]
    facts = tuple(_facts_of_both(there, here))
    differences = sorted(
        (_rank(*fact, explaining) for fact in facts if _comparable(fact[1]) != _comparable(fact[2])), key=_order
    )
    return Comparison(
        schema=DIFF,
        differences=tuple(differences),
        findings=_compared_findings(new),
        try_first=explaining[0].fix if explaining else _experiment(differences, here),
        compared=sum(None not in fact for fact in facts),
        explanation=next(iter(_compared_findings(explaining)), None),
        findings_there=_compared_findings(finding for finding in findings_there if not _has(findings_here, finding)),
        findings_on_both=_compared_findings(finding for finding in findings_here if _has(findings_there, finding)),
    )


def _has(findings: Iterable[Finding], wanted: Finding) -> bool:
    """Whether the wanted finding is among the findings, at least as severe."""
    order = list(Severity)
    return any(
        (finding.code, finding.cause) == (wanted.code, wanted.cause)
        and order.index(finding.severity) <= order.index(wanted.severity)
        for finding in findings
    )


def _compared_findings(findings: Iterable[Finding]) -> tuple[ComparedFinding, ...]:
    return tuple(ComparedFinding(entry.code, entry.cause, entry.title, entry.severity) for entry in findings)


def _rank(fact: str, before: str | None, after: str | None, explaining: Sequence[Finding]) -> SnapshotDifference:
    """A difference with its likelihood, which is higher if it belongs to a finding; the first explains the failure."""
    likelihood, why = _rating(fact, before, after)
    owner = next((finding for finding in explaining if _belongs(fact, before, after, finding)), None)
    if owner is not None:
        likelihood = _EXPLANATION_LIKELIHOOD if owner is explaining[0] else _FINDING_LIKELIHOOD
        why = _rating_of_kind(fact)[1]
    if fact.startswith(_VARIABLES):
        before, after = (value and hide_value(fact.removeprefix(_VARIABLES), value) for value in (before, after))
    return SnapshotDifference(fact, before, after, likelihood, why, owner.code if owner else None)


def _rating(fact: str, before: str | None, after: str | None) -> tuple[float, str]:
    """The likelihood of a difference by its kind of fact and its values, and what it means."""
    parse = None if NONE in (before, after) else _NEWER.get(fact)
    if parse and parse(str(after)) > parse(str(before)):
        return _NEWER_DRIVER
    if fact == "gpus" and _COUNT.sub("", str(before)) == _COUNT.sub("", str(after)):
        return _COUNTS_DIFFER
    return _rating_of_kind(fact)


def _rating_of_kind(fact: str) -> tuple[float, str]:
    """The likelihood and meaning of the kind of fact alone."""
    return next((likelihood, why) for kind, likelihood, why in _KINDS if fnmatchcase(fact, kind))


def _belongs(fact: str, before: str | None, after: str | None, finding: Finding) -> bool:
    """Whether the evidence of a finding names the fact, or a distribution or library file in its values."""
    if _FACT_OF_CAUSE.get(finding.cause) == fact:
        return True
    names = {_INDEX.sub("[]", entry.fact) for entry in finding.evidence if entry.to_the_point}
    words = f"{before} {after}".replace(",", " ").split() if fact.startswith(("target.cupy", _LIBRARIES)) else ()
    return not names.isdisjoint((fact, *_OTHER_NAMES.get(fact, ()), *words))


_INDEX = pattern(r"\[\d+\]")


def _order(entry: SnapshotDifference) -> tuple[float, bool, float, str]:
    """The likeliest first; of equals those that can be set, then the likelier kind of fact."""
    is_outcome = entry.fact in _OUTCOMES or entry.fact.startswith(_LIBRARIES)
    return (-entry.likelihood, is_outcome, -_rating(entry.fact, entry.there, entry.here)[0], entry.fact)


def _experiment(differences: Sequence[SnapshotDifference], here: Snapshot) -> tuple[Fix, ...]:
    """Without a finding: how to undo the likeliest difference, if it lies inside the environment."""
    kind, _, name = differences[0].fact.rpartition(".") if differences else ("", "", "")
    there = differences[0].there if differences else None
    if kind == "environment" and there is None:
        return (change_fix(here, name, text=f"Try without {name}, which is not set on the other machine."),)
    if kind != "target.packages":
        return ()
    if there is None:
        step = pip_fix(here, f"Try without {name}, which the other machine does not have.", "uninstall", "-y", name)
    else:
        step = pip_fix(here, f"Install {name} {there}, as on the other machine.", "install", f"{name}=={there}")
    return (adapt_for_pixi((step,), here.target)[0]._replace(safe=False),)  # an experiment, not a repair


# These differ between any two machines: paths below a home or a temporary folder, UUIDs and addresses.
_OWN_PATH = pattern(
    r"(?<![^\s:;,=])(?:~|(?:/private)?/(?:tmp|var/tmp|var/folders|dev/shm|home|Users|root)|[A-Za-z]:\\Users)"
    r"(?![^/\\:;,\s])[^:;,\s]*"
)
_SEVERAL = pattern(r"~(?:[:;]~)+")
_IDENTIFIER = pattern(
    r"\b(?:GPU|MIG)-[0-9A-Fa-f-]{8,}(?:/\d+/\d+)?|\b(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d\b"
)


def _comparable(value: str | None) -> str | None:
    """The value without private paths and identifiers."""
    return value and _IDENTIFIER.sub("-", _SEVERAL.sub("~", _OWN_PATH.sub("~", value)))


def _facts_of_both(there: Snapshot, here: Snapshot) -> Iterator[tuple[str, str | None, str | None]]:
    """The facts known on both machines, as texts; None for an entry that is known to be absent on one of them."""
    first, second = dict(_facts(there)), dict(_facts(here))
    kinds_there, kinds_here = _complete_kinds(there), _complete_kinds(here)
    for fact in sorted(first.keys() | second.keys()):
        before, after = first.get(fact), second.get(fact)
        # An absent package, variable or device is a difference; an unknown fact is not.
        comparable = kinds_there if before is None else kinds_here if after is None else ("",)
        if fact.startswith(comparable):
            yield fact, before, after
    yield from _gpu_facts(there, here)


def _complete_kinds(snapshot: Snapshot) -> tuple[str, ...]:
    """Kinds of entries that a snapshot lists completely, so that an unlisted entry is absent.

    A paste may contain part of a list.
    """
    has_packages = snapshot.is_probed or snapshot.source("target").state is SourceState.ANSWERED
    return (_VARIABLES, _PACKAGES) if has_packages else (_VARIABLES,)


# Paths, facts that follow from other facts, and facts that change by themselves.
_EXCLUDED = {
    "host": ("suspends",),
    "driver": ("branch", "module_version", "library_version", "nvml_library", "cuda_library", "module_files"),
    "target": (
        *("executable", "prefix", "user_site", "cupy_module", "numpy", "numpy_module", "numpy_fault"),
        "pathfinder_hidden_by",
        *("cuda_path", "headers", "extension", "kernel_cache", "lost_environment", "examined_as", "open_transaction"),
    ),
    "grant": ("devices",),
}
_JOB_NUMBERS = ("SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID")


def _facts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """The facts of a snapshot without those of its GPUs, as texts that are comparable between machines."""
    for name in ("host", "driver", "target", "grant", "mps", "container_support"):
        record = getattr(snapshot, name)
        for field in field_names(record.__class__):
            reading = getattr(record, field)
            if isinstance(reading, Reading) and reading.known and field not in _EXCLUDED.get(name, ()):
                yield f"{name}.{field}", _text(f"{name}.{field}", reading.value)
    if version := _driver_version(snapshot):
        yield _DRIVER, version
    if snapshot.rocm.value is not None:
        yield "rocm", snapshot.rocm.value
    yield from _target(snapshot.target, assumed="target.cupy" in snapshot.assumed)
    if snapshot.is_probed:
        yield "driver.device_nodes", _device_nodes(snapshot)
    if snapshot.toolkits:
        yield "toolkits", _join(str(kit.toolkit.value or "of unknown version") for kit in snapshot.toolkits)
    for name, value in snapshot.environment.items():
        if name not in _JOB_NUMBERS:
            yield f"{_VARIABLES}{name}", value


_UNNEEDED_NODE = "/dev/nvidia-modeset"


def _device_nodes(snapshot: Snapshot) -> str:
    """The accessible device nodes that CUDA needs; those of the GPUs as one, if every GPU has its own."""
    nodes = {node.path for node in snapshot.driver.device_nodes if node.accessible} - {_UNNEEDED_NODE}
    of_gpus = {path for path in nodes if is_gpu_node(path)}
    if of_gpus and len(of_gpus) == snapshot.gpu_count.value:
        nodes = (nodes - of_gpus) | {"/dev/nvidiaN of each GPU"}
    return _join(nodes)


def _driver_version(snapshot: Snapshot) -> str | None:
    """The version, and those of its parts that differ from it; what is known to be absent is a fact."""
    version = snapshot.driver.version.value
    if version is None:
        return NONE if driver_absent(snapshot) else None
    parts = {"module": snapshot.driver.module_version.value, "library": snapshot.driver.library_version.value}
    return f"{version}{''.join(f', {name} {part}' for name, part in parts.items() if part not in (None, version))}"


_CODES = {"driver.cuda_init": Cuda, "driver.nvml_init": Nvml}


def _text(fact: str, value: Any) -> str:  # noqa: ANN401 - a reading's value
    if fact in _CODES:
        name = next((code.name for code in _CODES[fact] if code == value), "success" if value == 0 else None)
        return f"{value} ({name.lower().replace('_', ' ')})" if name else str(value)
    if fact == "memory_total":
        return f"{value / 2**30:.0f} GiB"
    return _join(map(format_value, value)) if isinstance(value, tuple) else format_value(value)


def _join(texts: Iterable[str]) -> str:
    return ", ".join(sorted(set(texts))) or NONE


def _target(target: Target, *, assumed: bool) -> Iterator[tuple[str, str]]:
    if target.numpy.value and "numpy" not in target.packages:
        yield "target.numpy", target.numpy.value
    if target.python.known or target.cupy or assumed:
        yield "target.cupy", _join(entry.label for entry in target.cupy)
    for name, release in target.packages.items():
        if not name.startswith("cupy"):  # listed above
            yield f"{_PACKAGES}{name}", release
    for library in target.libraries:
        release = f" {library.release}" if library.release else ""
        found = f"{library.soname}{release} by {library.found_via or 'loader'}" if library.path else "not found"
        yield f"{_LIBRARIES}{library.name}", found


# Readings of a GPU that are neither its identity nor momentary.
_GPU_FACTS = (
    "compute_capability", "memory_total", "mig", "mig_pending", "compute_mode", "virtualization", "licensed",
    "hidden_by", "fabric.state", "nvlink_count", "pcie.width", "health.ecc", "health.ecc_pending", "health.power_limit",
    "health.pages_pending", "health.rows_pending", "health.rows_failed", "health.inforom_valid",
)  # fmt: skip


def _gpu_facts(there: Snapshot, here: Snapshot) -> Iterator[tuple[str, str | None, str | None]]:
    """Compares which GPUs there are, and every fact of a GPU with that of its counterpart."""
    for fact, text_of in (("gpus", _gpu_list), ("visible_count", _visible)):
        before, after = text_of(there), text_of(here)
        if before and after:
            yield fact, before, after
    for fact in _GPU_FACTS:
        before, after = _gpu_text(fact, there.gpus), _gpu_text(fact, here.gpus)
        if before and after:
            same = not (_has_another(fact, there.gpus, here.gpus) or _has_another(fact, here.gpus, there.gpus))
            yield f"gpus[].{fact}", before, before if same else after


def _gpu_list(snapshot: Snapshot) -> str | None:
    """The GPUs by product."""
    if any(gpu.name.known for gpu in snapshot.gpus):
        counted = Counter(gpu.name.value or "GPU of unknown name" for gpu in snapshot.gpus)
        return _join(f"{count} x {name}" for name, count in counted.items())
    if gpu_is_absent(snapshot):
        return NONE
    return "none that the driver lists" if snapshot.gpu_count.value == 0 else None


def _visible(snapshot: Snapshot) -> str | None:
    visible, count = snapshot.visible_count.value, snapshot.gpu_count.value
    if visible is None or not count:
        return None
    return "every GPU" if visible >= count else f"{visible} of {count}"


def _gpu_fact(fact: str, gpu: Gpu) -> str | None:
    value = attrgetter(fact)(gpu).value
    if value is None and fact == "hidden_by" and gpu.ordinal.known:
        return NONE
    return None if value is None else _text(fact, value)


def _has_another(fact: str, gpus: Sequence[Gpu], others: Sequence[Gpu]) -> bool:
    """Whether a GPU has another value than its counterpart.

    Its counterpart has the same index among the GPUs of its product; otherwise any GPU of its product counts, or any.
    """
    seen: Counter[str | None] = Counter()
    for gpu in gpus:
        name = gpu.name.value
        same = [other for other in others if other.name.value == name]
        counterparts = same[seen[name] : seen[name] + 1] or same or others
        seen[name] += 1
        values = {_comparable(_gpu_fact(fact, other)) for other in counterparts} - {None}
        value = _comparable(_gpu_fact(fact, gpu))
        if value is not None and values and value not in values:
            return True
    return False


def _gpu_text(fact: str, gpus: Sequence[Gpu]) -> str | None:
    """The value, or each value with the GPUs that have it."""
    indices: dict[str, list[str]] = {}
    for number, gpu in enumerate(gpus):
        if (value := _gpu_fact(fact, gpu)) is not None:
            indices.setdefault(value, []).append(str(number if gpu.index.value is None else gpu.index.value))
    if len(indices) > 1:
        return "; ".join(f"GPU {', '.join(numbers)}: {value}" for value, numbers in indices.items())
    return next(iter(indices), None)
