"""``gpuenv diff`` as a process."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from tests.cli.program import answer, gpuenv
from tests.cli.snapshots import FIT, write_snapshot


def two_snapshots(folder: Path) -> tuple[Path, Path]:
    this_machine = FIT._replace(environment={"CUDA_VISIBLE_DEVICES": "7"})
    return write_snapshot(FIT, folder / "there.json"), write_snapshot(this_machine, folder / "here.json")


def test_text_and_json_contain_the_same_differences(tmp_path: Path) -> None:
    other_machine, this_machine = two_snapshots(tmp_path)
    code, diff = answer("diff", other_machine, this_machine)
    assert code == 0
    assert diff["schema"] == "gpuenv.diff/1"
    result = gpuenv("diff", other_machine, this_machine)
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert lines[1].startswith(f"  {diff['explanation']['code']} {diff['explanation']['cause']}: ")
    for step in diff["try_first"]:
        assert f"  > {step['text']}" in lines
    for difference in diff["differences"]:
        assert any(line.startswith(f"  {difference['fact']}: ") for line in lines)
    for finding in diff["findings"]:
        assert any(line.startswith(f"  {finding['code']} {finding['cause']}: ") for line in lines)
    assert diff["differences"][0]["fact"] == "environment.CUDA_VISIBLE_DEVICES"
    assert "there: absent" in result.stdout


def test_the_json_conforms_to_its_schema(tmp_path: Path) -> None:
    _, diff = answer("diff", *two_snapshots(tmp_path))
    jsonschema.validate(diff, json.loads(gpuenv("schema", "diff").stdout))


def test_equal_machines_have_no_difference(tmp_path: Path) -> None:
    other_machine, _ = two_snapshots(tmp_path)
    result = gpuenv("diff", other_machine, other_machine)
    assert result.returncode == 0
    assert result.stdout.startswith("No difference in ")


def test_an_unreadable_snapshot_is_named(tmp_path: Path) -> None:
    other_machine, _ = two_snapshots(tmp_path)
    broken = tmp_path / "broken.json"
    broken.write_text("{", encoding="utf-8")
    for pair in ((other_machine, broken), (broken, other_machine), (other_machine, tmp_path / "none.json")):
        result = gpuenv("diff", *pair)
        assert result.returncode == 2
        assert "broken.json" in result.stderr or "none.json" in result.stderr
        assert result.stdout == ""
