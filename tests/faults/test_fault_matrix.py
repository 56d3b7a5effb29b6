"""The matrix of things and faults is complete."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.faults.fault_matrix import FAULTS, THINGS, WITHOUT_MEANING, fault_kind


def test_every_combination_has_a_test_or_a_reason() -> None:
    """Checked by the ids of the tests that pytest collects here."""
    folder = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-m", "slow", str(folder)]
    process = subprocess.run(
        [*command, "-p", "no:cacheprovider"], cwd=folder.parents[1], capture_output=True, text=True, check=True
    )
    ids = re.findall(r"\[(?:[\w-]+ of )?([^=\]]+) = ([^\]]+)\]", process.stdout)
    tested = {(thing, fault_kind(fault)) for thing, fault in ids}
    assert len(ids) > 200
    assert tested - {(thing, fault) for thing in THINGS for fault in FAULTS} == set()
    missing = {(thing, fault) for thing in THINGS for fault in FAULTS} - tested - set(WITHOUT_MEANING)
    assert missing == set()
    assert tested & set(WITHOUT_MEANING) == set(), "a tested combination has a meaning"
