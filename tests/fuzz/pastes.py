"""Fuzzing of pasted outputs, which always result in a machine with a consistent report."""

from __future__ import annotations

from pathlib import Path

from gpuenv.paste.merge import conflicts
from gpuenv.paste.partial_snapshot import gaps, known_keys, to_snapshot
from gpuenv.paste.reader import read_paste
from tests.fuzz.report_checks import check_machine, shipped_matrix

TEXTS = [
    path.read_text(encoding="utf-8")
    for folder in ("texts", "outputs", "reported", "healthy")
    for path in sorted((Path(__file__).parents[1] / "paste" / folder).iterdir())
    if path.suffix in (".txt", ".xml")
]


def check_paste(text: str) -> None:
    """Every gap has a key and a command, and every conflict at least two values."""
    pasted = read_paste(text)
    snapshot = to_snapshot(pasted, shipped_matrix())
    assert all(gap.ask and gap.key for gap in gaps(pasted, snapshot))
    assert all(len(entry.values) > 1 for entry in conflicts(pasted))
    assert not known_keys(snapshot) or pasted.outputs
    check_machine(snapshot)
