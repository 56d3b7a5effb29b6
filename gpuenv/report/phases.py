"""Where the time of a probing went: one line a source, in the order in which they were asked. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.model.snapshot import Snapshot, SourceState
from gpuenv.report.text import Line, Style

_WIDTH = 30  # columns of the drawing


def phase_lines(snapshot: Snapshot) -> Iterator[Line]:
    """A table with the seconds from and to which each source was asked, and a drawing of it."""
    asked = sorted(
        (source for source in snapshot.sources if source.duration > 0), key=lambda source: (source.started, source.name)
    )
    if not asked:
        yield Line("No source was asked.", Style.QUIET)
        return
    whole = max(source.started + source.duration for source in asked)
    name_width = max(len(source.name) for source in asked)
    yield Line(f"{'source':{name_width}}   from     to   took  state", Style.QUIET)
    for source in asked:
        end = source.started + source.duration
        before, after = round(source.started / whole * _WIDTH), round(end / whole * _WIDTH)
        bar = " " * before + "#" * max(1, after - before)
        state = "" if source.state is SourceState.ANSWERED else source.state.value
        yield Line(
            f"{source.name:{name_width}} {source.started:6.2f} {end:6.2f} {source.duration:6.2f}  "
            f"{bar:{_WIDTH}} {state}".rstrip()
        )
    told_apart = sum(source.duration for source in asked)
    yield Line(f"all {whole:.2f} s; one after the other it would be {told_apart:.2f} s", Style.QUIET)
