"""Suppressions: findings that the configuration allows until a date are shown as notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuenv.cli.output import FORMATS
from gpuenv.model.finding import Suppression
from gpuenv.preflight.config import ConfigError, load_config
from tests.cli.program import gpuenv
from tests.cli.snapshots import FIT, UNFIT, WITHOUT_GPU, write_snapshot

REASON = "the old driver goes in May"
ALLOW = f'[[allow]]\ncode = "WHL504"\nreason = "{REASON}"\nexpires = 2999-05-31\n'
EXPIRED = ALLOW.replace("2999", "2020")
PROJECT = f"""[project]
name = "x"

[tool.gpuenv]
allow = [
    {{code = "whl504", reason = "{REASON}", expires = 2999-05-31}},
    {{code = "GPU206", reason = "row 17", expires = "2999-06-30"}},
]
"""


def write_config(folder: Path, text: str, name: str = "gpuenv.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def doctor(folder: Path, *options: str | Path, command: str = "doctor") -> tuple[int, Any]:
    result = gpuenv(command, "--snapshot", "machine.json", "--format", "json", *options, cwd=folder)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


def test_entries_are_read_with_their_lines(tmp_path: Path) -> None:
    project = load_config(write_config(tmp_path, PROJECT, "pyproject.toml"), "pyproject.toml")
    first, second = project.suppressions
    name = "pyproject.toml"
    assert first == Suppression("WHL504", REASON, "2999-05-31", f"{name}: line 6", name, 6)
    assert (second.code, second.expires, second.line) == ("GPU206", "2999-06-30", 7)
    duplicate = load_config(write_config(tmp_path, ALLOW + ALLOW), "gpuenv.toml")
    assert [entry.line for entry in duplicate.suppressions] == [2, 6]


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ('\nallow = ["GPU206"]', 2, "allow: expected a list of tables, such as {code"),
        ("[allow]\ncode = 'GPU206'", 1, "allow: expected a list of tables"),
        ("[[allow]]\ncode = 'GPU206'\nexpires = 2027-01-01", 2, "reason: expected a text"),
        ("[[allow]]\ncode = 'GPU206'\nreason = ' '\nexpires = 2027-01-01", 2, "reason: expected a text"),
        ("[[allow]]\ncode = 'GPU206'\nreason = 'x'", 2, "expires: expected a day, such as 2027-05-31, found None"),
        ("[[allow]]\n\ncode = 'GPU206'\nreason = 'x'\nexpires = 'May'", 3, "expires: expected a day"),
        ("[[allow]]\ncode = 'GPU206'\nreason = 'x'\nexpires = 2027-01-01T10:00:00", 2, "expires: expected a day"),
        ("[[allow]]\ncode = 6\nreason = 'x'\nexpires = 2027-01-01", 1, "code: expected the code of a check"),
        (
            "[[allow]]\ncode = 'GPU206'\nreson = 'x'\nexpires = 2027-01-01",
            2,
            "reson: unknown key; did you mean reason?",
        ),
    ],
)
def test_a_fault_is_reported_with_its_line(tmp_path: Path, text: str, line: int, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(write_config(tmp_path, text), "gpuenv.toml")
    assert error.value.faults[0].startswith(f"gpuenv.toml: line {line}: "), error.value.faults
    assert expected in str(error.value)


@pytest.mark.parametrize("command", ["doctor", "preflight"])
def test_a_suppressed_finding_is_a_note_and_does_not_make_a_machine_unfit(tmp_path: Path, command: str) -> None:
    write_snapshot(UNFIT, tmp_path / "machine.json")
    assert doctor(tmp_path, command=command)[0] == 1
    write_config(tmp_path, ALLOW)
    code, report = doctor(tmp_path, command=command)
    assert (code, report["status"]) == (0, "fit")
    (finding,) = report["findings"]
    assert (finding["code"], finding["severity"], finding["primary"]) == ("WHL504", "note", False)
    assert finding["allowed"]["expires"] == "2999-05-31"
    assert [entry["state"] for entry in report["allow_list"]] == ["used"]
    code, report = doctor(tmp_path, "--no-config", command=command)
    assert (code, report["allow_list"], report["findings"][0]["allowed"]) == (1, [], None)


def test_an_expired_suppression_is_reported_and_has_no_effect(tmp_path: Path) -> None:
    write_snapshot(UNFIT, tmp_path / "machine.json")
    config = write_config(tmp_path, EXPIRED, "elsewhere.toml")
    result = gpuenv("doctor", "--snapshot", "machine.json", "--config", config, cwd=tmp_path)
    assert result.returncode == 1
    assert "the suppression of WHL504 expired on 2020-05-31 and is ignored" in result.stderr
    text = " ".join(result.stdout.split())
    assert f"no longer allowed: expired on 2020-05-31: {REASON}" in text
    assert f"Allowed expired WHL504 until 2020-05-31: {REASON}" in text
    _, report = doctor(tmp_path, "--config", config)
    assert report["findings"][0]["primary"]
    assert [entry["state"] for entry in report["allow_list"]] == ["expired"]


def test_a_newer_suppression_of_the_same_code_is_used(tmp_path: Path) -> None:
    write_snapshot(UNFIT, tmp_path / "machine.json")
    write_config(tmp_path, EXPIRED + ALLOW)
    code, report = doctor(tmp_path)
    assert code == 0
    assert [entry["state"] for entry in report["allow_list"]] == ["expired", "used"]


def test_an_unused_suppression_is_reported(tmp_path: Path) -> None:
    write_snapshot(FIT, tmp_path / "machine.json")
    write_config(tmp_path, ALLOW)
    code, report = doctor(tmp_path)
    assert (code, report["findings"]) == (0, [])
    assert [entry["state"] for entry in report["allow_list"]] == ["unused"]


def test_suppressed_findings_of_the_machine_do_not_make_it_fit(tmp_path: Path) -> None:
    """With the root cause allowed, its consequences are no errors either, but no GPU is proven."""
    write_snapshot(WITHOUT_GPU, tmp_path / "machine.json")
    _, before = doctor(tmp_path)
    (primary,) = [finding["code"] for finding in before["findings"] if finding["primary"]]
    write_config(tmp_path, ALLOW.replace("WHL504", primary))
    code, report = doctor(tmp_path)
    assert (code, report["status"]) == (8, "unknown")
    assert [finding["severity"] for finding in report["findings"] if finding["code"] == primary] == ["note"]


@pytest.mark.parametrize(
    ("command", "code", "suggestion"), [("doctor", "GPU260", "GPU206"), ("preflight", "WHL5040", "WHL504")]
)
def test_an_unknown_code_is_reported_with_the_nearest_one(
    tmp_path: Path, command: str, code: str, suggestion: str
) -> None:
    write_snapshot(FIT, tmp_path / "machine.json")
    write_config(tmp_path, ALLOW.replace("WHL504", code))
    result = gpuenv(command, "--snapshot", "machine.json", cwd=tmp_path)
    assert result.returncode == 2
    assert f"gpuenv.toml: line 2: allow: there is no check {code}; did you mean {suggestion}?" in result.stderr


def test_every_format_shows_used_and_expired_suppressions(tmp_path: Path) -> None:
    write_snapshot(UNFIT, tmp_path / "machine.json")
    write_config(tmp_path, ALLOW + EXPIRED.replace("WHL504", "GPU206").replace(REASON, "it was replaced"))
    files = [f"{form}={form}.out" for form in FORMATS if form != "text"]
    options = [word for file in files for word in ("--format", file)]
    result = gpuenv("doctor", "--snapshot", "machine.json", *options, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    texts = {form: (tmp_path / f"{form}.out").read_text(encoding="utf-8") for form in FORMATS if form != "text"}
    texts["text"] = result.stdout
    reasons = {form for form, text in texts.items() if REASON in text}
    assert reasons == {*FORMATS} - {"prometheus"}, "labels that repeat a sentence make a metric costly"
    assert {form for form, text in texts.items() if "GPU206" in text and "expired" in text} == {*FORMATS}
    assert 'code="WHL504",state="used"' in texts["prometheus"]
    (suppression,) = json.loads(texts["sarif"])["runs"][0]["results"][0]["suppressions"]
    assert suppression["kind"] == "external"
