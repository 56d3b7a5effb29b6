"""Exit codes, and the agreement of text, JSON and explanations, on which scripts rely."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpuenv.doctor.checks import all_checks
from gpuenv.model.causes import Cause
from gpuenv.model.reading import known
from tests.cli.program import MINIMAL, answer, gpuenv
from tests.cli.snapshots import FIT, SNAPSHOTS, replace_facts, write_snapshot


@cache
def run_once(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the program; cached, since output for a snapshot never changes."""
    return gpuenv(*arguments)


def run_json(*arguments: str | Path) -> tuple[int, Any]:
    """The exit code and JSON object of a cached call."""
    result = run_once(*arguments, "--format", "json")
    return result.returncode, json.loads(result.stdout)


# Exit codes.


@pytest.mark.parametrize(
    ("name", "options", "code", "status"),
    [
        ("fit", [], 0, "fit"),
        ("unfit", [], 1, "unfit"),
        ("without-gpu", [], 1, "unfit"),
        ("without-gpu", ["--expect-no-gpu"], 0, "fit"),
        ("unfit", ["--expect-no-gpu"], 1, "unfit"),
        ("empty", [], 8, "unknown"),
    ],
)
def test_the_doctor_s_exit_code_is_the_verdict(
    snapshot_files: dict[str, Path], name: str, options: list[str], code: int, status: str
) -> None:
    exit_code, report = run_json("doctor", "--snapshot", snapshot_files[name], *options)
    assert (exit_code, report["exit_code"], report["status"]) == (code, code, status)
    assert report["schema"] == "gpuenv.report/1"
    assert sum(finding["primary"] for finding in report["findings"]) == (1 if status == "unfit" else 0)


def test_a_machine_that_is_not_probed_ends_in_8() -> None:
    assert gpuenv("doctor", "--no-probe").returncode == 8


def test_an_error_takes_precedence_over_undecided_checks() -> None:
    assert gpuenv("doctor", "--no-probe", "--assume", "gpu=none").returncode == 1


@pytest.mark.parametrize(("name", "code"), [("fit", 0), ("without-gpu", 3), ("empty", 0)])
def test_resolve_ends_in_3_if_nothing_fits(snapshot_files: dict[str, Path], name: str, code: int) -> None:
    exit_code, resolution = run_json("resolve", "--snapshot", snapshot_files[name])
    assert exit_code == code
    assert (resolution["wheel"] is None) == (code == 3)
    assert resolution["schema"] == "gpuenv.resolution/1"


def test_a_valid_matrix_ends_in_0() -> None:
    result = gpuenv("matrix", "check")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("valid: ")


@pytest.mark.parametrize("name", ["report", "snapshot", "resolution", "matrix", "smoke", "gpuenv.report/1"])
def test_every_output_has_a_schema(name: str) -> None:
    result = gpuenv("schema", name)
    assert (result.returncode, result.stderr) == (0, "")
    assert isinstance(json.loads(result.stdout), dict)


def test_an_unknown_schema_is_a_usage_error() -> None:
    result = gpuenv("schema", "nothing")
    assert (result.returncode, result.stdout) == (2, "")
    assert "nothing" in result.stderr


# Text and JSON.


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_text_and_json_of_the_doctor_agree(snapshot_files: dict[str, Path], name: str) -> None:
    code, report = run_json("doctor", "--snapshot", snapshot_files[name])
    text = run_once("doctor", "--snapshot", snapshot_files[name])
    assert text.returncode == code
    assert f"exit code {code}" in text.stdout
    word = {"fit": "FIT:", "unfit": "UNFIT:", "unknown": "UNKNOWN:"}[report["status"]]
    assert text.stdout.startswith(word)
    for finding in report["findings"]:
        assert f"{finding['code']} {finding['cause']}" in text.stdout
    if report["status"] == "unfit":
        (primary,) = [finding for finding in report["findings"] if finding["primary"]]
        first_fix = text.stdout.index("Fix this first\n")
        assert text.stdout[first_fix:].splitlines()[1].split() == [primary["code"], primary["cause"]]
        assert text.stdout.splitlines()[0] == f"UNFIT: {primary['title']}."


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_text_and_json_of_resolve_agree(snapshot_files: dict[str, Path], name: str) -> None:
    code, resolution = run_json("resolve", "--snapshot", snapshot_files[name])
    text = run_once("resolve", "--snapshot", snapshot_files[name])
    assert text.returncode == code
    assert text.stdout.startswith(resolution["explanation"].splitlines()[0])
    for requirement in (resolution["wheel"] or {}).get("requirements", []):
        assert requirement in text.stdout


