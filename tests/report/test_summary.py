"""The summary has what a bug report needs, in at most 3 kB."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from gpuenv.cli.commands.schema import schema_of
from gpuenv.model.reading import known
from tests.cli.program import gpuenv
from tests.cli.snapshots import FIT, UNFIT, WITHOUT_GPU, replace_facts, write_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.model.snapshot import Snapshot

LONG = replace_facts(
    UNFIT, target=UNFIT.target._replace(executable=known(f"/home/alice/{'x' * 4000}/bin/python3", "the target"))
)


def summary(snapshot: Snapshot, folder: Path, command: str = "doctor", *options: str) -> tuple[int, dict[str, Any]]:
    machine = write_snapshot(snapshot, folder / "machine.json")
    result = gpuenv(command, "--no-config", "--snapshot", machine, "--format", "summary", *options)
    assert len(result.stdout.encode()) <= 3000
    return result.returncode, json.loads(result.stdout)


@pytest.mark.parametrize("snapshot", [FIT, UNFIT, WITHOUT_GPU, LONG], ids=["fit", "unfit", "without-gpu", "long"])
def test_the_summary_is_short_and_conforms_to_its_schema(snapshot: Snapshot, tmp_path: Path) -> None:
    code, found = summary(snapshot, tmp_path)
    Draft202012Validator(schema_of("summary")).validate(found)
    assert found["exit_code"] == code
    assert (found["primary"] is None) == (snapshot is FIT)
    assert "alice" not in json.dumps(found)


@pytest.mark.parametrize("command", ["doctor", "preflight"])
def test_the_summary_has_the_primary_finding_with_its_fix(command: str, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    _, found = summary(UNFIT, tmp_path, command, "--format", f"json={file}")
    report = json.loads(file.read_text(encoding="utf-8"))
    first = report["findings"][0]
    assert found["status"] == report["status"] == "unfit"
    assert found["primary"]["code"] == first["code"]
    assert found["primary"]["cause"] == first["cause"]
    assert [fix["text"] for fix in found["primary"]["fix"]] == [fix["text"] for fix in first["fix"][:3]]
    assert found["primary"]["evidence"]
    assert found["wheel"]
