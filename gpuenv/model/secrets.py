"""Detection and removal of secrets in texts and environment variables."""

from __future__ import annotations

import re

from gpuenv.model.strings import pattern

TYPE_CHECKING = False  # imported before the first child starts; typing takes as long as that
if TYPE_CHECKING:
    from collections.abc import Mapping

HIDDEN = "(redacted)"
_TELLING = "KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH"
SECRET_NAME = pattern(_TELLING, re.IGNORECASE)
_CREDENTIALS = pattern(r"(\b\w{1,40}://)[^\s'\"]+@(?=[\w.\[-])")
_QUERY_SECRET = pattern(
    r"([?&][\w.-]*(?:token|key|secret|password|passwd|pwd|sig|signature|credential|auth)[\w.-]*=)[^&\s]+", re.IGNORECASE
)
_NAMED_SECRET = pattern(rf"\b([A-Z][A-Z0-9_]*(?:{_TELLING})[A-Z0-9_]*)(: |=)\S.*")
# The same in lower case, as in configuration files, programs and command lines; and authorization headers.
_SETTING = pattern(
    r"(?<![\w.-])((?:[\w.-]{0,40}[_.-])?(?:password|passwd|passphrase|secret|token|(?:api|access|secret|private)[_-]?key))"
    r"([\"']?\s{0,3}[=:]\s{0,3}[\"']?|(?<=--password) |(?<=--token) )[^\s\"',;&]{6,}",
    re.IGNORECASE,
)
_AUTHORIZATION = pattern(r"\b((?:Bearer|Authorization: \w{1,20}) )[\w.~+/=-]{8,}", re.IGNORECASE)
# Tokens by their documented prefixes: GitHub (Docs, Token formats), GitLab, Hugging Face, NVIDIA NGC,
# OpenAI, Slack, AWS (IAM, Unique identifiers), PyPI, and the header of a JSON Web Token (RFC 7519).
_TOKEN = pattern(
    r"\b(?:gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|hf_\w{16,}|nvapi-[\w-]{12,}|sk-[\w-]{20,}"
    r"|xox[abprs]-[\w-]{10,}|A(?:KIA|SIA)[A-Z0-9]{16}|pypi-[\w-]{16,}|eyJ[\w-]{10,}\.[\w-]{4,}\.[\w-]*)"
)
# Variables with these prefixes name devices, folders and switches, never secrets.
_OF_CUDA = ("CUDA", "NVIDIA", "CUPY_", "NVCC", "LD_", "PYTHON", "CONDA_PREFIX", "VIRTUAL_ENV")
# Variables for the probes of the driver, the kernel's files and NVIDIA's programs.
_NEEDED = frozenset(
    ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TERM", "TZ", "LANG", "LANGUAGE", "container")
    + ("KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME")
    + ("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA")
    + ("LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMW6432", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES")
    + ("ROCR_VISIBLE_DEVICES", "CONDA_PREFIX", "VIRTUAL_ENV")
)
_SCHEME = "://"  # of a URL
_NEEDED_KINDS = ("CUDA", "NVIDIA", "NV_", "__NV", "NVML", "LC_", "LD_", "DYLD_", "SLURM_", "_CONDOR_", "GPUENV_")


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables without secrets, for a child that may need any other one.

    Secrets are recognized by name (``AWS_SECRET_ACCESS_KEY``) or by credentials in a URL (``https://me:word@host``).
    """
    return {
        name: value
        for name, value in environment.items()
        if not (_SCHEME in value and _CREDENTIALS.search(value))
        and (not SECRET_NAME.search(name) or name.startswith(_OF_CUDA))
    }


def for_the_target(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables for gpuenv's scripts in the target: no secrets, and UTF-8 output."""
    return {**without_secrets(environment), "PYTHONIOENCODING": "utf-8"}


def for_the_driver(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns only the variables for the probes of the driver, the kernel's files and NVIDIA's programs."""
    return {
        name: value
        for name, value in without_secrets(environment).items()
        if name.upper() in _NEEDED or name in _NEEDED or name.startswith(_NEEDED_KINDS)
    }


def hide_secrets(text: str) -> str:
    """Redacts tokens and passwords in a line for the user; keeps names and paths.

    ``NAME: value`` and ``NAME=value`` lose the value if the name indicates a secret.
    """
    text = _AUTHORIZATION.sub(rf"\1{HIDDEN}", _SETTING.sub(rf"\1\2{HIDDEN}", text))
    text = _TOKEN.sub(HIDDEN, _NAMED_SECRET.sub(rf"\1\2{HIDDEN}", text))
    if _SCHEME in text:  # rare: otherwise two expressions need not be compiled
        text = _CREDENTIALS.sub(rf"\1{HIDDEN}@", text)
    return _QUERY_SECRET.sub(rf"\1{HIDDEN}", text) if "?" in text or "&" in text else text