def test_verbose_output_lists_every_check_with_its_status(snapshot_files: dict[str, Path]) -> None:
    _, report = run_json("doctor", "--snapshot", snapshot_files["without-gpu"])
    text = run_once("doctor", "--snapshot", snapshot_files["without-gpu"], "-v").stdout
    for run in report["checks"]:
        assert f"  {run['code']} {run['status']}" in text
        assert run["reason"] is None or run["reason"] in text
    brief = run_once("doctor", "--snapshot", snapshot_files["without-gpu"]).stdout
    skipped = [run["code"] for run in report["checks"] if run["status"] == "skipped"]
    assert skipped
    assert f"{skipped[0]} skipped" not in brief


def test_verbose_output_lists_every_rejected_candidate(snapshot_files: dict[str, Path]) -> None:
    _, resolution = run_json("resolve", "--snapshot", snapshot_files["unfit"])
    text = run_once("resolve", "--snapshot", snapshot_files["unfit"], "--verbose").stdout
    assert resolution["rejected"]
    for entry in resolution["rejected"]:
        assert f"{entry['candidate']['name']}" in text
        assert entry["source"] in text
    assert len(text.splitlines()) > len(resolution["rejected"])


# Explanations.

_EXPLAIN_ALL = """
import json, sys
from gpuenv.cli.main import run
for what in json.loads(sys.argv[1]):
    print(chr(0) + what)
    print(chr(1), run(["explain", what]))
"""


def explain_all(words: list[str]) -> dict[str, str]:
    """The explanation of each word, made in one process; each call must end in 0."""
    command = [sys.executable, "-c", _EXPLAIN_ALL, json.dumps(words)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=MINIMAL, timeout=30)
    assert result.stderr == ""
    explanations = dict(part.split("\n", 1) for part in result.stdout.split("\0")[1:])
    assert [word for word, text in explanations.items() if not text.endswith("\1 0\n")] == []
    return {word: text.removesuffix("\1 0\n") for word, text in explanations.items()}


def test_every_check_is_explained(snapshot_files: dict[str, Path]) -> None:
    _, report = run_json("doctor", "--snapshot", snapshot_files["fit"])
    codes = [run["code"] for run in report["checks"]]
    assert len(codes) > 20
    for code, text in explain_all(codes).items():
        assert text.startswith(f"{code}: ")
        for section in ("What it means: ", "How it is seen: ", "What to do: "):
            assert text.count(section) == 1
            assert len(text.split(section)[1].split("\n")[0]) > 20


def test_every_cause_is_explained() -> None:
    for cause, text in explain_all([cause.value for cause in Cause]).items():
        assert text.startswith(f"{cause}: ")
        assert len(text) > len(cause) + 20


def test_a_code_is_case_insensitive_and_names_its_causes() -> None:
    explanations = explain_all(["DRV106", "drv106", "no-driver", "NO-DRIVER"])
    assert explanations["DRV106"] == explanations["drv106"]
    assert explanations["no-driver"] == explanations["NO-DRIVER"]
    assert "no-driver" in explanations["DRV106"]
    assert "DRV106" in explanations["no-driver"]


@pytest.mark.parametrize(("word", "suggestion"), [("DRV99", "DRV1"), ("no-drivers", "no-driver"), ("xyzzy", "")])
def test_an_unknown_code_or_cause_is_a_usage_error(word: str, suggestion: str) -> None:
    result = gpuenv("explain", word)
    assert (result.returncode, result.stdout) == (2, "")
    assert word in result.stderr
    assert ("did you mean" in result.stderr) == bool(suggestion)
    assert suggestion in result.stderr


# The network.

GUARD = """
import os, sys
def hook(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "urllib.Request"):
        with open(os.environ["TEST_NETWORK_LOG"], "a") as log:
            log.write(event + " " + repr(arguments[1:]) + "\\n")
sys.addaudithook(hook)
"""


