"""Where the time of a transaction goes, and how much of it the installer may take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuenv.install.records import Phase
from gpuenv.probe.children import ChildGroup, ChildResult, OnText, run_child


@dataclass(slots=True)
class Clock:
    """Parts of the work that follow one another without a gap, so that their sum is the whole.

    Attributes:
        since: reading of ``time.monotonic`` when the part that is under way began.
        part: its name.
        spent: seconds of the parts so far, in the order in which they began.
    """

    since: float = field(default_factory=time.monotonic)
    part: str = "start"
    spent: dict[str, float] = field(default_factory=dict)

    def begin(self, part: str) -> None:
        """Ends the part that is under way and begins another one; one that was there before goes on."""
        now = time.monotonic()
        self.spent[self.part] = self.spent.get(self.part, 0.0) + now - self.since
        self.since, self.part = now, part

    def told(self) -> tuple[Phase, ...]:
        """Every part until now."""
        self.begin(self.part)
        return tuple(Phase(name, seconds) for name, seconds in self.spent.items())


@dataclass(slots=True)
class Patience:
    """How long the installer may work, all its calls together; whoever thinks a plan over takes nothing of it.

    Attributes:
        left: seconds.
    """

    left: float

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        group: ChildGroup | None = None,
        heard: OnText | None = None,
    ) -> ChildResult:
        """Runs a program for as long as is left, see ``run_child``."""
        result = run_child(command, environment, time.monotonic() + self.left, group, heard)
        self.left = max(0.0, self.left - result.duration)
        return result
