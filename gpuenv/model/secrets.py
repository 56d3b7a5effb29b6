"""The environment variables of child processes, without secrets."""

from __future__ import annotations

from gpuenv.model.redaction import has_credentials, has_secret
from gpuenv.model.secret_values import is_secret_name

TYPE_CHECKING = False  # imported before the first child starts; typing takes as long as that
if TYPE_CHECKING:
    from collections.abc import Mapping

# Variables for the probes of the driver, the kernel's files and NVIDIA's programs.
_NEEDED = frozenset(
    ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TERM", "TZ", "LANG", "LANGUAGE", "container")
    + ("KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME")
    + ("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA")
    + ("LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMW6432", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES")
    + ("ROCR_VISIBLE_DEVICES", "CONDA_PREFIX", "VIRTUAL_ENV")
)
_NEEDED_KINDS = ("CUDA", "NVIDIA", "NV_", "__NV", "NVML", "LC_", "LD_", "DYLD_", "SLURM_", "_CONDOR_", "GPUENV_")


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables without secrets, for a child that may need any other one.

    Secrets are recognized by name (``AWS_SECRET_ACCESS_KEY``), by credentials in a URL
    (``https://me:word@host``), or by the form of a token or a name within the value. A folder may have the form of a
    token (``/home/me/hf_transformersplayground``), and the program needs the variable.
    """
    return {
        name: value
        for name, value in environment.items()
        if not (is_secret_name(name) or has_credentials(value) or (has_secret(value) and not _is_path_list(value)))
    }


def _is_path_list(value: str) -> bool:
    """Whether a value consists of absolute paths, as that of PATH and CONDA_PREFIX does."""
    return "=" not in value and all(entry.startswith("/") for entry in value.split(":") if entry)


def for_the_driver(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns only the variables for the probes of the driver, the kernel's files and NVIDIA's programs."""
    return {
        name: value
        for name, value in without_secrets(environment).items()
        if name.upper() in _NEEDED or name in _NEEDED or name.startswith(_NEEDED_KINDS)
    }
