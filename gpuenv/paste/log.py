"""Lines of the kernel's log that are pasted, and the kernel's name below ``uname -r``. Pure."""

from __future__ import annotations

from gpuenv.model.host import KernelMessage
from gpuenv.model.pattern import pattern
from gpuenv.paste import forms
from gpuenv.probe.assemble_kernel import message_of

_MOST, _LONGEST = 50, 400
# What the driver, the loader of modules and the lockdown write; the prefix of a log is gone.
_OURS = pattern(
    r"NVRM: \S|nvidia\w*: (?:version magic|disagrees about version of symbol|Unknown symbol|module verification failed)"
    r"|nvidia [0-9a-f]{4}:[0-9a-f:.]{7}: Unable to change power state"
    r"|Lockdown: (?:modprobe|insmod|systemd-udevd|\(udev-worker\)): unsigned module loading is restricted"
    r"|Loading of (?:unsigned module|module with unavailable key) is rejected"
    r"|(?:modprobe: ERROR: )?could not insert '?nvidia\w*'?: (?:Key was rejected by service|Required key not available)"
)
_ASKED = pattern(r"(?:.{0,120}[$#%>] ?)?uname -r$")
_BEGIN = frozenset("NnLmc")
_KERNEL = pattern(r"\d{1,2}\.\d{1,3}\.\d{1,3}[\w.+-]*$")


class LogReader:
    """Takes lines and collects those of the log.

    Attributes:
        found: the lines, with the event or the GPU that each names.
        told: what the line that was read last tells beside: output, fact, value.
    """

    def __init__(self) -> None:
        self.found: list[KernelMessage] = []
        self.told: list[tuple[str, str, str]] = []
        self._is_asked = False

    def look(self, line: str) -> str | None:
        """Takes a line; returns the output that it belongs to."""
        self.told = []
        if not line:
            return None
        if self._is_asked and _KERNEL.match(line):
            self.told = [(forms.UNAME, "kernel", line), (forms.UNAME, "os", "linux")]
        self._is_asked = line.endswith("uname -r") and _ASKED.match(line) is not None
        if line[0] not in _BEGIN or _OURS.match(line) is None:
            return None
        if len(self.found) < _MOST:
            self.found.append(message_of(line[:_LONGEST]))
        return forms.DMESG
