"""No cell of the table is without a test, or a reason why it has no meaning."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.faults.cells import FAULTS, THINGS, WITHOUT_MEANING, column


def test_every_cell_has_a_test_or_a_reason() -> None:
    """By the ids of the tests that pytest finds here."""
    here = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-m", "slow", str(here)]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"], cwd=here.parents[1], capture_output=True, text=True, check=True
    )
    ids = re.findall(r"\[(?:[\w-]+ of )?([^=\]]+) = ([^\]]+)\]", done.stdout)
    tested = {(thing, column(fault)) for thing, fault in ids}
    assert len(ids) > 200
    assert tested - {(thing, fault) for thing in THINGS for fault in FAULTS} == set()
    missing = {(thing, fault) for thing in THINGS for fault in FAULTS} - tested - set(WITHOUT_MEANING)
    assert missing == set()
    assert tested & set(WITHOUT_MEANING) == set(), "a cell that is tested has a meaning"
