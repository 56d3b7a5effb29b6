"""Messages of the kernel's security modules, log and power management about the driver's device nodes and module."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Modifier, Signature
from gpuenv.model.causes import Cause

# The kernel says before it whose module it refuses, and that need not be the driver's.
OF_ANOTHER_MODULE = r"(?:^|[\s:])(?!nvidia|kernel|dmesg|modprobe|insmod)[\w-]+: loading of (?:unsigned )?module"

SIGNATURES = (
    Signature(
        "access.apparmor",
        "AppArmor",
        ('apparmor="denied"',),
        ((Cause.DEVICE_NODE_PERMISSION, 0.85),),
        "Linux, security/apparmor/audit.c",
        pattern=r"apparmor=\"DENIED\".*name=\"/dev/(?:nvidia|nvhost|dxg)",
        title="AppArmor keeps the program from the driver's device nodes",
    ),
    Signature(
        "access.selinux",
        "SELinux",
        ("denied", "selinux is preventing"),
        ((Cause.DEVICE_NODE_PERMISSION, 0.85),),
        "Linux, security/selinux/avc.c; setroubleshoot, plug-in device",
        pattern=(
            r"avc: +denied +\{.{0,40}\}.{0,200}(?:name|path)=\"(?:/dev/)?nvidia|SELinux is preventing .{0,200}\bchr_file\b.{0,8}\bnvidia"
        ),
        title="SELinux keeps the program from the driver's device nodes",
    ),
    Signature(
        "module.insert-failed",
        "systemd-modules-load",
        ("failed to insert module",),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.55), (Cause.DRIVER_MODULE_NOT_LOADED, 0.2)),
        "systemd, src/shared/module-util.c",
        pattern=r"Failed to insert module '?nvidia[\w-]*'?: (?:Operation not permitted|Key was rejected|Required key|Invalid argument|Exec format)",
        title="The kernel refuses the driver's module",
        modifiers=(Modifier("secure-boot", Cause.DRIVER_KERNEL_INCOMPATIBLE, 8),),
        decisive_fact="whether Secure Boot is on (mokutil --sb-state), and the kernel's line on nvidia before it",
    ),
    Signature(
        "module.key-unavailable",
        "the kernel",
        ("module with unavailable key", "module with unsupported crypto", "unsigned module"),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.85),),
        "Linux, kernel/module/signing.c: module_sig_check; security/lockdown",
        pattern=(
            r"loading of (?:module with (?:unavailable key|unsupported crypto)|unsigned module) is rejected"
            r"|unsigned module loading is restricted"
        ),
        unless=OF_ANOTHER_MODULE,
        requires=("cuda", "nvidia-module", "gpu"),
        title="Secure Boot refuses the driver's module, which is not signed with an enrolled key",
        evidence="secure-boot",
    ),
    Signature(
        "nvrm.power-management",
        "the driver's log",
        ("driver procfs suspend interface", "nv_pmops_"),
        ((Cause.SUSPEND_RESUME_LOST_GPU, 0.88),),
        "NVIDIA driver's README, Configuring Power Management Support; Linux, drivers/base/power",
        pattern=r"attempted without driver procfs suspend interface|nv_pmops_(?:suspend|resume|freeze|thaw|restore)\S*(?: \[nvidia\])? returns -\d",
        title="The system slept without notice to the driver, and the GPU's memory was lost",
        evidence="suspend",
    ),
    Signature(
        "nvrm.no-answer",
        "the driver's log",
        ("_threadnodechecktimeout", "gsprmcontrol failed", "rpcrmapi", "waiting for rpc response"),
        ((Cause.DRIVER_UNRESPONSIVE, 0.52), (Cause.GPU_HARDWARE_FAULT, 0.4)),
        "open-gpu-kernel-modules, src/nvidia/src/kernel/core/thread_state.c and vgpu/rpc.c",
        pattern=r"NVRM:? .{0,60}(?:_threadNodeCheckTimeout:|GspRmControl failed|rpcRmApi\w+_GSP\b.{0,60}failed)|waiting for RPC response from GPU",
        title="The GPU's own processor does not answer the driver",
        decisive_fact="whether the log has Xid 79 before it: then the GPU fell off the bus",
    ),
    Signature(
        "driver.crashed-inside",
        "debuggers and Windows",
        ("libcuda.so", "libnvidia-ml.so", "nvcuda64.dll", "nvml.dll"),
        ((Cause.DRIVER_UNRESPONSIVE, 0.6), (Cause.DRIVER_INSTALL_BROKEN, 0.2)),
        "gdb; Julia, what it prints of a signal; Windows Error Reporting, event 1000",
        pattern=(
            r"faulting (?:module|application module)(?: name)?:? (?:nvcuda64|nvml)\.dll"
            r"|(?:Segmentation fault|SIGSEGV|SIGBUS|signal \(?11\b).{0,120}\blib(?:cuda|nvidia-ml)\.so|\bcuInit at \S*libcuda\.so"
        ),
        title="The program crashed inside of the driver's library",
        decisive_fact="whether nvidia-smi crashes too, and whether all of the driver's files are of one version",
    ),
    Signature(
        "lshw.unclaimed",
        "lshw",
        ("unclaimed",),
        ((Cause.NO_DRIVER, 0.5), (Cause.DRIVER_MODULE_NOT_LOADED, 0.3)),
        "lshw, what it prints of a device without a driver",
        pattern=r"\*-(?:display|generic)(?::\d+)? UNCLAIMED\b",
        requires=("nvidia-card",),
        title="No driver of the kernel has taken the GPU",
        decisive_fact="whether a package of the driver is installed, and what modprobe nvidia says",
    ),
    Signature(
        "rpm.verify-missing",
        "rpm -V, dpkg -V and debsums",
        ("missing ", "checksum mismatch", "??5??????"),
        ((Cause.DRIVER_INSTALL_BROKEN, 0.85),),
        "rpm, lib/verify.c; dpkg, verify; debsums",
        pattern=r"^\W*(?:missing|\?\?5\?{6}|debsums: (?:missing file|checksum mismatch for)) (?:c )?/\S*lib(?:cuda|nvidia-[\w-]+)\.so",
        title="A file of the driver's package is gone or was changed",
    ),
)
