"""Checks of sources that hang, crash or disagree."""

from __future__ import annotations

from typing import Any

from gpuenv.doctor.driver_libraries import library_path
from gpuenv.doctor.evidence import evidence_of, hardware_event_evidence
from gpuenv.doctor.fixes.distributions import driver_fixes, reinstall_fixes
from gpuenv.doctor.fixes.gpus import look_for_xid
from gpuenv.doctor.predicates import libraries_absent
from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import driver_nodes, is_contained, module_loaded
from gpuenv.model.nvidia import Nvml
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import Snapshot, SourceState
from gpuenv.model.strings import pattern

# pciutils, lspci(8): -d VENDOR:DEVICE; 10de is NVIDIA.
_SHOW_GPUS = Fix("See whether this machine has an NVIDIA GPU.", ("lspci", "-d", "10de:"))
_WHICH_SMI = Fix("See whether another one is first on PATH, such as a wrapper.", ("which", "-a", "nvidia-smi"))
# strace(1), -f; ps(1), wchan is the kernel function in which a process sleeps.
_HANGING_SMI = (
    _WHICH_SMI,
    Fix(
        "See in which system call it waits: the last line of this trace.",
        ("timeout", "60", "strace", "-f", "nvidia-smi"),
    ),
    Fix(
        "See which of its processes hang: those in state D end only with a restart of the machine.",
        ("ps", "-o", "pid,stat,wchan:32,args", "-C", "nvidia-smi"),
    ),
)

# A lost GPU, or a driver that cannot start it: sources then count differently, and nvidia-smi fails as well. Variables,
# modes of a GPU and missing device nodes do not affect these sources.
_LOST_GPU_CHECKS = ("GPU203", "GPU204", "GPU209", "DRV110", "DRV113", "DRV119", "DRV120", "DRV121", "DRV122", "CTR306")
_DEAD = (SourceState.TIMED_OUT, SourceState.CRASHED)
_FAILED = (*_DEAD, SourceState.FAILED)
_SMI = ("nvidia-smi",)
# nvidia-smi prints NVML's text of NVML_ERROR_NO_PERMISSION.
_NO_PERMISSION = pattern(r"(?i)insufficient permissions")
_LIST_NODES = "id; ls -l /dev/nvidia*"
_JOIN_GROUP = Fix(
    "If a group owns them: sudo usermod --append --groups GROUP and this user's name, then log in again; a job gets "
    "them by requesting a GPU."
)


@check("DRV100", Cause.DRIVER_UNRESPONSIVE)
def driver_unresponsive(ctx: CheckContext) -> Outcome:
    """A call into the driver hangs or crashes.

    What it means: NVML or libcuda was loaded, and a call into it hung or crashed. Every program that uses the GPU will
    hang or crash in the same way.
    How it is seen: each library is called in a process of its own, which was killed at the deadline or by a signal.
    What to do: if a call hangs, give it more time with --timeout, since GPUs without persistence mode may only be slow
    to wake; look for Xid messages in the kernel log; restart the machine. If it happens again at once, reinstall the
    package that owns the library, or have the GPU checked.
    """
    dead = [name for name in ("nvml", "libcuda") if ctx.snapshot.source(name).state in _DEAD]
    if not dead:
        return
    library = "libnvidia-ml" if "nvml" in dead else "libcuda"
    hung = any(ctx.snapshot.source(name).state is SourceState.TIMED_OUT for name in dead)
    yield Symptom(
        f"The driver's {' and '.join(_FILES[name] for name in dead)} {_PREDICATES[hung, len(dead) > 1]}",
        evidence_of(ctx.snapshot, *dead)
        + hardware_event_evidence(ctx.snapshot)
        + evidence_of(ctx.snapshot, "driver.version"),
        (
            *((_MORE_TIME,) if hung else ()),
            *look_for_xid(ctx.snapshot),
            Fix(f"Restart {'the host' if is_contained(ctx.snapshot) else 'the machine'}; if that does not help:"),
            *reinstall_fixes(ctx.snapshot, library, library_path(ctx.snapshot, library)),
        ),
    )


_MORE_TIME = Fix(
    "First give it more time: GPUs without persistence mode may only be slow to wake.",
    ("gpuenv", "doctor", "--timeout", "120"),
)
_FILES = {"nvml": "libnvidia-ml (NVML)", "libcuda": "libcuda (CUDA)"}
_PREDICATES = {
    (True, False): "does not answer",
    (True, True): "do not answer",
    (False, False): "crashes every program that initializes it",
    (False, True): "crash every program that initializes them",
}


@check("DRV101", Cause.SOURCES_DISAGREE)
def only_nvidia_smi_answers(ctx: CheckContext) -> Outcome:
    """Only nvidia-smi reports a GPU; the driver is not installed.

    What it means: a program named nvidia-smi prints a driver or a GPU, but there is no kernel module, NVML or libcuda,
    which the real one needs. It is a stand-in, or a leftover of another machine; programs cannot use that GPU.
    How it is seen: nvidia-smi answers while both libraries are absent and no module is loaded.
    What to do: find out which nvidia-smi is first on PATH and remove it, or install the driver to which it belongs.
    """
    snapshot = ctx.snapshot
    if snapshot.source("nvidia-smi").state is not SourceState.ANSWERED or not libraries_absent(snapshot):
        return
    if module_loaded(snapshot) or driver_nodes(snapshot) or not (snapshot.gpus or snapshot.driver.version.known):
        return
    install, *others = driver_fixes(ctx)
    yield Symptom(
        "Only nvidia-smi reports an NVIDIA GPU; the driver's libraries and kernel module are not installed",
        evidence_of(snapshot, "driver.version", "nvidia-smi", "nvml", "libcuda"),
        (
            Fix(
                "Find out which nvidia-smi is first on PATH, and remove it if it does not belong to a driver.",
                ("which", "-a", "nvidia-smi"),
            ),
            _SHOW_GPUS,
            install._replace(text=f"If it shows one: {install.text[0].lower()}{install.text[1:]}"),
            *others,
        ),
    )


