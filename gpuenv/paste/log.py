"""Lines of the driver in the kernel's log. Pure."""

from __future__ import annotations

from gpuenv.model.host import KernelMessage
from gpuenv.model.pattern import pattern
from gpuenv.paste import forms
from gpuenv.probe.assemble_kernel import message_of

_MOST, _LONGEST = 50, 400
_OURS = pattern(r"NVRM: \S")


class LogReader:
    """Takes lines and collects those of the log.

    Attributes:
        found: the lines, with the event or the GPU that each names.
    """

    def __init__(self) -> None:
        self.found: list[KernelMessage] = []

    def look(self, line: str) -> str | None:
        """Takes a line; returns the output that it belongs to."""
        if _OURS.match(line) is None:
            return None
        if len(self.found) < _MOST:
            self.found.append(message_of(line[:_LONGEST]))
        return forms.DMESG