def test_no_command_uses_the_network(tmp_path: Path, snapshot_files: dict[str, Path]) -> None:
    guard, log, root = tmp_path / "guard", tmp_path / "log.txt", tmp_path / "root"
    guard.mkdir()
    root.mkdir()
    (guard / "sitecustomize.py").write_text(GUARD, encoding="utf-8")
    environment = {"PYTHONPATH": str(guard), "TEST_NETWORK_LOG": str(log), "GPUENV_DRIVER_ROOT": str(root)}
    trial = f"import socket; socket.socket().connect_ex(('127.0.0.1', {_closed_port()}))"
    subprocess.run([sys.executable, "-c", trial], env={**MINIMAL, **environment}, check=True)
    assert log.read_text(encoding="utf-8").startswith("socket.connect "), "the guard sees a connection"
    log.unlink()
    for arguments in (
        ["doctor", "--timeout", "5", "--format", "json"],
        ["doctor", "--snapshot", str(snapshot_files["unfit"])],
        ["explain", "no-driver"],
        ["matrix", "check"],
    ):
        gpuenv(*arguments, environment=environment)
        assert not log.exists(), f"{arguments}: {log.read_text(encoding='utf-8')}"


def _closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# Assumptions and snapshots.


def test_a_replayed_snapshot_has_the_same_verdict_and_text(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    environment = {"GPUENV_DRIVER_ROOT": str(tmp_path / "root")}
    facts = tmp_path / "facts.json"
    assert gpuenv("probe", "-o", facts, environment=environment).returncode == 0
    first = gpuenv("doctor", "--snapshot", facts)
    second = gpuenv("doctor", "--snapshot", facts, environment={"CUDA_VISIBLE_DEVICES": "-1", "CUDA_PATH": "/else"})
    assert (first.returncode, first.stdout) == (second.returncode, second.stdout)


def test_an_assumption_replaces_one_fact_of_a_snapshot(snapshot_files: dict[str, Path]) -> None:
    code, report = answer("doctor", "--snapshot", snapshot_files["fit"], "--assume", "driver=470")
    assert (code, report["status"]) == (1, "unfit")
    assert report["snapshot"]["driver"]["version"]["source"] == "assumed"
    assert "driver.version" in report["snapshot"]["assumed"]
    assert report["snapshot"]["gpus"][0]["name"]["source"] == "nvml"


def test_a_snapshot_that_is_read_and_written_is_unchanged(tmp_path: Path) -> None:
    first = write_snapshot(replace_facts(FIT, gpu_count=known(1, "nvml")), tmp_path / "first.json")
    second = tmp_path / "second.json"
    gpuenv("probe", "--snapshot", first, "--no-redact", "-o", second)
    assert json.loads(second.read_text(encoding="utf-8")) == json.loads(first.read_text(encoding="utf-8"))


# Selection of checks.


def test_doctor_list_prints_every_check() -> None:
    result = run_once("doctor", "--list")
    assert result.returncode == 0
    assert len(re.findall(r"^[A-Z]{3}\d{3}  \S", result.stdout, re.MULTILINE)) == len(all_checks())
    for cause in Cause:
        named = any(cause in check.causes for check in all_checks())
        assert (cause.value in result.stdout) >= named


def test_an_excluded_check_is_reported_as_skipped(snapshot_files: dict[str, Path]) -> None:
    _, full_report = run_json("doctor", "--snapshot", snapshot_files["unfit"])
    primary = next(finding["code"] for finding in full_report["findings"] if finding["primary"])
    _, report = run_json("doctor", "--snapshot", snapshot_files["unfit"], "--skip", primary.lower())
    assert primary not in {finding["code"] for finding in report["findings"]}
    (run,) = [run for run in report["checks"] if run["code"] == primary]
    assert (run["status"], run["reason"]) == ("skipped", "excluded by an option")


def test_selected_checks_run_with_the_checks_that_they_require(snapshot_files: dict[str, Path]) -> None:
    _, report = run_json("doctor", "--snapshot", snapshot_files["fit"], "--only", "DRV103")
    executed = {run["code"] for run in report["checks"] if run["reason"] != "excluded by an option"}
    assert executed == {"DRV100", "DRV101", "DRV103"}


@pytest.mark.parametrize("option", ["--only", "--skip"])
def test_an_unknown_check_is_named_with_a_suggestion(option: str) -> None:
    result = gpuenv("doctor", "--no-probe", option, "DRV1O2")
    assert result.returncode == 2
    assert "DRV1O2" in result.stderr
    assert "did you mean DRV1" in result.stderr
