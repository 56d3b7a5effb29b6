"""The variables of environment markers (PEP 508) of a recorded target."""

from __future__ import annotations

from gpuenv.model.snapshot import Snapshot

_SYSTEM_VARIABLES = ("sys_platform", "platform_system", "os_name")
_SYSTEMS = {"linux": ("linux", "Linux", "posix"), "windows": ("win32", "Windows", "nt")}


def environment_markers(snapshot: Snapshot) -> dict[str, str]:
    """Returns the variables that are known for the target."""
    host, target = snapshot.host, snapshot.target
    python = target.python.value
    variables = dict(zip(_SYSTEM_VARIABLES, _SYSTEMS.get(host.os.value or "", ()), strict=False))
    if python is not None:
        variables |= {
            "python_version": f"{python.major}.{python.minor}",
            "python_full_version": str(python).rstrip("t"),
        }
    if host.arch.value is not None and host.os.value == "linux":
        variables["platform_machine"] = host.arch.value
    return variables
