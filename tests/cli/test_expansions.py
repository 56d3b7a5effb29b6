"""Inputs that are huge, or small and expand: a command refuses or reads them in bounded memory and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.expansions import Attack, attacks, faults

if TYPE_CHECKING:
    from pathlib import Path

ALL = {attack.key: attack for attack in attacks()}
# Each takes below two seconds; before there were bounds, it took gigabytes or minutes.
QUICK = (
    "Dockerfile: ENV in 4 copies, 24 times",
    "requirements: 10 lists that each name all",
    "image tar: pax header of 4 GiB",
    "bundle: long name of 4 GiB",
    "compose: an .env of 900 kB in 2,000 places",
)


@pytest.mark.parametrize("key", QUICK)
def test_an_input_that_expands_is_bounded(tmp_path: Path, key: str) -> None:
    outcome = ALL[key].run(tmp_path)
    assert faults(ALL[key], outcome) == [], outcome


@pytest.mark.long
@pytest.mark.parametrize("attack", [attack for key, attack in ALL.items() if key not in QUICK], ids=lambda it: it.key)
def test_every_input_is_bounded(tmp_path: Path, attack: Attack) -> None:
    """``python -m tests.support.expansions`` prints the table."""
    outcome = attack.run(tmp_path)
    assert faults(attack, outcome) == [], outcome