@check("DRV102", Cause.SOURCES_DISAGREE, requires=("DRV100", "DRV101"), follows=_LOST_GPU_CHECKS)
def sources_disagree(ctx: CheckContext) -> Outcome:
    """Two sources disagree about the driver or the GPUs.

    What it means: NVML, the kernel module and nvidia-smi should report the same driver version and number of GPUs, and
    libcuda the same compute capability of each. If they differ, a library or a program of another driver is found
    first, or a GPU has dropped out.
    How it is seen: the values of all sources are compared. Under WSL the Linux and the Windows driver have different
    numbers, and a newer libcuda of a compatibility package has a CUDA level of its own: neither is a disagreement.
    What to do: check the paths of the libraries and of nvidia-smi; remove what belongs to another driver.
    """
    snapshot = ctx.snapshot
    if snapshot.host.wsl.value:
        return
    if snapshot.driver.nvml_init.value:
        return  # DRV107 reports a kernel module and a library of different versions
    yield from _disagreement(snapshot, "driver.version", snapshot.driver.version)
    yield from _disagreement(snapshot, "gpu_count", snapshot.gpu_count)
    for number, gpu in enumerate(snapshot.gpus):
        yield from _disagreement(snapshot, f"gpus[{number}].compute_capability", gpu.compute_capability)


def _disagreement(snapshot: Snapshot, path: str, reading: Reading[Any]) -> Outcome:
    # The kernel lists every GPU of the host, even to a container or a job that has only some of them.
    dissent = [answer for answer in reading.dissent if not answer.source.startswith("/proc/driver/nvidia/gpus")]
    if not dissent:
        return
    others = " and ".join(f"{answer.source} {answer.value}" for answer in dissent)
    yield Symptom(
        f"{path}: {reading.source} reports {reading.value}, but {others}",
        evidence_of(snapshot, path, "driver.nvml_library", "nvidia-smi"),
        (Fix("Use the paths above to find what belongs to another driver, and remove it."),),
        Severity.WARNING,
    )


@check(
    "DRV103",
    Cause.DRIVER_UNRESPONSIVE,
    Cause.SOURCES_DISAGREE,
    Cause.DEVICE_NODE_PERMISSION,
    requires=("DRV100", "DRV101"),
    follows=(*_LOST_GPU_CHECKS, "CTR304"),
)
def nvidia_smi_fails(ctx: CheckContext) -> Outcome:
    """nvidia-smi hangs or fails while the driver works.

    What it means: NVML works, so programs can use the GPU, but nvidia-smi does not. Scripts and tools that call
    nvidia-smi will hang or fail. If NVML itself fails while CUDA works, the same tools fail.
    How it is seen: nvidia-smi was killed at the deadline, crashed, or ended with an error, while NVML answered; or
    nvmlInit returned an error, and cuInit none.
    What to do: if it hangs, look for a wrapper or an nvidia-smi of another driver on PATH, and trace the system call in
    which it waits; if it fails, read its message. A restart ends a process in uninterruptible sleep.
    """
    snapshot = ctx.snapshot
    state = snapshot.source("nvidia-smi").state
    nvml, works = snapshot.driver.nvml_init.value, snapshot.driver.cuda_init.value == 0
    # A missing library, or one of another release, is not a refusal; NVML does not support old Tegra boards.
    refuses = nvml not in (None, 0, Nvml.LIBRARY_NOT_FOUND, Nvml.LIB_RM_VERSION_MISMATCH) and not ctx.needs.tegra
    if refuses and works and state is SourceState.ANSWERED:  # it starts NVML itself, so only this program failed
        yield NotKnown("NVML failed to start here, but started for nvidia-smi")
        return
    if refuses and works:
        yield Symptom(
            "NVML fails to start, though CUDA works: nvidia-smi and other monitoring tools will fail",
            evidence_of(snapshot, "nvml", "libcuda", *(("nvidia-smi",) if state in _FAILED else ())),
            (Fix("Run nvidia-smi by hand and read its message; CUDA programs are not affected.", _SMI),),
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
    if _NO_PERMISSION.search(snapshot.source("nvidia-smi").detail or ""):
        yield Symptom(
            "nvidia-smi may not open the GPU's device nodes as this user",
            evidence_of(snapshot, "nvidia-smi", "nvml")
            + tuple(Evidence(node.path, f"{node.mode} {node.owner}", "/dev") for node in snapshot.driver.device_nodes),
            (
                Fix("See who may open the nodes: this user needs to read and write them.", shell_line=_LIST_NODES),
                _JOIN_GROUP,
            ),
            Severity.WARNING,
            Cause.DEVICE_NODE_PERMISSION,
        )
        return
    has_hung = state is SourceState.TIMED_OUT
    yield Symptom(
        f"nvidia-smi {'hangs' if has_hung else 'fails'}, but "
        + ("CUDA works: programs are not affected" if works else "NVML works"),
        evidence_of(snapshot, "nvidia-smi", "nvml"),
        _HANGING_SMI if has_hung else (Fix("Run nvidia-smi by hand and read its message.", _SMI), _WHICH_SMI),
        Severity.WARNING,
        Cause.SOURCES_DISAGREE if state is SourceState.FAILED else None,
    )
