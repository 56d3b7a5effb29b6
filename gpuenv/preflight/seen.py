"""What a machine has of the things that requirements ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from packaging.version import Version

from gpuenv.matrix.needs import visible_gpus
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import Container, Gpu, Snapshot, SourceState
from gpuenv.model.versions import CudaVersion, DriverVersion, Libc, PythonVersion

T = TypeVar("T")
_NOT_TOLD = "no source could tell"
_PEER_READS = "ok"
_PEER_UNTOLD = (None, "unknown")  # the second is NVML's own word


@dataclass(frozen=True, slots=True)
class Observation(Generic[T]):
    """One value, with where it comes from.

    Attributes:
        fact: Snapshot path.
        value: None may be one.
        source: who says so; why nobody does, where it is not known.
        subject: of which thing; empty where there is but one.
        known: false where nobody could tell.
    """

    fact: str
    value: T | None
    source: str
    subject: str = ""
    known: bool = True


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """Every value that must satisfy a requirement; ``lacking`` says why there is none, which is not to be met."""

    observations: tuple[Observation[T], ...] = ()
    lacking: str | None = None


def _one(fact: str, reading: Reading[T]) -> Seen[T]:
    return Seen((_observed(fact, reading),))


def _observed(fact: str, reading: Reading[T], subject: str = "") -> Observation[T]:
    if reading.value is None:
        return _untold(fact, reading.reason or _NOT_TOLD, subject)
    return Observation(fact, reading.value, reading.source or "", subject)


def _untold(fact: str, reason: str, subject: str = "") -> Observation[T]:
    return Observation(fact, None, reason, subject, known=False)


def gpu_count(snapshot: Snapshot) -> Seen[int]:
    """How many CUDA devices a program sees that is started here; none where CUDA cannot be initialised."""
    visible, start = snapshot.visible_count, snapshot.driver.cuda_init
    if visible.known:
        return _one("visible_count", visible)
    if start.value:
        return Seen((Observation("driver.cuda_init", 0, f"cuInit returned {start.value}"),))
    if snapshot.source("libcuda").state is SourceState.ABSENT:
        return Seen((Observation("visible_count", 0, visible.reason or "there is no libcuda"),))
    if "driver.version" in snapshot.assumed and not snapshot.driver.version.known:
        return Seen((Observation("driver.version", 0, "assumed to be absent"),))
    return Seen((_untold("visible_count", visible.reason or _NOT_TOLD),))


def _gpus(snapshot: Snapshot) -> tuple[tuple[int, Gpu], ...] | None:
    """The GPUs that a program sees here, with their place in the Snapshot; None where that is not known."""
    count = gpu_count(snapshot).observations[0]
    if count.known and count.value == 0:
        return ()
    seen = visible_gpus(snapshot)
    if not seen:
        return None
    return tuple((place, gpu) for place, gpu in enumerate(snapshot.gpus) if gpu in seen)


def _label(place: int, gpu: Gpu) -> str:
    index = place if gpu.index.value is None else gpu.index.value
    return f"GPU {index}"


def of_each_gpu(field: str, look: Callable[[Gpu], Reading[T]]) -> Callable[[Snapshot], Seen[T]]:
    """What every visible GPU says of itself; where there is none, nothing is met."""

    def seen(snapshot: Snapshot) -> Seen[T]:
        gpus = _gpus(snapshot)
        if gpus is None:
            return Seen((_untold("gpus", "no GPU is listed"),))
        if not gpus:
            return Seen(lacking="no visible GPU")
        return Seen(tuple(_observed(f"gpus[{n}].{field}", look(gpu), _label(n, gpu)) for n, gpu in gpus))

    return seen


def memory(snapshot: Snapshot) -> Seen[int]:
    """Bytes of each visible GPU; with MIG on, of each of its instances, since a program sees one of those."""
    whole: Seen[int] = of_each_gpu("memory_total", lambda gpu: gpu.memory_total)(snapshot)
    gpus = _gpus(snapshot) or ()
    if not any(gpu.mig.value for _, gpu in gpus):
        return whole
    found: list[Observation[int]] = []
    for observation, (place, gpu) in zip(whole.observations, gpus, strict=True):
        found += _instances(place, gpu) if gpu.mig.value else [observation]
    return Seen(tuple(found))


def _instances(place: int, gpu: Gpu) -> Iterable[Observation[int]]:
    if not gpu.mig_instances:
        yield _untold(f"gpus[{place}].mig_instances", "MIG is on, and no instance is listed", _label(place, gpu))
    for number, instance in enumerate(gpu.mig_instances):
        fact = f"gpus[{place}].mig_instances[{number}].memory_total"
        subject = f"{_label(place, gpu)}, MIG instance {number}"
        reading = Reading(instance.memory_total, "nvml", reason=_NOT_TOLD)
        yield _observed(fact, reading, subject)


def total_memory(snapshot: Snapshot) -> Seen[int]:
    """Bytes of all visible GPUs together."""
    each = memory(snapshot)
    unknown = [entry for entry in each.observations if not entry.known]
    if each.lacking or unknown:
        return Seen(tuple(unknown), each.lacking)
    total = sum(entry.value or 0 for entry in each.observations)
    return Seen((Observation("gpus[].memory_total", total, f"the sum of {len(each.observations)}"),))


def alone(snapshot: Snapshot) -> Seen[bool]:
    """Whether no other compute process holds a GPU that is visible here."""
    return of_each_gpu(
        "processes",
        lambda gpu: Reading(
            None if gpu.processes.value is None else gpu.processes.value == 0,
            gpu.processes.source,
            reason=gpu.processes.reason,
        ),
    )(snapshot)


def nvlink(snapshot: Snapshot) -> Seen[bool]:
    """Whether each visible GPU has an NVLink that is up."""

    def up(gpu: Gpu) -> Reading[bool]:
        if not gpu.nvlinks:
            none = gpu.nvlink_count.value == 0
            return Reading(False if none else None, gpu.nvlink_count.source, reason=gpu.nvlink_count.reason)
        return Reading(any(link.active for link in gpu.nvlinks), "nvml")

    return of_each_gpu("nvlinks", up)(snapshot)


def peer_to_peer(snapshot: Snapshot) -> Seen[bool]:
    """Whether each visible GPU can read the memory of each other one."""
    gpus = _gpus(snapshot) or ()
    indices = {gpu.index.value for _, gpu in gpus}
    if len(gpus) == 1:
        return Seen(lacking="one GPU has no peer")

    def reads(gpu: Gpu) -> Reading[bool]:
        others = [peer for peer in gpu.peers if peer.index in indices]
        if any(peer.read not in (*_PEER_UNTOLD, _PEER_READS) for peer in others):
            return Reading(value=False, source="nvml")
        if len(others) < len(gpus) - 1 or any(peer.read in _PEER_UNTOLD for peer in others):
            return Reading(reason="NVML did not tell of every peer")
        return Reading(value=True, source="nvml")

    return of_each_gpu("peers", reads)(snapshot)


def ecc(snapshot: Snapshot) -> Seen[bool]:
    """Whether error correction is on, GPU by GPU."""
    return of_each_gpu("health.ecc", lambda gpu: gpu.health.ecc)(snapshot)


def mig(snapshot: Snapshot) -> Seen[bool]:
    """Whether MIG mode is on, GPU by GPU; a GPU that was asked and has no such mode has it off."""

    def mode(gpu: Gpu) -> Reading[bool]:
        if not gpu.mig.known and gpu.name.source == "nvml":
            return Reading(value=False, source=gpu.mig.reason or "nvml")
        return gpu.mig

    return of_each_gpu("mig", mode)(snapshot)


def driver(snapshot: Snapshot) -> Seen[DriverVersion]:
    """The driver's version."""
    reading = snapshot.driver.version
    gone = "driver.version" in snapshot.assumed or all(
        snapshot.source(name).state is SourceState.ABSENT for name in ("nvml", "libcuda")
    )
    return Seen(lacking="no driver") if gone and not reading.known else _one("driver.version", reading)


