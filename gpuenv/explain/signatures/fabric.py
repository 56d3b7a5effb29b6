"""Messages of the fabric manager of NVSwitch machines, and of programs without it."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Modifier, Signature
from gpuenv.model.causes import Cause

SIGNATURES = (
    Signature(
        "fabric.nothing-to-do",
        "fabric manager",
        ("nothing_to_do", "nothing to do"),
        ((Cause.FABRIC_MANAGER_NOT_NEEDED, 0.95),),
        "nv-fabricmanager, the strings of the program; open-gpu-kernel-modules, nvstatuscodes.h: NV_WARN_NOTHING_TO_DO",
        pattern=r"NV_WARN_NOTHING_TO_DO|fabric ?manager.*nothing to do",
        title="The fabric manager found no NVSwitch, so it has nothing to manage",
        modifiers=(Modifier("system-not-ready", Cause.FABRIC_MANAGER_NOT_NEEDED, 0.1),),  # CUDA waits for it
    ),
    Signature(
        "fabric.no-switch",
        "fabric manager",
        ("nvswitch",),
        ((Cause.FABRIC_MANAGER_NOT_NEEDED, 0.8),),
        "nv-fabricmanager, the strings of the program; NVIDIA Fabric Manager User Guide",
        pattern=r"(?:no|failed to detect any|did not detect any|doesn't (?:have|seem to have)) NVSwitch(?:es)?",
        title="This machine has no NVSwitch, so it needs no fabric manager",
        modifiers=(Modifier("system-not-ready", Cause.FABRIC_MANAGER_NOT_NEEDED, 0.1),),
    ),
    Signature(
        "fabric.service-failed",
        "systemd",
        ("fabricmanager", "fabric manager"),
        ((Cause.FABRIC_MANAGER_NOT_NEEDED, 0.4), (Cause.FABRIC_MANAGER_NOT_RUNNING, 0.4)),
        "systemd, the journal of nvidia-fabricmanager.service",
        pattern=(
            r"nvidia-fabricmanager\S* .*(?:status=1|failed|not be found|not found|inactive|dead)"
            r"|failed to start (?:nvidia )?(?:nvidia-)?fabric ?manager|fabric manager.*(?:is not running|not started|failed)"
            r"|\b(?:failed|FAIL|degraded|could not (?:re)?start|(?:can't|cannot) (?:re)?start|exit-code|crash)\b.{0,60}\b(?:nvidia-)?fabric ?manager\b|\b(?:nvidia-)?fabric ?manager\b\S{0,8}.{0,60}\b(?:failed|fails|failing|exit-code|(?:isn't|not) running|(?:can't|cannot|could not) start|exits)\b|\bFabric Manager\s{0,30}\| ?Fail"
        ),
        modifiers=(
            Modifier("system-not-ready", Cause.FABRIC_MANAGER_NOT_RUNNING, 20),
            Modifier("nvswitch-gpu", Cause.FABRIC_MANAGER_NOT_RUNNING, 6),
            Modifier("pcie-gpu", Cause.FABRIC_MANAGER_NOT_RUNNING, 0.2),
            Modifier("pcie-gpu", Cause.FABRIC_MANAGER_NOT_NEEDED, 2),
            Modifier("no-nvswitch", Cause.FABRIC_MANAGER_NOT_RUNNING, 0.05),
            Modifier("no-nvswitch", Cause.FABRIC_MANAGER_NOT_NEEDED, 2),
        ),
        decisive_fact="whether the machine has NVSwitches: ls /dev/nvidia-nvswitch*",
    ),
    Signature(
        "fabric.version",
        "fabric manager",
        ("fabric",),
        ((Cause.FABRIC_MANAGER_NOT_RUNNING, 0.92),),
        "nv-fabricmanager, the strings of the program: version check against the driver",
        pattern=r"fabric manager.*(?:version|interface).*(?:don't match|do not match|doesn't match|mismatch)",
        title="The fabric manager is of another version than the driver, so it does not start",
        modifiers=(
            Modifier("no-nvswitch", Cause.FABRIC_MANAGER_NOT_NEEDED, 40),
            Modifier("no-nvswitch", Cause.FABRIC_MANAGER_NOT_RUNNING, 0.3),
            Modifier("pcie-gpu", Cause.FABRIC_MANAGER_NOT_NEEDED, 20),
        ),
    ),
    Signature(
        "fabric.never-ready",
        "NVML and launchers",
        ("fabric",),
        ((Cause.FABRIC_MANAGER_NOT_RUNNING, 0.6),),
        "nvidia-smi -q, section Fabric: State; nvml.h, NVML_GPU_FABRIC_STATE_*",
        pattern=r"fabric (?:manager )?(?:state )?(?:never|not) (?:reported|completed|ready)|fabric.*state\s*:\s*(?:in progress|not started)",
    ),
)
