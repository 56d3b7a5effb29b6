"""Explanations of codes and lists of checks, tests and requirements: one JSON object each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from gpuenv.doctor.checks import all_checks
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


def listing(name: str, *arguments: str) -> Any:  # noqa: ANN401 - JSON
    """The printed JSON object, validated against its schema."""
    result = gpuenv(*arguments, "--format", "json")
    assert (result.returncode, result.stderr) == (0, "")
    output = json.loads(result.stdout)
    assert output["schema"] == f"gpuenv.{name}/1"
    jsonschema.Draft202012Validator(json.loads(gpuenv("schema", name).stdout)).validate(output)
    return output


@pytest.mark.long
@pytest.mark.parametrize(("arguments", "name"), LISTINGS, ids=[" ".join(words) for words, _ in LISTINGS])
def test_json_is_one_object_that_conforms_to_its_schema(tmp_path: Path, arguments: tuple[str, ...], name: str) -> None:
    output = listing(name, *arguments)
    for form in ("json", "text"):
        result = gpuenv(*arguments, "--format", form, "-o", tmp_path / form)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert json.loads((tmp_path / "json").read_text(encoding="utf-8")) == output
    assert (tmp_path / "text").read_text(encoding="utf-8") == gpuenv(*arguments).stdout


def test_listings_are_complete() -> None:
    assert [entry["code"] for entry in listing("checks", "doctor", "--list")["checks"]] == [
        check.code for check in all_checks()
    ]
    assert [entry["name"] for entry in listing("tests", "smoke", "--list")["tests"]] == [
        test.name for test in all_tests()
    ]
    output = listing("requirements", "preflight", "--list-requirements", "--no-config")
    assert [entry["name"] for entry in output["keys"]] == list(KEYS)
    assert output["grammar"]


def test_explanations_contain_what_the_text_contains() -> None:
    code = listing("meaning", "explain", "DRV106")
    (check,) = code["checks"]
    assert (code["subject"], code["kind"], check["code"]) == ("DRV106", "code", "DRV106")
    assert set(check["sections"]) == {"What it means", "How it is seen", "What to do"}
    cause = listing("meaning", "explain", "no-driver")
    assert (cause["kind"], cause["title"], cause["fix"]) == ("cause", Cause.NO_DRIVER.sentence, [])
    assert "DRV106" in [entry["code"] for entry in cause["checks"]]
    assert listing("meaning", "explain", "stream-race")["demonstration"] is None
    unchecked = next(cause for cause in Cause if not any(cause in check.causes for check in all_checks()))
    explanation = listing("meaning", "explain", unchecked.value)
    assert explanation["fix"] or explanation["checks"]
    assert listing("meaning", "explain", "nvml.version-mismatch")["kind"] == "message"


@pytest.mark.parametrize(
    "arguments", [("doctor", "--list"), ("smoke", "--list"), ("preflight", "--list-requirements")], ids=" ".join
)
def test_a_listing_has_only_text_and_json(arguments: tuple[str, ...]) -> None:
    result = gpuenv(*arguments, "--format", "junit")
    assert (result.returncode, result.stdout) == (2, "")
    assert "one of text, json" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
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
def test_options_that_a_listing_ignores_are_validated(arguments: tuple[str, ...], message: str) -> None:
    result = gpuenv(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
