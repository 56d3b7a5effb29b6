"""Meanings and lists: one JSON object each with ``--format json``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from gpuenv.doctor.registry import all_checks
from gpuenv.model.causes import Cause
from gpuenv.preflight.requirements import KEYS
from gpuenv.smoke.tasks import all_tests
from tests.cli.program import gpuenv

if TYPE_CHECKING:
    from pathlib import Path


LISTINGS = (
    (("explain", "drv106"), "meaning"),
    (("explain", "no-driver"), "meaning"),
    (("explain", "out-of-memory"), "meaning"),
    (("explain", "nvml.version-mismatch"), "meaning"),
    (("explain", "IMG902"), "meaning"),
    (("doctor", "--list"), "checks"),
    (("smoke", "--list"), "tests"),
    (("smoke", "--list", "fft"), "tests"),
    (("preflight", "--list-requirements", "--no-config"), "requirements"),
)


def told(name: str, *arguments: str) -> Any:  # noqa: ANN401 - JSON
    """The one object that is printed, as its schema says, which is what a file gets too."""
    done = gpuenv(*arguments, "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["schema"] == f"gpuenv.{name}/1"
    jsonschema.Draft202012Validator(json.loads(gpuenv("schema", name).stdout)).validate(found)
    return found


@pytest.mark.parametrize(("arguments", "name"), LISTINGS, ids=[" ".join(words) for words, _ in LISTINGS])
def test_json_is_one_object_with_a_schema_of_its_own(tmp_path: Path, arguments: tuple[str, ...], name: str) -> None:
    found = told(name, *arguments)
    for form in ("json", "text"):
        done = gpuenv(*arguments, "--format", form, "-o", tmp_path / form)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads((tmp_path / "json").read_text(encoding="utf-8")) == found
    assert (tmp_path / "text").read_text(encoding="utf-8") == gpuenv(*arguments).stdout


def test_a_listing_has_all_that_there_is() -> None:
    assert [entry["code"] for entry in told("checks", "doctor", "--list")["checks"]] == [
        check.code for check in all_checks()
    ]
    assert [entry["name"] for entry in told("tests", "smoke", "--list")["tests"]] == [test.name for test in all_tests()]
    found = told("requirements", "preflight", "--list-requirements", "--no-config")
    assert [entry["name"] for entry in found["keys"]] == list(KEYS)
    assert found["grammar"]


def test_a_meaning_says_what_the_text_says() -> None:
    code = told("meaning", "explain", "DRV106")
    (check,) = code["checks"]
    assert (code["subject"], code["kind"], check["code"]) == ("DRV106", "code", "DRV106")
    assert set(check["sections"]) == {"What it means", "How it is seen", "What to do"}
    cause = told("meaning", "explain", "no-driver")
    assert (cause["kind"], cause["title"], cause["fix"]) == ("cause", Cause.NO_DRIVER.sentence, [])
    assert "DRV106" in [entry["code"] for entry in cause["checks"]]
    assert told("meaning", "explain", "stream-race")["demonstration"] is None
    unseen = next(cause for cause in Cause if not any(cause in check.causes for check in all_checks()))
    lone = told("meaning", "explain", unseen.value)
    assert lone["fix"] or lone["checks"]
    assert told("meaning", "explain", "nvml.version-mismatch")["kind"] == "message"


@pytest.mark.parametrize(
    "arguments", [("doctor", "--list"), ("smoke", "--list"), ("preflight", "--list-requirements")], ids=" ".join
)
def test_a_listing_has_no_other_form(arguments: tuple[str, ...]) -> None:
    done = gpuenv(*arguments, "--format", "junit")
    assert (done.returncode, done.stdout) == (2, "")
    assert "one of text, json" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("doctor", "--list", "--snapshot", "nope.json"), "nope.json"),
        (("doctor", "--list", "--only", "DRV1O2"), "DRV1O2"),
        (("doctor", "--list", "--assume", "driver"), "KEY=VALUE"),
        (("doctor", "--list", "--config", "nope.toml"), "nope.toml"),
        (("preflight", "--list-requirements", "--require", "gpuu>=1"), "gpuu"),
        (("preflight", "--list-requirements", "--matrix", "nope.yaml"), "nope.yaml"),
        (("smoke", "--list", "--python", "/nope"), "/nope"),
        (("smoke", "--list", "--compare", "nope.json"), "nope.json"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_a_listing_does_without_is_read_all_the_same(arguments: tuple[str, ...], named: str) -> None:
    done = gpuenv(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr
