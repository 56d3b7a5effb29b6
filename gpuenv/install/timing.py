"""Where the time of a transaction goes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from gpuenv.install.records import Phase


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
