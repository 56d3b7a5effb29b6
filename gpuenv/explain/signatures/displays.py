"""Messages of X.org, nvidia-settings, OpenCL and Windows' device manager about a driver that does not work."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_X = "X.org and nvidia-settings"
_XORG = "the strings of xf86-video-nvidia's modules and nvidia-settings 390 to 580; xserver, hw/xfree86/loader"


def _device_manager_weights(values: Mapping[str, str]) -> Weights:
    """Microsoft, Error codes in Device Manager in Windows: 28 no driver, 52 not signed, the others it did not start."""
    by_code: dict[str, Weights] = {
        "28": ((Cause.NO_DRIVER, 0.72),),
        "52": ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.6), (Cause.DRIVER_INSTALL_BROKEN, 0.2)),
        "43": ((Cause.DRIVER_INSTALL_BROKEN, 0.55), (Cause.GPU_HARDWARE_FAULT, 0.25)),
    }
    return by_code.get(values["code"], ((Cause.DRIVER_INSTALL_BROKEN, 0.55), (Cause.GPU_HARDWARE_FAULT, 0.12)))


SIGNATURES = (
    Signature(
        "xorg.kernel-module",
        _X,
        ("initialize the nvidia kernel module", "load info from any available system", "nvidia driver is not loaded"),
        (
            (Cause.DRIVER_MODULE_NOT_LOADED, 0.46),
            (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.2),
            (Cause.NO_DRIVER, 0.1),
            (Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.08),
        ),
        _XORG,
        pattern=(
            r"NVIDIA: Failed to initialize the NVIDIA kernel module|ERROR: Unable to load info from any available system|ERROR: NVIDIA driver is not loaded"
        ),
        title="The driver's kernel module is not loaded",
        modifiers=(
            Modifier("nouveau", Cause.NOUVEAU_LOADED, 15),
            Modifier("secure-boot", Cause.DRIVER_KERNEL_INCOMPATIBLE, 8),
            Modifier("module-build-failed", Cause.DRIVER_KERNEL_INCOMPATIBLE, 10),
        ),
        decisive_fact="what sudo modprobe nvidia answers, and the kernel's log",
    ),
    Signature(
        "xorg.no-module",
        _X,
        ('load module "nvidia"', '"nv-glx" missing', "update-alternatives"),
        ((Cause.DRIVER_INSTALL_BROKEN, 0.56), (Cause.NO_DRIVER, 0.2)),
        f"{_XORG}; dpkg, update-alternatives",
        pattern=(
            r"Failed to load module \"nvidia\" \(module does not exist|extension \"NV-GLX\" missing on display"
            r"|update-alternatives: error: (?:no alternatives for|alternative path) \S*nvidia"
        ),
        title="A part of the driver for X is not installed",
        level=Level.WARNING,
    ),
    Signature(
        "xorg.no-device",
        _X,
        ("initialize the nvidia graphics device", "initialize the nvidia gpu at"),
        (
            (Cause.DRIVER_INSTALL_BROKEN, 0.2),
            (Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.18),
            (Cause.GPU_HARDWARE_FAULT, 0.16),
            (Cause.GPU_REMOVED_FROM_DRIVER, 0.1),
            (Cause.GPU_TOO_NEW_FOR_DRIVER, 0.08),
        ),
        _XORG,
        pattern=r"Failed to initialize the NVIDIA (?:graphics device|GPU at)",
        title="The driver could not start the GPU",
        decisive_fact="the messages of NVRM in the kernel's log",
    ),
    Signature(
        "opencl.no-platform",
        "the OpenCL loader",
        ("platform_not_found_khr", "cl_platform_not_found"),
        ((Cause.DRIVER_INSTALL_BROKEN, 0.34), (Cause.NO_DRIVER, 0.2), (Cause.CONTAINER_DRIVER_CAPABILITIES, 0.16)),
        "Khronos, cl_khr_icd: error -1001; the driver brings /etc/OpenCL/vendors/nvidia.icd",
        requires=("cuda", "gpu"),
        title="No OpenCL platform is registered: the driver's OpenCL part is not there",
        modifiers=(
            Modifier("container", Cause.CONTAINER_DRIVER_CAPABILITIES, 5),
            Modifier("host", Cause.CONTAINER_DRIVER_CAPABILITIES, 0.1),
        ),
        decisive_fact="whether /etc/OpenCL/vendors/nvidia.icd is there",
    ),
    Signature(
        "windows.device-code",
        "Windows, Device Manager",
        ("(code ",),
        ((Cause.DRIVER_INSTALL_BROKEN, 0.55), (Cause.GPU_HARDWARE_FAULT, 0.12)),
        "Microsoft, Error codes in Device Manager in Windows",
        pattern=r"\b(?:NVIDIA|GeForce|Quadro|Tesla|[RG]TX)\b.{0,200}\(Code (?P<code>10|12|28|31|37|39|43|52)\)",
        weights_fn=_device_manager_weights,
        title="Windows did not start the GPU (code {code})",
        decisive_fact="the state that Device Manager shows, and whether a clean installation of the driver helps",
    ),
    Signature(
        "windows.other-windows",
        "NVIDIA Installer for Windows",
        ("compatible with this version of windows",),
        ((Cause.DRIVER_INSTALL_BROKEN, 0.66),),
        "NVIDIA Installer for Windows",
        pattern=r"NVIDIA (?:graphics )?driver is not compatible with this version of Windows",
        title="The driver's package is for another version of Windows",
    ),
    Signature(
        "lspci.narrow-link",
        "lspci",
        ("lnksta",),
        ((Cause.GPU_THROTTLED, 0.5),),
        "pciutils, ls-caps.c: a link of fewer lanes than the device has; the speed alone falls while the GPU is idle",
        pattern=r"LnkSta:.{0,60}Width x\d+ \(downgraded\)",
        requires=("cuda", "gpu"),
        level=Level.WARNING,
        title="The GPU's link has fewer lanes than it could have",
        decisive_fact="which slot it is in, and the width under load",
    ),
)
