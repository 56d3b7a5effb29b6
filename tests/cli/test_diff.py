"""``gpuenv diff`` as a process."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from tests.cli.program import answer, gpuenv
from tests.cli.recorded import FIT, record


def two(folder: Path) -> tuple[Path, Path]:
    here = FIT._replace(environment={"CUDA_VISIBLE_DEVICES": "7"})
    return record(FIT, folder / "there.json"), record(here, folder / "here.json")


def test_text_and_json_say_the_same(tmp_path: Path) -> None:
    there, here = two(tmp_path)
    code, told = answer("diff", there, here)
    assert code == 0
    assert told["schema"] == "gpuenv.diff/1"
    done = gpuenv("diff", there, here)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert "Try this first" in lines
    for difference in told["differences"]:
        assert any(line.startswith(f"  {difference['fact']}: ") for line in lines)
    for finding in told["findings"]:
        assert any(line.startswith(f"  {finding['code']} {finding['cause']}: ") for line in lines)
    assert told["differences"][0]["fact"] == "environment.CUDA_VISIBLE_DEVICES"
    assert "there: not there" in done.stdout


def test_the_schema_holds(tmp_path: Path) -> None:
    _, told = answer("diff", *two(tmp_path))
    jsonschema.validate(told, json.loads(gpuenv("schema", "diff").stdout))


def test_equal_machines(tmp_path: Path) -> None:
    there, _ = two(tmp_path)
    done = gpuenv("diff", there, there)
    assert done.returncode == 0
    assert done.stdout.startswith("No difference in ")


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    there, _ = two(tmp_path)
    broken = tmp_path / "broken.json"
    broken.write_text("{", encoding="utf-8")
    for pair in ((there, broken), (broken, there), (there, tmp_path / "none.json")):
        done = gpuenv("diff", *pair)
        assert done.returncode == 2
        assert "broken.json" in done.stderr or "none.json" in done.stderr
        assert done.stdout == ""
