"""What build-image reads from its options, and what it makes of a builder's log."""

from __future__ import annotations

import json
import re

import pytest

from gpuenv.doctor.fixes.table import read_rows
from gpuenv.image.engine.errors import error_from_text
from tests.cli.program import gpuenv
from tests.image.matrix import GOLDEN

GIVEN = ("--no-probe", "--print", "--compute-capability", "9.0", "--python", "3.12")


@pytest.mark.parametrize(
    ("text", "line", "release"),
    [
        ("14.2.0", "cupy-cuda13x", "14.2.0"),
        ("cupy==14.2.0", "cupy-cuda13x", "14.2.0"),
        ("cupy-cuda12x[ctk]==14.2.0", "cupy-cuda12x", "14.2.0"),
        ("cupy-cuda12x == 14.1.1", "cupy-cuda12x", "14.1.1"),
        ("cupy-cuda12x", "cupy-cuda12x", "14.2.0"),
        ("CuPy-CUDA12x", "cupy-cuda12x", "14.2.0"),
    ],
)
def test_a_cupy_is_named_as_people_write_it(text: str, line: str, release: str) -> None:
    done = gpuenv("build-image", *GIVEN, "--cupy", text)
    assert f"# CuPy {release} ({line})" in done.stdout, done.stderr


@pytest.mark.parametrize("text", ["cupy>=14", "cupy-cuda12x==14.*,!=14.1", "cupy @ file:///x", "==14.2.0", "a b"])
def test_what_names_no_cupy_is_usage(text: str) -> None:
    done = gpuenv("build-image", *GIVEN, "--cupy", text)
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected a release, a line" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--cuda", "99"),
        ("--cupy", "cupy>=14"),
        ("--python", "py3"),
        ("--compute-capability", "new"),
        ("--base", "A:b"),
        ("--tag", "A:b"),
        ("--tag", "a@sha256:" + 64 * "0"),
        ("--arch", "sparc"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_option(option: str, text: str) -> None:
    done = gpuenv("build-image", "--no-probe", "--print", option, text)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"gpuenv: {option} {text}: "), done.stderr


def test_no_number_is_no_time() -> None:
    done = gpuenv("build-image", *GIVEN, "--build-timeout", "nan")
    assert done.returncode == 2
    assert "expected seconds" in done.stderr


def test_a_base_that_runs_as_somebody_else_is_built_on_as_root() -> None:
    done = gpuenv("build-image", *GIVEN, "--base", "quay.io/jupyter/base-notebook:python-3.12")
    first = done.stdout.partition("\nRUN ")[0].splitlines()
    assert "USER 0:0" in first
    assert "PIP_USER=0" in done.stdout
    assert json.dumps(done.stdout).count("USER 10001:10001") == 1


# What real engines printed for the same faulty Dockerfiles, the steps of BuildKit's own left out.
LOGS = [
    (*head.split(": ", 1), log)
    for head, log in (entry.split("\n", 1) for entry in (GOLDEN / "build_logs.txt").read_text().split("===== ")[1:])
]


@pytest.mark.parametrize(("engine", "message", "log"), LOGS, ids=[f"{entry[0]}: {entry[1]}" for entry in LOGS])
def test_the_failure_of_a_build_is_named_whichever_engine_reports_it(engine: str, message: str, log: str) -> None:
    error = error_from_text(log, "the build failed")
    assert error.message.splitlines()[0] == f"the build failed: {message}", engine
    assert log.splitlines()[-1].strip() in error.message


def test_every_wording_for_a_failed_step_is_in_a_log_of_a_real_engine() -> None:
    logs = "\n".join(log for _, _, log in LOGS)
    patterns = [row[1] for row in read_rows("build_failures.csv")[1:] if row[0] == "failed step"]
    assert [text for text in patterns if not re.search(text, logs)] == [], "add the engine's log to build_logs.txt"


def test_what_fits_no_row_begins_with_the_last_line() -> None:
    log = "Step 1/2 : FROM b\n---> 5f2e\nStep 2/2 : COPY c /\nCOPY failed: file not found in build context: stat c"
    assert error_from_text(log, "the build failed").message.startswith("the build failed: COPY failed: ")


def test_a_command_that_said_nothing_is_given_no_words() -> None:
    log = "#7 [build 3/3] RUN false\n#7 ERROR: process did not complete successfully: exit code: 1"
    assert error_from_text(log, "the build failed").message.startswith("the build failed: #7")
