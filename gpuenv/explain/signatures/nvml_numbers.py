"""NVML's errors by number, and by the names that its Python binding gives them."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_NO_LIBRARY: Weights = ((Cause.NO_DRIVER, 0.5), (Cause.CONTAINER_WITHOUT_GPU, 0.2), (Cause.DRIVER_INSTALL_BROKEN, 0.1))
_MISMATCH: Weights = ((Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.93),)
_LOST: Weights = ((Cause.GPU_HARDWARE_FAULT, 0.9),)
# nvml.h, nvmlReturn_t; pynvml spells the same names NVMLError_LibRmVersionMismatch.
_CAUSES: Mapping[int, tuple[str, Weights]] = {
    4: ("nopermission", ((Cause.DEVICE_NODE_PERMISSION, 0.8),)),
    8: ("insufficientpower", ((Cause.GPU_HARDWARE_FAULT, 0.85),)),
    9: ("drivernotloaded", ((Cause.DRIVER_MODULE_NOT_LOADED, 0.7), (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.1))),
    10: ("timeout", ((Cause.DRIVER_UNRESPONSIVE, 0.7),)),
    12: ("librarynotfound", _NO_LIBRARY),
    14: ("corruptedinforom", ((Cause.GPU_HARDWARE_FAULT, 0.85),)),
    15: ("gpuislost", _LOST),
    16: ("resetrequired", _LOST),
    17: ("operatingsystem", ((Cause.WSL_LIBCUDA, 0.4), (Cause.CONTAINER_CGROUP_LOST_GPU, 0.35))),
    18: ("librmversionmismatch", _MISMATCH),
    999: ("unknown", ((Cause.CONTAINER_CGROUP_LOST_GPU, 0.6), (Cause.GPU_HARDWARE_FAULT, 0.15))),
}
_BY_NAME = dict(_CAUSES.values())


def _numbered_weights(values: Mapping[str, str]) -> Weights:
    if "name" in values:
        return _BY_NAME.get(values["name"].lower(), ())
    number = int(next(iter(values.values())))
    return _CAUSES[number][1] if number in _CAUSES else ()


SIGNATURES = (
    Signature(
        "nvml.numbered",
        "programs that print NVML's code",
        (
            "nvmlinit",
            "nvml_error",
            "init nvml",
            "nvmlerror_",
            "initialize nvml",
            "initialise nvml",
            "nvml: ",
            "nvml code",
            "nvml error",
        ),
        _MISMATCH,
        "nvml.h of CUDA 13.0, nvmlReturn_t; nvidia-ml-py, NVMLError",
        pattern=(
            r"\bNVMLError_(?P<name>LibRmVersionMismatch|Unknown|DriverNotLoaded|LibraryNotFound|NoPermission|GpuIsLost|Timeout|OperatingSystem|ResetRequired|CorruptedInforom|InsufficientPower)\b(?!: \w)"
            r"|\bnvmlInit(?:_v2|WithFlags)?(?:\(\w{0,8}\))?:? (?:has )?(?:returned|returns|failed(?: with)?|gave)[: ]{1,2}(?:error |code |return code |status )*\(?(?P<call>\d{1,3})\b"
            r"|\b(?:init(?:iali[sz]e)? NVML|NVML (?:error|code|init failed))\W{1,3}(?:error |code |rc=?)*\(?(?P<code>\d{1,3})\b"
        ),
        title="NVML reports an error by its number",
        weights_fn=_numbered_weights,
        modifiers=(
            Modifier("container", Cause.CONTAINER_CGROUP_LOST_GPU, 2),
            Modifier("wsl", Cause.WSL_LIBCUDA, 8),
            Modifier("nouveau", Cause.NOUVEAU_LOADED, 20),
        ),
        decisive_fact="what nvidia-smi prints in the same shell",
    ),
)
