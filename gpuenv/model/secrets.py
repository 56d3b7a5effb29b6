"""What gives a secret away, texts with every secret hidden, and an environment without any."""

from __future__ import annotations

import re

from gpuenv.model.strings import pattern

TYPE_CHECKING = False  # this is imported before the first child is started: typing takes as long as that
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
# The same in lower case, as files of settings, programs and command lines have them; and what a request is signed with.
_SETTING = pattern(
    r"(?<![\w.-])((?:[\w.-]{0,40}[_.-])?(?:password|passwd|passphrase|secret|token|(?:api|access|secret|private)[_-]?key))"
    r"([\"']?\s{0,3}[=:]\s{0,3}[\"']?|(?<=--password) |(?<=--token) )[^\s\"',;&]{6,}",
    re.IGNORECASE,
)
_AUTHORIZATION = pattern(r"\b((?:Bearer|Authorization: \w{1,20}) )[\w.~+/=-]{8,}", re.IGNORECASE)
# Tokens by the beginnings that their makers give them: GitHub (Docs, Token formats), GitLab, Hugging Face, NVIDIA NGC,
# OpenAI, Slack, AWS (IAM, Unique identifiers), PyPI, and the header of a JSON Web Token (RFC 7519).
_TOKEN = pattern(
    r"\b(?:gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|hf_\w{16,}|nvapi-[\w-]{12,}|sk-[\w-]{20,}"
    r"|xox[abprs]-[\w-]{10,}|A(?:KIA|SIA)[A-Z0-9]{16}|pypi-[\w-]{16,}|eyJ[\w-]{10,}\.[\w-]{4,}\.[\w-]*)"
)
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
_SCHEME = "://"  # of an address
_NEEDED_KINDS = ("CUDA", "NVIDIA", "NV_", "__NV", "NVML", "LC_", "LD_", "DYLD_", "SLURM_", "_CONDOR_", "GPUENV_")


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that give no secret away: for a child that may depend on any other one.

    By their names (``AWS_SECRET_ACCESS_KEY``), or by credentials in an address (``https://me:word@host``).
    """
    return {
        name: value
        for name, value in environment.items()
        if not (_SCHEME in value and _CREDENTIALS.search(value))
        and (not SECRET_NAME.search(name) or name.startswith(_OF_CUDA))
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


def hide_secrets(text: str) -> str:
    """A line for its own user's eyes: names and paths stay, tokens and passwords go.

    ``NAME: value`` and ``NAME=value`` lose the value where the name says that it is a secret.
    """
    text = _AUTHORIZATION.sub(rf"\1{HIDDEN}", _SETTING.sub(rf"\1\2{HIDDEN}", text))
    text = _TOKEN.sub(HIDDEN, _NAMED_SECRET.sub(rf"\1\2{HIDDEN}", text))
    if _SCHEME in text:  # in few lines: without one, two expressions need not be compiled
        text = _CREDENTIALS.sub(rf"\1{HIDDEN}@", text)
    return _QUERY_SECRET.sub(rf"\1{HIDDEN}", text) if "?" in text or "&" in text else text
