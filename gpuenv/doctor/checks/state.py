"""The state in which the GPUs are: their mode, their memory, their links, and who holds them."""

from __future__ import annotations

from gpuenv.doctor.evidence import fact
from gpuenv.doctor.fixes.gpus import called, option_of, resets, showing
from gpuenv.doctor.predicates import probed
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.snapshot import GRAVE_REASONS, ComputeMode, Gpu, GpuHealth, Snapshot

_BEFORE = ("DRV100", "GPU201", "GPU202", "GPU203")
_EXCLUSIVE = (ComputeMode.EXCLUSIVE_PROCESS, ComputeMode.EXCLUSIVE_THREAD)
_MPS = "nvidia-cuda-mps"  # the kernel keeps 15 characters of nvidia-cuda-mps-server
_MPS_VARIABLES = ("CUDA_MPS_PIPE_DIRECTORY",)
_FULL = 20  # one part in so many is left
_LINKS_OF_A_BRIDGE = 4


def _seen(snapshot: Snapshot) -> list[tuple[int, Gpu]]:
    """The GPUs that this process sees, with their place in the Snapshot."""
    return [(place, gpu) for place, gpu in enumerate(snapshot.gpus) if gpu.ordinal.known]


def _listed_alone(snapshot: Snapshot) -> list[tuple[int, Gpu]]:
    """The GPUs of nvidia-smi where libcuda was not probed, as in a paste."""
    return [] if probed(snapshot) else [(n, gpu) for n, gpu in enumerate(snapshot.gpus) if gpu.index.known]


@check("GPU205", Cause.COMPUTE_MODE_EXCLUSIVE, requires=_BEFORE)
def compute_mode(facts: Facts) -> Outcome:
    """The GPU's compute mode keeps this process out.

    What it means: in prohibited mode no process can compute on the GPU; in exclusive mode one process can, and it is
    there already. CUDA lists the GPU and then says that all devices are busy or unavailable. Under MPS the one process
    is MPS's server, which lets others in.
    How it is seen: NVML tells the compute mode and the processes that hold the GPU.
    What to do: wait for the process that holds it, take another GPU, or set the mode to default.
    """
    seen = _seen(facts.snapshot) or _listed_alone(facts.snapshot)
    closed = [(place, gpu) for place, gpu in seen if _closed(facts.snapshot, gpu)]
    if not closed:
        return
    evidence = [entry for place, gpu in closed for entry in fact(f"gpus[{place}].compute_mode", gpu.compute_mode)]
    evidence += [entry for place, gpu in closed for entry in _holders(place, gpu)]
    prohibited = any(gpu.compute_mode.value is ComputeMode.PROHIBITED for _, gpu in closed)
    open_ones = [gpu for _, gpu in seen if not _closed(facts.snapshot, gpu)]
    other = showing(open_ones[:1], facts.snapshot.gpus)
    fixes = [Fix(f"Take a GPU that is open: {' '.join(other)}.")] if other else []
    first = closed[0][1].index.value
    fixes.append(Fix("Let everybody use it again.", ("sudo", "nvidia-smi", "-i", str(first), "-c", "DEFAULT")))
    yield Symptom(
        f"{', '.join(called(gpu) for _, gpu in closed)}: "
        + ("the compute mode prohibits every use" if prohibited else "exclusive mode, and another process holds it"),
        tuple(evidence),
        tuple(fixes),
        Severity.WARNING if open_ones else Severity.ERROR,
    )


def _closed(snapshot: Snapshot, gpu: Gpu) -> bool:
    mode = gpu.compute_mode.value
    if mode is ComputeMode.PROHIBITED:
        return True
    return mode in _EXCLUSIVE and bool(gpu.processes.value) and not _shared_by_mps(snapshot, gpu)


