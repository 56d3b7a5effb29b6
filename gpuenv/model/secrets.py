"""What names and addresses give a secret away, and an environment without any. Pure."""

from __future__ import annotations

import re

from gpuenv.model.pattern import pattern

TYPE_CHECKING = False  # this is imported before the first child is started: typing takes as long as that
if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET_NAME = pattern(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)
CREDENTIALS = pattern(r"(\b\w{1,40}://)[^\s'\"]+@(?=[\w.\[-])")
# They name devices, folders and switches, whatever word of the above is in them.
_OF_CUDA = ("CUDA", "NVIDIA", "CUPY_", "NVCC", "LD_", "PYTHON", "CONDA_PREFIX", "VIRTUAL_ENV")
# What the driver, the kernel's files and NVIDIA's own programs are asked with.
_NEEDED = frozenset(
    ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TERM", "TZ", "LANG", "LANGUAGE", "container")
    + ("KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME")
    + ("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA")
    + ("LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMW6432", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES")
    + ("ROCR_VISIBLE_DEVICES", "CONDA_PREFIX", "VIRTUAL_ENV")
)
_NEEDED_KINDS = ("CUDA", "NVIDIA", "NV_", "__NV", "NVML", "LC_", "LD_", "DYLD_", "SLURM_", "_CONDOR_", "GPUENV_")


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that give no secret away: for a child that may depend on any other one.

    By their names (``AWS_SECRET_ACCESS_KEY``), or by credentials in an address (``https://me:word@host``).
    """
    return {
        name: value
        for name, value in environment.items()
        if not CREDENTIALS.search(value) and (not SECRET_NAME.search(name) or name.startswith(_OF_CUDA))
    }


def for_the_target(environment: Mapping[str, str]) -> dict[str, str]:
    """What a script of ours is run with in the target: all but secrets, and text in the encoding that is read here."""
    return {**without_secrets(environment), "PYTHONIOENCODING": "utf-8"}


def for_the_driver(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that the driver, the kernel's files and NVIDIA's programs are asked with, and no other."""
    return {
        name: value
        for name, value in without_secrets(environment).items()
        if name.upper() in _NEEDED or name in _NEEDED or name.startswith(_NEEDED_KINDS)
    }
