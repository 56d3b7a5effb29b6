"""A few machines and requirements of test_table.py: all formats agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.snapshots import SNAPSHOTS
from tests.report.table import assert_formats_agree, resolve_machine, run_preflight

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("machine", "name"), [("fit", "links"), ("unfit", "packages"), ("without-gpu", "absent"), ("empty", "usual")]
)
def test_all_formats_agree(machine: str, name: str, tmp_path: Path) -> None:
    assert_formats_agree(run_preflight(resolve_machine(SNAPSHOTS[machine]), name, tmp_path))
