"""Sources that hang, crash or contradict each other."""

from __future__ import annotations

from typing import TypeVar

from gpuenv.doctor.evidence import evidence_of, hardware_event_evidence
from gpuenv.doctor.predicates import libraries_absent
from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix, Severity
from gpuenv.model.gpus import driver_nodes, module_loaded
from gpuenv.model.nvidia import Nvml
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import Snapshot, SourceState

T = TypeVar("T")

# A GPU that is lost, or a driver that cannot start it: sources then count differently, and nvidia-smi fails as well. A
# variable, a mode of the GPU or a missing node is nothing to them.
_GPU_GONE = ("GPU203", "GPU204", "GPU209", "DRV110", "DRV113", "DRV119", "DRV120", "DRV121", "DRV122", "CTR306")
_DEAD = (SourceState.TIMED_OUT, SourceState.CRASHED)
_FAILED = (*_DEAD, SourceState.FAILED)
_SMI = ("nvidia-smi",)


@check("DRV100", Cause.DRIVER_UNRESPONSIVE)
def driver_unresponsive(ctx: CheckContext) -> Outcome:
    """A call into the driver hangs or crashes.

    What it means: NVML or libcuda was loaded, and a call into it did not come back or ended the process. Whatever uses
    the GPU here will hang or die the same way.
    How it is seen: each library is asked in a process of its own, which was killed at the deadline or by a signal.
    What to do: look for Xid messages in the kernel's log; end the processes that hold the GPU; restart the machine. If
    it comes back at once, reinstall the driver, or have the GPU looked at. Many GPUs without persistence mode may only
    be slow to wake: give them more time with --timeout.
    """
    dead = [name for name in ("nvml", "libcuda") if ctx.snapshot.source(name).state in _DEAD]
    if not dead:
        return
    hung = any(ctx.snapshot.source(name).state is SourceState.TIMED_OUT for name in dead)
    yield Symptom(
        f"{' and '.join('NVML' if name == 'nvml' else name for name in dead)} {_PREDICATES[hung, len(dead) > 1]}",
        evidence_of(ctx.snapshot, *dead)
        + hardware_event_evidence(ctx.snapshot)
        + evidence_of(ctx.snapshot, "driver.version"),
        (
            Fix("Look for Xid messages of the driver in the kernel's log.", ("sudo", "dmesg")),
            Fix("Restart the machine; if it comes back at once, reinstall the driver."),
            *((_MORE_TIME,) if hung else ()),
        ),
    )


_MORE_TIME = Fix(
    "Where many GPUs without persistence mode may only be slow to wake, give them more time: --timeout 120."
)
_PREDICATES = {
    (True, False): "does not answer",
    (True, True): "do not answer",
    (False, False): "crashes",
    (False, True): "crash",
}


@check("DRV101", Cause.SOURCES_DISAGREE)
def only_nvidia_smi_speaks(ctx: CheckContext) -> Outcome:
    """Only nvidia-smi tells of a GPU; the driver is not there.

    What it means: a program named nvidia-smi prints a driver or a GPU, but there is no kernel module, no NVML and no
    libcuda, all of which the real one needs. It is a stand-in, or a leftover of another machine; programs cannot use
    that GPU.
    How it is seen: nvidia-smi answers while both libraries are absent and no module is loaded.
    What to do: look at which nvidia-smi is found first on PATH and remove it, or install the driver that it belongs to.
    """
    snapshot = ctx.snapshot
    if snapshot.source("nvidia-smi").state is not SourceState.ANSWERED or not libraries_absent(snapshot):
        return
    if module_loaded(snapshot) or driver_nodes(snapshot) or not (snapshot.gpus or snapshot.driver.version.known):
        return
    yield Symptom(
        "Only nvidia-smi tells of an NVIDIA GPU; the driver's libraries and kernel module are not there",
        evidence_of(snapshot, "driver.version", "nvidia-smi", "nvml", "libcuda"),
        (
            Fix(
                "See which nvidia-smi is found first, and remove it if it is no part of a driver.",
                ("which", "-a", "nvidia-smi"),
            ),
            Fix("If there is an NVIDIA GPU in this machine, install its driver."),
        ),
    )