def _shared_by_mps(snapshot: Snapshot, gpu: Gpu) -> bool:
    """Whether the process that holds the GPU is MPS's server, as its name or the variables say."""
    if any((user.name or "").startswith(_MPS) for user in gpu.users):
        return True
    nameless = all(user.name is None for user in gpu.users)
    told = any(name in snapshot.environment for name in _MPS_VARIABLES)
    return nameless and (told or bool(snapshot.mps.daemon.value))


def _holders(place: int, gpu: Gpu) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            f"gpus[{place}].users",
            f"process {user.pid}{f' ({user.name})' if user.name else ''}"
            + (f", {user.memory >> 20} MiB" if user.memory is not None else ""),
            gpu.processes.source or "nvml",
        )
        for user in gpu.users[:4]
    )


@check("GPU206", Cause.GPU_HARDWARE_FAULT, requires=_BEFORE)
def memory_errors(facts: Facts) -> Outcome:
    """The GPU's memory has errors that wait for a reset, or that can no longer be mended.

    What it means: a page to be retired or a row to be remapped stays in use until the GPU is reset; programs that meet
    it end with an ECC error. A remapping that has failed means that there is no spare row left: the GPU is to be
    replaced. Errors that were corrected are no fault.
    How it is seen: NVML's counts of uncorrected errors since the driver was loaded, of retired pages and remapped rows.
    What to do: end the programs on the GPU and reset it, or restart the machine; if errors come back, have it replaced.
    """
    for place, gpu in enumerate(facts.snapshot.gpus):
        health, path = gpu.health, f"gpus[{place}].health"
        if health.rows_failed.value:
            yield Symptom(
                f"{called(gpu)}: a memory row could not be remapped",
                fact(f"{path}.rows_failed", health.rows_failed)
                + fact(f"{path}.rows_uncorrected", health.rows_uncorrected),
                (Fix("Have the GPU replaced; until then keep work off it."),),
            )
        elif waiting := _waiting(health, path):
            yield Symptom(
                f"{called(gpu)}: memory errors wait for a reset",
                waiting,
                (
                    *resets("End every program on it, then reset it.", [option_of(gpu)]),
                    Fix("Or restart the machine; if errors come back, have the GPU replaced."),
                ),
                Severity.WARNING,
            )


def _waiting(health: GpuHealth, path: str) -> tuple[Evidence, ...]:
    found: tuple[Evidence, ...] = ()
    if health.rows_pending.value:
        found += fact(f"{path}.rows_pending", health.rows_pending)
    if health.pages_pending.value:
        found += fact(f"{path}.pages_pending", health.pages_pending)
    if health.ecc_uncorrected.value:
        found += fact(f"{path}.ecc_uncorrected", health.ecc_uncorrected)
    return found


@check("GPU207", Cause.GPU_THROTTLED, requires=_BEFORE)
def nvlink_down(facts: Facts) -> Outcome:
    """An NVLink of a GPU is down where all should be up.

    What it means: on an NVSwitch machine every link of a GPU leads to a switch, and the bridge of a pair of GPUs that
    have four links or fewer carries all of them; one that is down costs bandwidth, and collective operations may fail.
    Elsewhere links without a bridge are down by design, and are no fault.
    How it is seen: NVML says that some links are up and others are not, while the fabric's registration is complete, or
    the GPU has few links; or that a GPU has fewer up than another one of its kind.
    What to do: look for SXid and Xid messages in the kernel's log, seat the bridge anew or reset the GPUs, have the
    board looked at.
    """
    for place, gpu in enumerate(facts.snapshot.gpus):
        down = [link.link for link in gpu.nvlinks if not link.active]
        if not down or len(down) == len(gpu.nvlinks) or not _should_all_be_up(gpu, facts.snapshot):
            continue
        yield Symptom(
            f"{called(gpu)}: {len(down)} of {len(gpu.nvlinks)} NVLinks are down",
            (Evidence(f"gpus[{place}].nvlinks", f"down: {', '.join(map(str, down))}", "nvml"),)
            + (fact(f"gpus[{place}].fabric.state", gpu.fabric.state) if gpu.fabric.state.known else ()),
            (
                Fix("Look for Xid and SXid messages of the driver in the kernel's log.", ("sudo", "dmesg")),
                Fix("Switch off and seat the NVLink bridge anew, where there is one."),
            ),
            Severity.WARNING,
        )


