"""Findings of a fuzzer: one for each place in the code, with its smallest input."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gpuenv

_PACKAGE = str(Path(gpuenv.__file__).parent)


@dataclass(slots=True)
class Findings:
    """Runs a check on inputs and collects what it raises.

    Attributes:
        check: reads an input.
        slow: seconds after which an input is a finding.
        clock: seconds of processor time, which exclude other processes.
        folder: the folder to which each finding is written.
    """

    check: Callable[[Any], None]
    slow: float
    clock: Callable[[], float]
    folder: Path
    runs: int = 0
    found: dict[str, str] = field(default_factory=dict)

    def run(self, value: Any) -> None:  # noqa: ANN401 - any input of a target
        """Runs the check on one input without raising."""
        self.runs += 1
        started = self.clock()
        try:
            self.check(value)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - any exception is a finding
            self._add(_place(error), value, "".join(traceback.format_exception(error)))
        if (elapsed := self.clock() - started) > self.slow:
            self._add(f"slow: more than {self.slow:.0f} s", value, f"{elapsed:.1f} s")

    def _add(self, place: str, value: Any, details: str) -> None:  # noqa: ANN401 - any input of a target
        shown = repr(value)
        if place in self.found and len(self.found[place]) <= len(shown):
            return
        self.found[place] = shown
        self.folder.mkdir(parents=True, exist_ok=True)
        name = "".join(character if character.isalnum() else "-" for character in place)[:100]
        (self.folder / f"{name}.txt").write_text(
            f"{place}\n\n{shown}\n\n{details}", encoding="utf-8", errors="backslashreplace"
        )


def _place(error: BaseException) -> str:
    """The innermost line of gpuenv's code in the traceback, and the message of a failed assertion."""
    frames = traceback.extract_tb(error.__traceback__)
    package_frames = [frame for frame in frames if frame.filename.startswith(_PACKAGE)] or frames[-1:]
    message = str(error)[:200] if isinstance(error, AssertionError) else ""
    return (
        f"{type(error).__name__} {Path(package_frames[-1].filename).name}:{package_frames[-1].lineno} {message}".strip()
    )