@check("DRV102", Cause.SOURCES_DISAGREE, requires=("DRV100", "DRV101"), follows=_GPU_GONE)
def sources_disagree(ctx: CheckContext) -> Outcome:
    """Two sources contradict each other about the driver or the GPUs.

    What it means: NVML, the kernel module and nvidia-smi should tell the same driver version and the same number of
    GPUs, and libcuda the same compute capability of each. Where they differ, a library or a program of another driver
    is found first, or a GPU has dropped out.
    How it is seen: their answers are kept side by side. Under WSL the Linux and the Windows driver have different
    numbers, and a newer libcuda of a compatibility package has a CUDA level of its own: neither is a contradiction.
    What to do: look at the paths of the libraries and of nvidia-smi; remove what belongs to another driver.
    """
    snapshot = ctx.snapshot
    if snapshot.host.wsl.value:
        return
    if snapshot.driver.nvml_init.value:
        return  # kernel module and library of different versions have a finding of their own
    yield from _contradiction(snapshot, "driver.version", snapshot.driver.version)
    yield from _contradiction(snapshot, "gpu_count", snapshot.gpu_count)
    for number, gpu in enumerate(snapshot.gpus):
        yield from _contradiction(snapshot, f"gpus[{number}].compute_capability", gpu.compute_capability)


def _contradiction(snapshot: Snapshot, path: str, reading: Reading[T]) -> Outcome:
    # The kernel lists every GPU of the host, also to a container or a job that was given some of them.
    dissent = [answer for answer in reading.dissent if not answer.source.startswith("/proc/driver/nvidia/gpus")]
    if not dissent:
        return
    said = " and ".join(f"{answer.value} ({answer.source})" for answer in dissent)
    yield Symptom(
        f"{path}: {reading.source} says {reading.value}, but others say {said}",
        evidence_of(snapshot, path, "driver.nvml_library", "nvidia-smi"),
        (Fix("Find what belongs to another driver by the paths above, and remove it."),),
        Severity.WARNING,
    )


@check(
    "DRV103",
    Cause.DRIVER_UNRESPONSIVE,
    Cause.SOURCES_DISAGREE,
    requires=("DRV100", "DRV101"),
    follows=(*_GPU_GONE, "CTR304"),
)
def nvidia_smi_fails(ctx: CheckContext) -> Outcome:
    """nvidia-smi hangs or fails while the driver answers.

    What it means: NVML answers, so programs can use the GPU, but the tool does not. Scripts that call nvidia-smi, and
    many other tools do, will hang or fail. Or NVML itself refuses while CUDA works: the same tools fail then.
    How it is seen: nvidia-smi was killed at the deadline, crashed, or ended with an error, while NVML answered; or
    nvmlInit gave an error, and cuInit none.
    What to do: run it by hand; a process in uninterruptible sleep or an nvidia-smi of another driver are usual causes.
    """
    snapshot = ctx.snapshot
    state = snapshot.source("nvidia-smi").state
    nvml, works = snapshot.driver.nvml_init.value, snapshot.driver.cuda_init.value == 0
    # No library, or one of another release, is no refusal; and NVML drives nothing of old boards of Tegra's.
    refuses = nvml not in (None, 0, Nvml.LIBRARY_NOT_FOUND, Nvml.LIB_RM_VERSION_MISMATCH) and not ctx.needs.tegra
    if refuses and works and state is SourceState.ANSWERED:  # it starts NVML itself: this program was refused
        yield NotKnown("NVML refused to start here, and started for nvidia-smi")
        return
    if refuses and works:
        yield Symptom(
            "NVML refuses to start, though CUDA works: nvidia-smi and whatever else watches the GPU will fail",
            evidence_of(snapshot, "nvml", "libcuda", *(("nvidia-smi",) if state in _FAILED else ())),
            (Fix("Run nvidia-smi by hand and see what it says; programs that compute are not held up.", _SMI),),
            Severity.WARNING,
            Cause.SOURCES_DISAGREE,
        )
        return
    if state not in _FAILED:
        return
    if snapshot.source("nvml").state is not SourceState.ANSWERED:
        yield NotKnown("NVML does not answer either")
        return
    if snapshot.gpu_count.value == 0 or any(gpu.fault.known for gpu in snapshot.gpus):
        return  # it has nothing to list, or fails over the same GPU
    hung, waits_or_says = ("does not answer", "waits for") if state is SourceState.TIMED_OUT else ("fails", "says")
    yield Symptom(
        f"nvidia-smi {hung}, though the driver answers",
        evidence_of(snapshot, "nvidia-smi", "nvml"),
        (Fix(f"Run nvidia-smi by hand and see what it {waits_or_says}.", _SMI),),
        Severity.WARNING,
        Cause.SOURCES_DISAGREE if state is SourceState.FAILED else None,
    )
