"""What scripts rely on: exit codes, and the agreement of text, JSON and explanations."""

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

from gpuenv.doctor.registry import all_checks
from gpuenv.model.causes import Cause
from gpuenv.model.reading import known
from tests.cli.program import MINIMAL, answer, gpuenv
from tests.cli.recorded import EVERY, FIT, changed, record


@cache
def said(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What the program says of a recording; it always says the same, so it is asked once."""
    return gpuenv(*arguments)


def told(*arguments: str | Path) -> tuple[int, Any]:
    """Exit code and JSON object, likewise."""
    done = said(*arguments, "--format", "json")
    return done.returncode, json.loads(done.stdout)


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
    recordings: dict[str, Path], name: str, options: list[str], code: int, status: str
) -> None:
    exit_code, report = told("doctor", "--snapshot", recordings[name], *options)
    assert (exit_code, report["exit_code"], report["status"]) == (code, code, status)
    assert report["schema"] == "gpuenv.report/1"
    assert sum(finding["primary"] for finding in report["findings"]) == (1 if status == "unfit" else 0)


def test_nothing_can_be_said_of_a_machine_that_was_not_asked() -> None:
    assert gpuenv("doctor", "--no-probe").returncode == 8


def test_an_error_goes_before_what_could_not_be_checked() -> None:
    assert gpuenv("doctor", "--no-probe", "--assume", "gpu=none").returncode == 1


@pytest.mark.parametrize(("name", "code"), [("fit", 0), ("without-gpu", 3), ("empty", 0)])
def test_resolving_ends_in_0_or_in_3(recordings: dict[str, Path], name: str, code: int) -> None:
    exit_code, resolution = told("resolve", "--snapshot", recordings[name])
    assert exit_code == code
    assert (resolution["wheel"] is None) == (code == 3)
    assert resolution["schema"] == "gpuenv.resolution/1"


def test_a_valid_matrix_is_0() -> None:
    done = gpuenv("matrix", "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("valid: ")


@pytest.mark.parametrize("name", ["report", "snapshot", "resolution", "matrix", "smoke", "gpuenv.report/1"])
def test_every_output_has_a_schema(name: str) -> None:
    done = gpuenv("schema", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert isinstance(json.loads(done.stdout), dict)


def test_a_schema_that_is_not_there_is_usage() -> None:
    done = gpuenv("schema", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing" in done.stderr


# Text and JSON.


@pytest.mark.parametrize("name", EVERY)
def test_text_and_json_say_the_same(recordings: dict[str, Path], name: str) -> None:
    code, report = told("doctor", "--snapshot", recordings[name])
    text = said("doctor", "--snapshot", recordings[name])
    assert text.returncode == code
    assert f"exit code {code}" in text.stdout
    word = {"fit": "FIT:", "unfit": "UNFIT:", "unknown": "UNKNOWN:"}[report["status"]]
    assert text.stdout.startswith(word)
    for finding in report["findings"]:
        assert f"{finding['code']} {finding['cause']}" in text.stdout
    if report["status"] == "unfit":
        (primary,) = [finding for finding in report["findings"] if finding["primary"]]
        cure = text.stdout.index("Fix this first\n")
        assert text.stdout[cure:].splitlines()[1].split() == [primary["code"], primary["cause"]]
        assert text.stdout.splitlines()[0] == f"UNFIT: {primary['title']}."


@pytest.mark.parametrize("name", EVERY)
def test_resolve_says_the_same_in_text_and_json(recordings: dict[str, Path], name: str) -> None:
    code, resolution = told("resolve", "--snapshot", recordings[name])
    text = said("resolve", "--snapshot", recordings[name])
    assert text.returncode == code
    assert text.stdout.startswith(resolution["explanation"].splitlines()[0])
    for requirement in (resolution["wheel"] or {}).get("requirements", []):
        assert requirement in text.stdout


def test_a_word_more_lists_every_check_with_its_state(recordings: dict[str, Path]) -> None:
    _, report = told("doctor", "--snapshot", recordings["without-gpu"])
    text = said("doctor", "--snapshot", recordings["without-gpu"], "-v").stdout
    for run in report["checks"]:
        assert f"  {run['code']} {run['status']}" in text
        assert run["reason"] is None or run["reason"] in text
    brief = said("doctor", "--snapshot", recordings["without-gpu"]).stdout
    skipped = [run["code"] for run in report["checks"] if run["status"] == "skipped"]
    assert skipped
    assert f"{skipped[0]} skipped" not in brief


def test_a_word_more_lists_every_candidate_that_was_rejected(recordings: dict[str, Path]) -> None:
    _, resolution = told("resolve", "--snapshot", recordings["unfit"])
    text = said("resolve", "--snapshot", recordings["unfit"], "--verbose").stdout
    assert resolution["rejected"]
    for entry in resolution["rejected"]:
        assert f"{entry['candidate']['name']}" in text
        assert entry["source"] in text
    assert len(text.splitlines()) > len(resolution["rejected"])


# Explanations.

_EACH = """
import json, sys
from gpuenv.cli.main import run
for what in json.loads(sys.argv[1]):
    print(chr(0) + what)
    print(chr(1), run(["explain", what]))
"""


def explained(words: list[str]) -> dict[str, str]:
    """What the program says of each word, asked in one process; each must end in 0."""
    command = [sys.executable, "-c", _EACH, json.dumps(words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=MINIMAL, timeout=30)
    assert done.stderr == ""
    said = dict(part.split("\n", 1) for part in done.stdout.split("\0")[1:])
    assert [word for word, text in said.items() if not text.endswith("\1 0\n")] == []
    return {word: text.removesuffix("\1 0\n") for word, text in said.items()}


def test_every_check_is_explained(recordings: dict[str, Path]) -> None:
    _, report = told("doctor", "--snapshot", recordings["fit"])
    codes = [run["code"] for run in report["checks"]]
    assert len(codes) > 20
    for code, text in explained(codes).items():
        assert text.startswith(f"{code}: ")
        for section in ("What it means: ", "How it is seen: ", "What to do: "):
            assert text.count(section) == 1
            assert len(text.split(section)[1].split("\n")[0]) > 20


def test_every_cause_is_explained() -> None:
    for cause, text in explained([cause.value for cause in Cause]).items():
        assert text.startswith(f"{cause}: ")
        assert len(text) > len(cause) + 20


def test_a_code_is_understood_in_any_case_and_names_its_causes() -> None:
    said = explained(["DRV106", "drv106", "no-driver", "NO-DRIVER"])
    assert said["DRV106"] == said["drv106"]
    assert said["no-driver"] == said["NO-DRIVER"]
    assert "no-driver" in said["DRV106"]
    assert "DRV106" in said["no-driver"]


@pytest.mark.parametrize(("given", "near"), [("DRV99", "DRV1"), ("no-drivers", "no-driver"), ("xyzzy", "")])
def test_a_word_that_is_no_code_and_no_cause_is_usage(given: str, near: str) -> None:
    done = gpuenv("explain", given)
    assert (done.returncode, done.stdout) == (2, "")
    assert given in done.stderr
    assert ("did you mean" in done.stderr) == bool(near)
    assert near in done.stderr


# The network.

GUARD = """
import os, sys
def hook(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "urllib.Request"):
        with open(os.environ["TEST_NETWORK_LOG"], "a") as log:
            log.write(event + " " + repr(arguments[1:]) + "\\n")
sys.addaudithook(hook)
"""


def test_no_command_uses_the_network(tmp_path: Path, recordings: dict[str, Path]) -> None:
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
        ["doctor", "--snapshot", str(recordings["unfit"])],
        ["explain", "no-driver"],
        ["matrix", "check"],
    ):
        gpuenv(*arguments, environment=environment)
        assert not log.exists(), f"{arguments}: {log.read_text(encoding='utf-8')}"


def _closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# What is assumed, and what is recorded.


def test_a_snapshot_is_replayed_with_the_same_verdict_and_the_same_words(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    environment = {"GPUENV_DRIVER_ROOT": str(tmp_path / "root")}
    facts = tmp_path / "facts.json"
    assert gpuenv("probe", "-o", facts, environment=environment).returncode == 0
    once = gpuenv("doctor", "--snapshot", facts)
    again = gpuenv("doctor", "--snapshot", facts, environment={"CUDA_VISIBLE_DEVICES": "-1", "CUDA_PATH": "/else"})
    assert (once.returncode, once.stdout) == (again.returncode, again.stdout)


def test_an_assumption_replaces_one_fact_of_a_recording(recordings: dict[str, Path]) -> None:
    code, report = answer("doctor", "--snapshot", recordings["fit"], "--assume", "driver=470")
    assert (code, report["status"]) == (1, "unfit")
    assert report["snapshot"]["driver"]["version"]["source"] == "assumed"
    assert "driver.version" in report["snapshot"]["assumed"]
    assert report["snapshot"]["gpus"][0]["name"]["source"] == "nvml"


def test_a_second_reading_of_a_recording_changes_nothing(tmp_path: Path) -> None:
    first = record(changed(FIT, gpu_count=known(1, "nvml")), tmp_path / "first.json")
    second = tmp_path / "second.json"
    gpuenv("probe", "--snapshot", first, "--no-redact", "-o", second)
    assert json.loads(second.read_text(encoding="utf-8")) == json.loads(first.read_text(encoding="utf-8"))


# Which checks run.


def test_checks_are_listed() -> None:
    done = said("doctor", "--list")
    assert done.returncode == 0
    assert len(re.findall(r"^[A-Z]{3}\d{3}  \S", done.stdout, re.MULTILINE)) == len(all_checks())
    for cause in Cause:
        named = any(cause in check.causes for check in all_checks())
        assert (cause.value in done.stdout) >= named


def test_a_check_that_is_left_out_is_skipped_and_said_to_be(recordings: dict[str, Path]) -> None:
    _, whole = told("doctor", "--snapshot", recordings["unfit"])
    primary = next(finding["code"] for finding in whole["findings"] if finding["primary"])
    _, report = told("doctor", "--snapshot", recordings["unfit"], "--skip", primary.lower())
    assert primary not in {finding["code"] for finding in report["findings"]}
    (run,) = [run for run in report["checks"] if run["code"] == primary]
    assert (run["status"], run["reason"]) == ("skipped", "excluded by an option")


def test_only_some_checks_run_with_those_that_they_need(recordings: dict[str, Path]) -> None:
    _, report = told("doctor", "--snapshot", recordings["fit"], "--only", "DRV103")
    ran = {run["code"] for run in report["checks"] if run["reason"] != "excluded by an option"}
    assert ran == {"DRV100", "DRV101", "DRV103"}


@pytest.mark.parametrize("option", ["--only", "--skip"])
def test_an_unknown_check_is_named(option: str) -> None:
    done = gpuenv("doctor", "--no-probe", option, "DRV1O2")
    assert done.returncode == 2
    assert "DRV1O2" in done.stderr
    assert "did you mean DRV1" in done.stderr
