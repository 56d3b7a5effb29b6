"""Reads the output of a build: steps, cached steps and the log, of the classic builder, Podman and BuildKit."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from gpuenv.image.engine.errors import tidy_text
from gpuenv.model.redaction import cut_text

Announce = Callable[[str], None]
_STEP = re.compile(r"^((?:\[\d+/\d+\] )?)step (\d+)/(\d+) ?: (.*)", re.IGNORECASE)
_CACHED = re.compile(r"^ ?-+> using cache", re.IGNORECASE)
_BUILDKIT = re.compile(r"^#(\d+) \[(?:([\w-]+) )?(\d+)/(\d+)\] (.*)")
_BUILDKIT_CACHED = re.compile(r"^#(\d+) CACHED")
_LOG = 400  # lines
_SHOWN = 100  # characters of a step


class Progress:
    """Reads a build's output line by line, and announces each step once."""

    def __init__(self, announce: Announce, *, verbose: bool = False) -> None:
        self._announce = announce
        self._verbose = verbose
        self._seen: dict[str, str] = {}
        self._cached: set[str] = set()
        self._last = ""
        self._rest = ""
        self._log: deque[str] = deque(maxlen=_LOG)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self._seen)

    @property
    def cached(self) -> int:
        """The number of steps from the cache."""
        return len(self._cached)

    @property
    def log(self) -> str:
        """The last lines of output."""
        return "\n".join(self._log)

    def feed(self, text: str) -> None:
        """Processes output, in whole lines or in pieces."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._line(line.rstrip("\r"))

    def _line(self, line: str) -> None:
        plain = tidy_text(line) if line.strip() else ""
        if plain:
            self._log.append(plain)
        step, kit = _STEP.match(line.lstrip()), _BUILDKIT.match(line)
        if step:
            self._step(step[1] + step[2], f"{step[1]}step {step[2]} of {step[3]}: {step[4]}")
        elif kit and kit[1] not in self._seen:
            stage = f"stage {kit[2]}, " if kit[2] else ""
            self._step(kit[1], f"{stage}step {kit[3]} of {kit[4]}: {kit[5]}")
        elif _CACHED.match(line):
            self._cached.add(self._last)
        elif (found := _BUILDKIT_CACHED.match(line)) and found[1] in self._seen:
            self._cached.add(found[1])
        elif self._verbose and plain:
            self._announce(plain)

    def _step(self, name: str, text: str) -> None:
        self._seen[name] = text
        self._last = name
        self._announce(tidy_text(cut_text(" ".join(text.split()), _SHOWN)))
