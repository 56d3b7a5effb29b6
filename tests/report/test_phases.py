"""The timeline of the sources of a probe."""

from __future__ import annotations

from gpuenv.model.snapshot import Snapshot, Source, SourceState
from gpuenv.report.snapshot_text import phase_lines

SOURCES = (
    Source("libraries", SourceState.ANSWERED, None, duration=0.5, started=0.5),
    Source("kernel", SourceState.ANSWERED, None, duration=0.1, started=0.0),
    Source("nvml", SourceState.TIMED_OUT, "no answer", duration=1.0, started=0.0),
    Source("nvidia-smi", SourceState.ABSENT, "not on PATH"),
)


def test_each_source_has_a_line_in_the_order_of_its_start() -> None:
    head, *rows, last = [line.text for line in phase_lines(Snapshot()._replace(sources=SOURCES))]
    assert head.split() == ["source", "from", "to", "took", "state"]
    assert [row.split()[:4] for row in rows] == [
        ["kernel", "0.00", "0.10", "0.10"],
        ["nvml", "0.00", "1.00", "1.00"],
        ["libraries", "0.50", "1.00", "0.50"],
    ]
    assert rows[1].endswith("timed-out")
    assert last == "total 1.00 s; one after the other 1.60 s"


def test_the_bars_match_the_times() -> None:
    _, kernel, nvml, libraries, _ = [line.text for line in phase_lines(Snapshot()._replace(sources=SOURCES))]
    bars = {text.split()[0]: (text.index("#"), text.rindex("#")) for text in (kernel, nvml, libraries)}
    assert bars["kernel"][0] == bars["nvml"][0] < bars["kernel"][1] < bars["libraries"][0]
    assert bars["libraries"][1] == bars["nvml"][1]
    assert max(map(len, (kernel, nvml, libraries))) <= 80


def test_without_timings_no_source_was_probed() -> None:
    assert [line.text for line in phase_lines(Snapshot())] == ["No source was probed."]
