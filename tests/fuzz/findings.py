"""What a fuzzer found: one entry a place, with the smallest input that leads there."""

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
    """Runs a check on input after input and keeps what it raises.

    Attributes:
        check: reads an input.
        slow: seconds from which on an input is a finding for its time alone.
        clock: seconds of processor time; what others do on this machine does not count.
        folder: where each finding is written as it is made.
    """

    check: Callable[[Any], None]
    slow: float
    clock: Callable[[], float]
    folder: Path
    runs: int = 0
    found: dict[str, str] = field(default_factory=dict)

    def run(self, given: Any) -> None:  # noqa: ANN401 - whatever the target reads
        """One input; nothing is raised."""
        self.runs += 1
        begun = self.clock()
        try:
            self.check(given)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - finding whatever is raised is the purpose
            self._keep(_place(error), given, "".join(traceback.format_exception(error)))
        if (taken := self.clock() - begun) > self.slow:
            self._keep(f"slow: more than {self.slow:.0f} s", given, f"{taken:.1f} s")

    def _keep(self, place: str, given: Any, told: str) -> None:  # noqa: ANN401 - whatever the target reads
        shown = repr(given)
        if place in self.found and len(self.found[place]) <= len(shown):
            return
        self.found[place] = shown
        self.folder.mkdir(parents=True, exist_ok=True)
        name = "".join(character if character.isalnum() else "-" for character in place)[:100]
        (self.folder / f"{name}.txt").write_text(
            f"{place}\n\n{shown}\n\n{told}", encoding="utf-8", errors="backslashreplace"
        )


def _place(error: BaseException) -> str:
    """Where it was raised, of the package's own code the innermost line; a failed demand is its words."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(_PACKAGE)] or frames[-1:]
    words = str(error)[:200] if isinstance(error, AssertionError) else ""
    return f"{type(error).__name__} {Path(own[-1].filename).name}:{own[-1].lineno} {words}".strip()
