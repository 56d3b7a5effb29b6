"""Messages of modprobe, DKMS and the device files about the driver's kernel module."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

SIGNATURES = (
    Signature(
        "modprobe.not-found",
        "modprobe",
        ("modprobe", "module nvidia", "module 'nvidia", "module by name", ".ko"),
        (
            (Cause.DRIVER_MODULE_NOT_LOADED, 0.62),
            (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.2),
            (Cause.NO_DRIVER, 0.12),
        ),
        "kmod, tools/modprobe.c",
        pattern=r"Module nvidia[\w-]* not found(?: in directory)?|nvidia[\w_-]*\.ko.*No such file|Failed to find module 'nvidia|could not find module by name='?nvidia(?!_\d{3})",
        title="There is no nvidia module for the running kernel",
        evidence="module-absent",
        decisive_fact="whether dkms status lists nvidia for this kernel (uname -r)",
    ),
    Signature(
        "modprobe.package-of-module",
        "modprobe",
        ("module by name=", "could not insert", "module nvidia_", "module nvidia-"),
        ((Cause.DRIVER_INSTALL_BROKEN, 0.66), (Cause.DRIVER_MODULE_NOT_LOADED, 0.2)),
        "kmod, libkmod-module.c; Ubuntu to 18.04: the modules bear the branch of their package, as nvidia_331_uvm",
        pattern=r"(?:find module by name=|could not insert |Module )'?nvidia[-_]\d{3}(?:[-_]updates)?(?:[-_]uvm)?'?\b.{0,40}(?:not (?:found|implemented)|No such|$)",
        title="A module of the driver's package is not there: parts of the driver come from different packages",
        decisive_fact="which packages of the driver are installed: dpkg -l '*nvidia*'",
    ),
    Signature(
        "modprobe.refused",
        "modprobe and the kernel",
        (
            *(
                "required key not available",
                "key was rejected by service",
                "secure boot is enabled on",
            ),
            *("trusted by the kernel", "signed kernel module failed to load"),
        ),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.93),),
        "Linux, kernel/module/signing.c, errno ENOKEY and EKEYREJECTED; security/lockdown",
        pattern=(
            r"nvidia\S*:? .*(?:required key not available|key was rejected by service)"
            r"|Secure boot is enabled on this system|not signed by a key that is trusted|signed kernel module failed to load"
        ),
        title="Secure Boot refuses the driver's module, which is not signed with an enrolled key",
        evidence="secure-boot",
    ),
    Signature(
        "modprobe.no-device",
        "modprobe",
        ("could not insert", "probe of nvidia", "no nvidia devices", "none of the nvidia devices"),
        (
            (Cause.NOUVEAU_LOADED, 0.3),
            (Cause.NO_NVIDIA_GPU, 0.28),
            (Cause.GPU_REMOVED_FROM_DRIVER, 0.12),
            (Cause.GPU_TOO_NEW_FOR_DRIVER, 0.12),
        ),
        "kmod, errno ENODEV; open-gpu-kernel-modules, nv.c: No NVIDIA devices probed",
        pattern=r"could not insert (?:module )?'?\S*nvidia\S*: No such device|No NVIDIA devices probed|None of the NVIDIA devices were",
        title="The driver's module found no GPU that it could take",
        modifiers=(Modifier("nouveau", Cause.NOUVEAU_LOADED, 12), Modifier("gpu-none", Cause.NO_NVIDIA_GPU, 12)),
        decisive_fact="what lspci -k shows as the kernel driver in use",
    ),
    Signature(
        "modprobe.not-permitted",
        "modprobe",
        ("could not insert 'nvidia",),
        ((Cause.DEVICE_NODE_PERMISSION, 0.4), (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.35)),
        "kmod, errno EPERM: not root, a container, or a kernel that is locked down",
        pattern=r"could not insert 'nvidia\S*: (?:Operation not permitted|Permission denied)",
        title="The driver's module may not be loaded from there",
        modifiers=(Modifier("secure-boot", Cause.DRIVER_KERNEL_INCOMPATIBLE, 8),),
        decisive_fact="whether it was tried as root on the host, and whether Secure Boot is on",
    ),
    Signature(
        "kernel.oops",
        "the kernel",
        ("[nvidia",),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.5), (Cause.DRIVER_UNRESPONSIVE, 0.3)),
        "Linux, arch/x86/kernel/dumpstack.c: a fault inside of the driver's module",
        pattern=r"RIP: \S+:\w+\+0x\w+/0x\w+ \[nvidia\w*\]",
        title="The kernel stopped in the driver's module",
        decisive_fact="whether an older kernel or a newer driver does the same",
    ),
    Signature(
        "module.other-kernel",
        "the kernel",
        ("version magic", "disagrees about version of symbol", "unknown symbol", "could not insert", "invalid module"),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.9),),
        "Linux, kernel/module/version.c",
        pattern=(
            r"nvidia\w*: (?:version magic|disagrees about version of symbol|Unknown symbol)"
            r"|could not insert (?:module )?'?\S*nvidia\S*: (?:Exec format error|Invalid module format|Unknown symbol|Invalid argument)"
        ),
        title="The driver's module was built for another kernel",
        evidence="module-build-failed",
    ),
    Signature(
        "dkms.build-failed",
        "DKMS and driver installers",
        (
            *("dkms", "nvidia kernel module", "kernel module", "kernel headers", "kernel source", "nvidia.ko"),
            *(
                "bad return status",
                "bad exit status",
                "dkms.conf",
                "building kernel modules",
                "error processing package",
            ),
        ),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.88),),
        "dkms; nvidia-installer, the strings of the program; dpkg, postinst of nvidia-dkms",
        pattern=(
            r"Unable to (?:build|load) the NVIDIA kernel module|performing the step: \"Building kernel modules|Unable to (?:build|load) the (?:kernel module )?'nvidia"
            r"|Unable to find the kernel source tree|Unable to determine the (?:path to|version of) the kernel (?:source|headers)"
            r"|bad (?:return|exit) status.*nvidia|nvidia\S* .*bad (?:return|exit) status"
            r"|error processing package (?:lib)?nvidia-(?:dkms|kernel|driver)(?!.*dependency problems)|Error building (?:the )?nvidia"
            r"|Could not locate dkms\.conf file\.? .*nvidia|dkms(?!.*in conflict).*nvidia.*(?:failed|error)|(?<!Remove )\bnvidia(?!.*in conflict).*dkms.*(?:failed|error)|failed to build .*nvidia-dkms"
        ),
        title="The driver's module could not be built for the running kernel",
        evidence="module-build-failed",
        modifiers=(
            Modifier("secure-boot", Cause.DRIVER_KERNEL_INCOMPATIBLE, 2),
            Modifier("nouveau", Cause.NOUVEAU_LOADED, 30),
        ),
    ),
    Signature(
        "dkms.compile-error",
        "gcc, in a build of the driver's module",
        ("nvidia", "compiler used to"),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.85),),
        "gcc and make, in the folder of nvidia's DKMS source",
        pattern=(
            r"(?:dkms/|src/|/build/)nvidia\S*\.[cho]\S*:? .*error|NVIDIA-Linux-\S+\.[cho]:\d+:\d+: (?:fatal )?error|GPL-incompatible module nvidia\S*\.ko|\bnvidia(?:-(?:drm|uvm|modeset|peermem))?/\S+\.[ch]:\d+:\d+: (?:fatal )?error|(?<!C)make(?!.*CMakeFiles).*(?:(?<!/opt)/nvidia\S*|(?<!/opt/)\bnvidia\S*\.k?o) ?\] Error"
            r"|compiler used to (?:build|compile) the kernel.*(?:nvidia|does not (?:exactly )?match)"
        ),
        title="The driver's source does not compile against the running kernel",
        evidence="module-build-failed",
    ),
    Signature(
        "node.missing",
        "CUDA programs, container engines and the shell",
        ("/dev/nvidia",),
        ((Cause.DEVICE_NODE_MISSING, 0.78), (Cause.DRIVER_MODULE_NOT_LOADED, 0.1)),
        "errno ENOENT on the driver's device files; docker, runc and libnvidia-container",
        pattern=(
            # Not what concerns the next file, or comes from the next program.
            r"/dev/nvidia(?:(?!['\"`\s]/(?!dev/nvidia)|(?:ba|z)sh: |\s(?:ls|cat|docker): ).){0,80}(?:no such file|not found|does not exist|is missing|cannot access|ENOENT)"
            r"|(?:no such file|not found|cannot access|missing|cannot stat|failed to (?:open|stat)).*/dev/nvidia"
        ),
        title="A device node of the driver is missing",
        decisive_fact="which of /dev/nvidia0, /dev/nvidiactl and /dev/nvidia-uvm are there",
    ),
    Signature(
        "node.uvm",
        "nvidia-docker, nvidia-modprobe",
        ("uvm kernel module", "nvidia-modprobe", "nvidia-uvm", "nvidia_uvm"),
        ((Cause.DEVICE_NODE_MISSING, 0.72), (Cause.DRIVER_MODULE_NOT_LOADED, 0.15)),
        "nvidia-docker 1; nvidia-modprobe, the strings of the program",
        pattern=(
            r"could not load UVM kernel module|nvidia-modprobe.*(?:not found|failed|could not|cannot)"
            r"|(?:failed|could not|unable).*(?:load|insert|create).*nvidia[-_]uvm(?!.*(?:not permitted|permission denied|required key|rejected))"
        ),
        title="The nvidia-uvm module or its device node is missing",
        modifiers=(
            Modifier("suspend", Cause.SUSPEND_RESUME_LOST_GPU, 10),
            Modifier("module-absent", Cause.DRIVER_MODULE_NOT_LOADED, 8),
            Modifier("module-absent", Cause.DEVICE_NODE_MISSING, 0.3),
        ),
    ),
    Signature(
        "node.none-in-container",
        "the words of reports, ls",
        ("/dev/nvidia*",),
        ((Cause.CONTAINER_WITHOUT_GPU, 0.76), (Cause.DEVICE_NODE_MISSING, 0.1)),
        "glob(7): none of the driver's device nodes is in the container",
        pattern=(
            r"/dev/nvidia\*['\"`]{0,3}(?: \w+){0,3}? (?:(?:is|are) )?(?:missing|absent|gone|not (?:there|found|present|visible|available|mounted))"
            r"|cannot access '?/dev/nvidia\*|no (?:such )?(?:files? )?/dev/nvidia\*"
        ),
        requires=("container",),
        title="The container was given none of the driver's device nodes",
    ),
    Signature(
        "enroot.uvm",
        "enroot",
        ("nvidia_uvm is not loaded",),
        ((Cause.NO_DRIVER, 0.4), (Cause.DRIVER_MODULE_NOT_LOADED, 0.35), (Cause.DEVICE_NODE_MISSING, 0.1)),
        "enroot, conf/hooks/98-nvidia.sh",
        pattern=r"Kernel module nvidia_uvm is not loaded",
        level=Level.WARNING,
        decisive_fact="whether nvidia-smi works on the host",
    ),
    Signature(
        "node.eperm",
        "CUDA programs and the shell",
        ("operation not permitted", "eperm"),
        ((Cause.CONTAINER_CGROUP_LOST_GPU, 0.46), (Cause.DEVICE_NODE_PERMISSION, 0.44)),
        "errno EPERM of open: a cgroup's device filter; a file's mode would be EACCES (Linux, security/device_cgroup.c)",
        pattern=(
            r"/dev/nvidia[\w/-]*.*(?:EPERM|operation not permitted)|(?:EPERM|operation not permitted).*/dev/nvidia"
        ),
        title="The driver's device nodes are there, and this cgroup may not open them",
        modifiers=(
            Modifier("container", Cause.CONTAINER_CGROUP_LOST_GPU, 3),
            Modifier("kubernetes", Cause.CONTAINER_CGROUP_LOST_GPU, 3),
            Modifier("host", Cause.CONTAINER_CGROUP_LOST_GPU, 0.1),
        ),
        decisive_fact="whether the container could use the GPU before, and whether it is unprivileged",
    ),
    Signature(
        "node.closed",
        "ls",
        ("/dev/nvidia",),
        ((Cause.DEVICE_NODE_PERMISSION, 0.42),),
        "coreutils, ls -l of a character device: its mode lets in its owner, and its group perhaps",
        pattern=r"\bc[r-][w-][xst-][r-][w-][xst-](?:r-|-w|--)[xtT-][.+]? (?:(?!/dev/)[^\n]){1,60}\d+, *\d+ (?:(?!/dev/(?!nvidia))[^\n]){0,40}?/dev/nvidia(?:\d|ctl|-uvm)",
        title="The driver's device nodes are closed to all but root and their group",
        modifiers=(  # an administrator may have closed them on purpose
            Modifier("complaint", Cause.DEVICE_NODE_PERMISSION, 5),
            Modifier("on-purpose", Cause.DEVICE_NODE_PERMISSION, 0),
            Modifier("in-device-group", Cause.DEVICE_NODE_PERMISSION, 0),
        ),
        decisive_fact="the groups of the user who runs the program: id",
        evidence="permission",
    ),
    Signature(
        "bumblebee.no-driver",
        "Bumblebee",
        ("cannot access secondary gpu", "could not load gpu driver"),
        ((Cause.DRIVER_MODULE_NOT_LOADED, 0.45), (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.25), (Cause.NO_DRIVER, 0.1)),
        "Bumblebee, src/optirun.c and src/module.c",
        pattern=r"Cannot access secondary GPU|error: Could not load GPU driver",
        title="The second GPU's driver could not be loaded",
        modifiers=(
            Modifier("secure-boot", Cause.DRIVER_KERNEL_INCOMPATIBLE, 10),
            Modifier("nouveau", Cause.NOUVEAU_LOADED, 10),
        ),
        decisive_fact="why the module is not loaded: sudo modprobe nvidia, and the kernel's log",
    ),
    Signature(
        "kbuild.not-prepared",
        "the kernel's build system, for the driver's module",
        (
            *("kernel configuration is invalid", "autoconf.h", "auto.conf", "scripts/mod/modpost"),
            *("scripts/basic/fixdep", "objtool", "/build: no such file"),
        ),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.85),),
        "Linux, Makefile and scripts/Makefile.modpost",
        pattern=(
            r"ERROR: Kernel configuration is invalid|include/(?:generated/autoconf\.h|config/auto\.conf)\b.{0,60}(?:missing|No such file)"
            r"|\*\*\* /lib/modules/\S+/build: No such file"
            r"|(?:scripts/(?:mod/modpost|basic/fixdep)|objtool/objtool): (?:not found|No such file|Permission denied|Exec format)"
        ),
        title="The headers of the running kernel are not complete, so the driver's module cannot be built",
        requires=("dkms-nvidia", "nvidia-module", "nvrm"),
        evidence="module-build-failed",
    ),
    Signature(
        "node.permission",
        "CUDA programs and the shell",
        ("permission denied", "permissions", "not permitted", "eacces"),
        ((Cause.DEVICE_NODE_PERMISSION, 0.92),),
        "errno EACCES and EPERM on the driver's device files; NVRM, nvidia.ko",
        pattern=(
            r"/dev/(?:nvidia|nvhost|nvmap|nvgpu|kfd)[\w/-]*.*(?:permission denied|(?<!operation )not permitted|\bEACCES\b)"
            r"|^(?!libEGL|libGL|libva|MESA).*/dev/dri.{0,200}(?:permission denied|(?<!operation )not permitted|\bEACCES\b)"
            r"|(?:permission denied|(?<!operation )not permitted|\bEACCES\b).*/dev/(?:nvidia|nvhost|nvmap|nvgpu|dri|kfd)"
            r"|Nv\w{1,60}(?:Init|Open)\w{0,60} .*permission denied|user does not have permission to access.*GPU"
        ),
        title="This user may not open the driver's device nodes",
        evidence="permission",
    ),
)
