"""A few rows of the table of test_table.py, machines and requirements: one exit code, and the same facts in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.snapshots import SNAPSHOTS
from tests.report.table import assert_all_say_the_same, row
from tests.report.table import machine as of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("machine", "name"), [("fit", "links"), ("unfit", "packages"), ("without-gpu", "absent"), ("empty", "usual")]
)
def test_all_say_the_same(machine: str, name: str, tmp_path: Path) -> None:
    assert_all_say_the_same(row(of(SNAPSHOTS[machine]), name, tmp_path))