def _should_all_be_up(gpu: Gpu, snapshot: Snapshot) -> bool:
    """Whether a switch or a single bridge has all its links; or its twin has more of them up."""
    if gpu.fabric.state.value == "completed" or len(gpu.nvlinks) <= _LINKS_OF_A_BRIDGE:
        return True
    twins = [other for other in snapshot.gpus if other.name.value == gpu.name.value]
    return any(sum(link.active for link in other.nvlinks) > sum(link.active for link in gpu.nvlinks) for other in twins)


_COOL = Fix(
    "Cool it: look at fans, dust and the room's temperature; a board without a fan needs the air of a server's case."
)
_LOOK_AT_IT = Fix("Look at fans, dust, the room's temperature and the power cables of the GPU.")


@check("GPU210", Cause.GPU_THROTTLED, requires=_BEFORE)
def held_down(facts: Facts) -> Outcome:
    """The GPU's clock is held down by heat or by its power supply.

    What it means: the GPU protects itself: it is too hot, or the board or the server signals that there is not enough
    power. Programs run on, several times slower. An idle GPU, or one at its power limit under load, is none of these.
    How it is seen: NVML's reasons for the clock: a thermal slowdown, a hardware slowdown or the power brake.
    What to do: look at fans, dust, the room's temperature and the power cables; put less load on the server.
    """
    for place, gpu in enumerate(facts.snapshot.gpus):
        grave = [reason for reason in gpu.health.throttle_reasons.value or () if reason in GRAVE_REASONS]
        if not grave:
            continue
        path = f"gpus[{place}].health"
        yield Symptom(
            f"{called(gpu)}: its clock is held down: {', '.join(grave)}",
            fact(f"{path}.throttle_reasons", gpu.health.throttle_reasons)
            + fact(f"{path}.temperature", gpu.health.temperature)
            + fact(f"{path}.clock", gpu.health.clock),
            (
                Fix("See what it says of heat and power.", ("nvidia-smi", "-q", "-d", "PERFORMANCE,TEMPERATURE,POWER")),
                _COOL if any("thermal" in reason for reason in grave) else _LOOK_AT_IT,
            ),
            Severity.WARNING,
        )


@check("GPU208", Cause.GPU_BUSY, requires=(*_BEFORE, "GPU205"), of_process=True)
def memory_taken(facts: Facts) -> Outcome:
    """Other processes hold nearly all memory of the GPU that programs take first.

    What it means: a program that names no device uses the first that CUDA lists. Little of that GPU's memory is left,
    so allocations fail, though nothing is broken.
    How it is seen: NVML's free memory of CUDA device 0 is less than a twentieth of the whole.
    What to do: end what holds it, or choose another GPU by CUDA_VISIBLE_DEVICES.
    """
    seen = _seen(facts.snapshot)
    for place, gpu in seen:
        total, free = gpu.memory_total.value, gpu.memory_free.value
        if gpu.ordinal.value != 0 or gpu.mig.value or total is None or free is None or free * _FULL >= total:
            continue
        freest = max((other for _, other in seen), key=lambda other: other.memory_free.value or 0)
        fixes = [Fix("End the processes that hold it, or wait for them.", ("nvidia-smi",))]
        other = showing([freest], facts.snapshot.gpus)
        if other and freest is not gpu and (freest.memory_free.value or 0) > free:
            fixes.append(Fix(f"Or take the GPU with the most free memory: {' '.join(other)}."))
        yield Symptom(
            f"{called(gpu)}: {free >> 20} of {total >> 20} MiB are free",
            fact(f"gpus[{place}].memory_free", gpu.memory_free) + _holders(place, gpu),
            tuple(fixes),
            Severity.WARNING,
        )
