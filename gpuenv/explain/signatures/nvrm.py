"""Messages of the driver's kernel module in the kernel log."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.doctor.fixes.gpus import CONNECT_POWER, ENLARGE_PCI_WINDOW
from gpuenv.explain.explanation_types import Modifier, Signature, Weights
from gpuenv.explain.signatures.prose_versions import OLDEST_BRANCH
from gpuenv.model.causes import Cause

_XID_DOC = "NVIDIA, Xid Errors, table of Xid messages"
# By the document's columns: what the program did, and what the hardware or the driver did.
_OF_THE_PROGRAM = {13: 0.5, 31: 0.75, 43: 0.5, 68: 0.4}
_OF_THE_DRIVER = {38: 0.4, 69: 0.3, 119: 0.55, 120: 0.55}
_CONSEQUENCES = {45}  # preemptive cleanup after another event


def _xid_weights(values: Mapping[str, str]) -> Weights:
    number = int(values["xid"])
    if number in _CONSEQUENCES:
        return ((Cause.GPU_HARDWARE_FAULT, 0.2), (Cause.ASYNC_ERROR_SURFACED_LATE, 0.15))
    if number in _OF_THE_PROGRAM:
        weight = _OF_THE_PROGRAM[number]
        return ((Cause.ILLEGAL_MEMORY_ACCESS, weight), (Cause.GPU_HARDWARE_FAULT, 0.15))
    if number in _OF_THE_DRIVER:
        weight = _OF_THE_DRIVER[number]
        return ((Cause.DRIVER_UNRESPONSIVE, weight), (Cause.GPU_HARDWARE_FAULT, 0.35))
    return ((Cause.GPU_HARDWARE_FAULT, 0.88),)


def _legacy_branch_weights(values: Mapping[str, str]) -> Weights:
    """A branch for older GPUs helps where a wheel of CuPy runs on it."""
    if int(values["branch"]) >= min(OLDEST_BRANCH.values()):
        return ((Cause.GPU_REMOVED_FROM_DRIVER, 0.85), (Cause.GPU_TOO_OLD_FOR_ANY_DRIVER, 0.1))
    return ((Cause.GPU_REMOVED_FROM_DRIVER, 0.5), (Cause.GPU_TOO_OLD_FOR_ANY_DRIVER, 0.46))


SIGNATURES = (
    Signature(
        "nvrm.xid",
        "the driver's log",
        ("xid (", "xid:", "xid ", "xid="),
        ((Cause.GPU_HARDWARE_FAULT, 0.88),),
        _XID_DOC,
        pattern=r"\bXid\b(?:=| ?(?:\(PCI:[\w:.]+\)|\([\w:.]+\))?:? (?:error )?)(?P<xid>[1-9]\d{0,2})\b",
        unless=r"\b(?:transaction|vacuum\w*|commit\w*|rollback|session\w*|zookeeper|postgres\w*|rows)\b(?! was remapped)|\bno (?:further )?action (?:is )?(?:required|needed)|\bonly (?:records|informs)\b",  # theirs are called so too
        title="The driver reports Xid {xid}",
        weights_fn=_xid_weights,
        decisive_fact="the meaning of the Xid in NVIDIA's table, and whether it comes back with another program",
    ),
    Signature(
        "nvrm.off-the-bus",
        "the driver's log",
        ("off of the bus", "off the bus"),
        ((Cause.GPU_HARDWARE_FAULT, 0.95),),
        f"{_XID_DOC}: 79",
        pattern=r"fallen off (?:of )?the bus",
        title="The GPU fell off the bus",
    ),
    Signature(
        "nvrm.init-failed",
        "the driver's log",
        ("rminitadapter", "rm_init_adapter", "failed to initialize the adapter", "gpu initialization failed"),
        (
            (Cause.GPU_HARDWARE_FAULT, 0.35),
            (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.15),
            (Cause.GPU_TOO_NEW_FOR_DRIVER, 0.15),
            (Cause.DRIVER_INSTALL_BROKEN, 0.1),
        ),
        "open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osinit.c",
        pattern=r"(?:RmInitAdapter|rm_init_adapter) failed|failed to initialize the adapter",
        title="The driver could not start the GPU",
        modifiers=(
            Modifier("gpu-newer-than-driver", Cause.GPU_TOO_NEW_FOR_DRIVER, 20),
            Modifier("suspend", Cause.SUSPEND_RESUME_LOST_GPU, 6),
        ),
        decisive_fact="the code in brackets of that line, and whether another driver branch starts the GPU",
    ),
    Signature(
        "nvrm.legacy-ignored",
        "the driver's log",
        ("ignoring the legacy gpu",),
        ((Cause.GPU_REMOVED_FROM_DRIVER, 0.85), (Cause.GPU_TOO_OLD_FOR_ANY_DRIVER, 0.1)),
        "open-gpu-kernel-modules, kernel-open/nvidia/nv-pci.c: nv_pci_probe",
        title="This driver branch no longer supports the GPU",
    ),
    Signature(
        "nvrm.registers-taken",
        "the driver's log",
        ("request_mem_region failed",),
        ((Cause.NOUVEAU_LOADED, 0.6), (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.2)),
        "open-gpu-kernel-modules, kernel-open/nvidia/nv-pci.c: nv_pci_probe",
        pattern=r"NVRM: request_mem_region failed",
        title="Another driver holds the GPU's registers",
        decisive_fact="what lspci -k shows as the kernel driver in use",
    ),
    Signature(
        "nvrm.no-power",
        "the driver's log",
        ("power cables connected",),
        ((Cause.GPU_HARDWARE_FAULT, 0.95),),
        "open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osinit.c, RmInitAdapter: NV_ERR_INSUFFICIENT_POWER",
        pattern=r"does not have the necessary power cables connected",
        title="A GPU is not started, since its power cables are not connected",
        code="DRV120",
        fix=CONNECT_POWER,
    ),
    Signature(
        "nvrm.no-room",
        "the driver's log",
        ("pci i/o region assigned", "is 0m @ 0x0"),
        ((Cause.GPU_HARDWARE_FAULT, 0.85), (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.1)),
        "open-gpu-kernel-modules, kernel-open/nvidia/nv-pci.c: nv_pci_validate_bars",
        pattern=r"PCI I/O region assigned to your NVIDIA device is invalid|NVRM: BAR\d is 0M @ 0x0",
        title="The machine's firmware has given the GPU's memory no room on the PCI bus",
        code="DRV121",
        fix=ENLARGE_PCI_WINDOW,
    ),
    Signature(
        "nvrm.pci",
        "the driver's log",
        ("find an irq for your nvidia", "pci_enable_device failed"),
        (
            (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.4),
            (Cause.GPU_HARDWARE_FAULT, 0.32),
            (Cause.DRIVER_MODULE_NOT_LOADED, 0.08),
        ),
        "open-gpu-kernel-modules, kernel-open/nvidia/nv-pci.c: nv_pci_probe",
        pattern=r"find an IRQ for your NVIDIA|NVRM: pci_enable_device failed",
        title="The firmware or the kernel gave the GPU no usable PCI resources",
        decisive_fact="the firmware's settings (Above 4G decoding, resizable BAR), and the same with pci=realloc",
    ),
    Signature(
        "nvrm.probe-failed",
        "the kernel",
        ("nvidia", "probe routine failed"),
        (
            (Cause.GPU_HARDWARE_FAULT, 0.3),
            (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.2),
            (Cause.GPU_TOO_NEW_FOR_DRIVER, 0.2),
            (Cause.GPU_REMOVED_FROM_DRIVER, 0.1),
        ),
        "Linux, drivers/base/dd.c; open-gpu-kernel-modules, nv.c",
        pattern=r"\bnvidia(?: [\w:.]+)?: probe (?:of \S+ )?(?:failed with error|with driver nvidia failed)|NVIDIA probe routine failed",
        title="The driver took the GPU and could not start it",
        modifiers=(
            Modifier("gpu-newer-than-driver", Cause.GPU_TOO_NEW_FOR_DRIVER, 20),
            Modifier("gpu-older-than-driver", Cause.GPU_REMOVED_FROM_DRIVER, 20),
            Modifier("nouveau", Cause.NOUVEAU_LOADED, 8),
        ),
        decisive_fact="the NVRM lines before it in the kernel's log",
    ),
    Signature(
        "nvrm.crash-dump",
        "the driver's log",
        ("gpu crash dump has been created",),
        ((Cause.GPU_HARDWARE_FAULT, 0.8), (Cause.DRIVER_UNRESPONSIVE, 0.1)),
        "open-gpu-kernel-modules, src/nvidia: the GPU's crash dump",
        title="The GPU crashed",
    ),
    Signature(
        "nvrm.legacy",
        "the driver's log",
        ("legacy drivers", "legacy driver", "legacy linux graphics driver"),
        ((Cause.GPU_REMOVED_FROM_DRIVER, 0.85),),
        "open-gpu-kernel-modules, nv.c: legacy GPU; nvidia-installer, supported chips",
        pattern=r"supported through the NVIDIA (?P<branch>\d{2,3})\.\S+ Legacy (?:Linux graphics )?drivers",
        title="Only the legacy branch {branch} supports this GPU",
        weights_fn=_legacy_branch_weights,
    ),
    Signature(
        "nvrm.legacy-begun",
        "the driver's log",
        ("gpu installed in this system is",),
        ((Cause.GPU_REMOVED_FROM_DRIVER, 0.55), (Cause.GPU_TOO_OLD_FOR_ANY_DRIVER, 0.4)),
        "open-gpu-kernel-modules, nv.c: the line before the branch's name; nvidia's X driver has the same words",
        pattern=r"The NVIDIA \S.{2,60} GPU installed in this system is(?! (?:working|supported by this|in use|fine|ok))",
        title="This driver branch no longer supports the GPU",
        decisive_fact="the line after it, which names the branch: dmesg | grep NVRM",
    ),
    Signature(
        "nvrm.not-supported",
        "the driver's log",
        ("not supported by the", "not supported by this", "will ignore this gpu", "not compatible with the nvidia"),
        ((Cause.GPU_TOO_NEW_FOR_DRIVER, 0.45), (Cause.GPU_REMOVED_FROM_DRIVER, 0.42)),
        "open-gpu-kernel-modules, nv.c: probe of an unknown device",
        pattern=(
            r"NVRM.* (?:is )?not supported by the (?:NVRM: )?(?:NVIDIA )?\S* ?(?:driver release)?|not supported by the NVIDIA \d{3}\.\d[\d.]* driver release"
            r"|(?:GPU|graphics card|device).* is not supported by (?:the|this) (?:installed )?(?:NVIDIA )?(?:display )?driver"
            r"|not compatible with the NVIDIA driver"
        ),
        title="This driver release does not support the GPU",
        modifiers=(
            Modifier("gpu-newer-than-driver", Cause.GPU_TOO_NEW_FOR_DRIVER, 20),
            Modifier("gpu-older-than-driver", Cause.GPU_REMOVED_FROM_DRIVER, 20),
            Modifier("open-module", Cause.GPU_REMOVED_FROM_DRIVER, 4),
        ),
        decisive_fact="the GPU's generation and the driver's branch: --assume gpu=NAME, --assume driver=VERSION",
    ),
    Signature(
        "nvrm.no-gpu",
        "the driver's log and nvidia-installer",
        ("no nvidia gpu", "no nvidia graphics", "do not appear to have an nvidia gpu"),
        ((Cause.NO_NVIDIA_GPU, 0.55), (Cause.GPU_REMOVED_FROM_DRIVER, 0.15), (Cause.NOUVEAU_LOADED, 0.12)),
        "open-gpu-kernel-modules, nv.c; nvidia-installer, the strings of the program",
        pattern=(
            r"No NVIDIA GPU (?:was )?(?:found|detected|probed)|No NVIDIA graphics (?:adapter|card|device)s? (?:found|probed|detected)"
            r"|do not appear to have an NVIDIA GPU"
        ),
        title="The driver finds no NVIDIA GPU that it could drive",
        modifiers=(
            Modifier("nouveau", Cause.NOUVEAU_LOADED, 12),
            Modifier("gpu-older-than-driver", Cause.GPU_REMOVED_FROM_DRIVER, 20),
        ),
        decisive_fact="what lspci shows, and the kernel driver in use there (lspci -k)",
    ),
    Signature(
        "nvrm.open-needs-gsp",
        "the driver's log",
        ("gpu system processor", "system processor", "open nvidia.ko"),
        ((Cause.GPU_REMOVED_FROM_DRIVER, 0.75), (Cause.DRIVER_INSTALL_BROKEN, 0.1)),
        "open-gpu-kernel-modules, nv.c: GPU without a GSP",
        pattern=r"open nvidia\.ko because it does not include the required GPU|not supported by open nvidia\.ko\b|does not include the required GPU (?:NVRM: )?System Processor",
        title="The open kernel modules do not support this GPU; the proprietary ones do",
        evidence="open-module",
    ),
    Signature(
        "nvrm.needs-open",
        "the driver's log",
        ("open kernel modules", "open gpu kernel"),
        ((Cause.GPU_TOO_NEW_FOR_DRIVER, 0.7), (Cause.DRIVER_INSTALL_BROKEN, 0.15)),
        "NVIDIA driver, NVRM: GPU requires use of the NVIDIA open kernel modules",
        pattern=r"requires? (?:the )?use of the (?:NVRM: )?NVIDIA open kernel modules",
        title="This GPU needs the open kernel modules, and the proprietary ones are installed",
    ),
    Signature(
        "nvrm.api-mismatch",
        "the driver's log",
        ("api mismatch",),
        ((Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.95),),
        "open-gpu-kernel-modules, nv.c: API mismatch",
        pattern=r"API mismatch: the (?:client|NVIDIA kernel module)",
        title="A program uses the driver's libraries of another version than the loaded kernel module",
    ),
    Signature(
        "nouveau.in-use",
        "nvidia-installer, lspci, lshw and NVRM",
        ("nouveau", "novacore", "conflicting kernel module", "rivatv kernel module"),
        ((Cause.NOUVEAU_LOADED, 0.92),),
        "nvidia-installer, the strings of the program; lspci -k; lshw; open-gpu-kernel-modules, nv.c",
        pattern=(
            r"unloading the (?:conflicting|rivafb, nvidiafb or rivatv) kernel module|nouveau (?:kernel driver|module)? ?is (?:currently )?in use|Kernel driver in use: nouveau|driver=nouveau"
            r"|nouveau, rivafb, nvidiafb|such as: (?:NVRM: )?nouveau|nouveau \S+: (?:DRM|fifo|gr|Xorg|unknown chipset|disp|NVIDIA|enabling|bus:|timer:|mmu:|pmu:|acr:|sec2|Direct firmware load)|nouveau: probe of \S+ failed|already bound to (?:nouveau|NovaCore)"
        ),
        title="The nouveau module holds the GPU",
        evidence="nouveau",
    ),
    Signature(
        "suspend.resume",
        "the kernel and the driver's log",
        ("suspend", "resume", "hibernat", "sleep"),
        ((Cause.SUSPEND_RESUME_LOST_GPU, 0.6),),
        "open-gpu-kernel-modules: power management; Linux, kernel/power",
        pattern=(
            r"(?:nvidia|NVRM|CUDA|GPU).*(?:after (?:a |the )?(?:suspend|resume|sleep|hibernat)|(?:suspend|resume)\w* .*(?:fail|error|timed out))"
            r"|nvidia-(?:suspend|resume)\.service.*(?:fail|error)|(?:after|from) (?:suspend|resume|sleep)\w*.*(?:CUDA|nvidia|GPU)"
        ),
        unless=r"^(?!.*(?:fail|error|\bnot\b|n't|\bno\b|lost|cannot|\bbut\b)).*\b(?:still|everything|all) works?\b",
        title="The GPU was lost when the system slept",
        evidence="suspend",
    ),
)