def driver_cuda(snapshot: Snapshot) -> Seen[CudaVersion]:
    """The newest CUDA that the libcuda in use supports."""
    if driver(snapshot).lacking and not snapshot.driver.cuda.known:
        return Seen(lacking="no driver")
    return _one("driver.cuda", snapshot.driver.cuda)


def _target_unknown(snapshot: Snapshot, fact: str) -> str | None:
    """Why nothing is known of the target; None where it was asked, or told."""
    source = snapshot.source("target")
    if fact in snapshot.assumed or source.state is SourceState.ANSWERED:
        return None
    return source.detail or f"the target environment: {source.state.value}"


def cupy(snapshot: Snapshot) -> Seen[Version | None]:
    """Every CuPy in the target; its absence is a value."""
    reason = _target_unknown(snapshot, "target.cupy")
    if snapshot.target.cupy:
        return Seen(tuple(_release("target.cupy", entry.release, entry.distribution) for entry in snapshot.target.cupy))
    return Seen((_untold("target.cupy", reason) if reason else Observation("target.cupy", None, "not installed"),))


def numpy(snapshot: Snapshot) -> Seen[Version | None]:
    """NumPy in the target; its absence is a value."""
    release = snapshot.target.numpy.value
    if release is not None:
        return Seen((_release("target.numpy", release),))
    reason = _target_unknown(snapshot, "target.packages.numpy")
    return Seen((_untold("target.numpy", reason) if reason else Observation("target.numpy", None, "not installed"),))


def _release(fact: str, text: str, subject: str = "") -> Observation[Version | None]:
    try:
        return Observation(fact, Version(text), "its metadata", subject)
    except ValueError:  # InvalidVersion, or more digits than int takes
        return _untold(fact, f"{text!r} is no version", subject)


def line(snapshot: Snapshot) -> Seen[str]:
    """The wheel line of every CuPy in the target."""
    if snapshot.target.cupy:
        return Seen(tuple(Observation("target.cupy", c.distribution, "its metadata") for c in snapshot.target.cupy))
    reason = _target_unknown(snapshot, "target.cupy")
    return Seen((_untold("target.cupy", reason),)) if reason else Seen(lacking="no CuPy is installed")


def python(snapshot: Snapshot) -> Seen[PythonVersion]:
    """The target's Python."""
    return _one("target.python", snapshot.target.python)


def operating_system(snapshot: Snapshot) -> Seen[str]:
    """``linux`` and so on."""
    return _one("host.os", snapshot.host.os)


def architecture(snapshot: Snapshot) -> Seen[str]:
    """``x86_64`` or ``aarch64``."""
    return _one("host.arch", snapshot.host.arch)


def libc(snapshot: Snapshot) -> Seen[Libc]:
    """The C library of the target."""
    return _one("host.libc", snapshot.host.libc)


def container(snapshot: Snapshot) -> Seen[bool]:
    """Whether this is inside a container."""
    reading = snapshot.host.container
    inside = None if reading.value is None else reading.value is not Container.NONE
    return _one("host.container", Reading(inside, reading.source, reason=reading.reason))


def toolkit(snapshot: Snapshot) -> Seen[CudaVersion]:
    """The CUDA toolkit that CuPy would meet first."""
    if snapshot.toolkits:
        return _one("toolkits[0].toolkit", snapshot.toolkits[0].toolkit)
    asked = "toolkits" in snapshot.assumed or snapshot.source("kernel").state is SourceState.ANSWERED
    return Seen(lacking="no toolkit") if asked else Seen((_untold("toolkits", "nobody looked for one"),))
