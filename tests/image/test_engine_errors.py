"""The errors that a container engine's exceptions and output become."""

from __future__ import annotations

import re

import pytest

from gpuenv.doctor.fixes.table import read_rows
from gpuenv.image.engine.errors import engine_error, error_from_text
from tests.image.matrix import GOLDEN

# The output of real engines for the same faulty Dockerfiles, without BuildKit's own steps.
LOGS = [
    (*head.split(": ", 1), log)
    for head, log in (entry.split("\n", 1) for entry in (GOLDEN / "build_logs.txt").read_text().split("===== ")[1:])
]


@pytest.mark.parametrize(("engine", "message", "log"), LOGS, ids=[f"{entry[0]}: {entry[1]}" for entry in LOGS])
def test_the_cause_of_a_failed_build_is_the_same_for_every_engine(engine: str, message: str, log: str) -> None:
    error = error_from_text(log, "the build failed")
    assert error.message.splitlines()[0] == f"the build failed: {message}", engine
    assert log.splitlines()[-1].strip() in error.message


def test_every_pattern_of_a_failed_step_matches_a_log_of_a_real_engine() -> None:
    logs = "\n".join(log for _, _, log in LOGS)
    patterns = [row[1] for row in read_rows("build_failures.csv")[1:] if row[0] == "failed step"]
    assert [text for text in patterns if not re.search(text, logs)] == [], "add the engine's log to build_logs.txt"


def test_an_unknown_error_begins_with_the_last_line() -> None:
    log = "Step 1/2 : FROM b\n---> 5f2e\nStep 2/2 : COPY c /\nCOPY failed: file not found in build context: stat c"
    assert error_from_text(log, "the build failed").message.startswith("the build failed: COPY failed: ")


def test_a_failed_command_without_output_is_reported_with_the_log() -> None:
    log = "#7 [build 3/3] RUN false\n#7 ERROR: process did not complete successfully: exit code: 1"
    assert error_from_text(log, "the build failed").message.startswith("the build failed: #7")


def test_an_exception_is_reported_by_its_cause() -> None:
    error = ConnectionError("('Connection aborted.', ...)")
    error.__cause__ = PermissionError(13, "Permission denied")
    assert "may not use" in engine_error(error, "x").message
    wrapped = RuntimeError("Error while fetching server API version", FileNotFoundError(2, "No such file"))
    assert "no engine" in engine_error(wrapped, "x").message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dd: writing '/x': No space left on device\nreturned a non-zero code: 1", "the disk is full"),
        ("('Connection broken: IncompleteRead(0 bytes read)', IncompleteRead(0 bytes read))", "ended in the middle"),
        ("Connection broken: IncompleteRead(1 bytes read)\nThe command 'pip' returned a non-zero code: 2", "network"),
        ("manifest for 127.0.0.1:5055/a@sha256:00 not found: manifest unknown", "does not exist"),
        ('Get "https://x/v2/": dial tcp: lookup x on 10.0.2.3:53: no such host', "network"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "locked"),
        ("SSL: CERTIFICATE_VERIFY_FAILED\nNo matching distribution found", "not trusted"),
        ("dockerfile parse error line 2: unknown instruction: RUNN", "cannot read"),
        (
            'Get "https://x/v2/": tls: failed to verify certificate: x509: certificate signed by unknown authority',
            "trust",
        ),
        ("/bin/sh: 1: python3: not found\nThe command '/bin/sh -c python3' returned a non-zero code: 127", "lacks"),
        ("#9 0.1 /bin/sh: 1: apt-get: not found\ndid not complete successfully: exit code: 127", "lacks"),
        ("bash: line 1: python3: command not found\nreturned a non-zero code: 127", "lacks"),
        ("created successfully because ensurepip is not\navailable.\nreturned a non-zero code: 1", "lacks"),
        ("WARNING: 401 Error, Credentials not correct for x\nreturned a non-zero code: 1", "index asks for a login"),
        ("pull access denied for x, repository does not exist", "registry asks for a login"),
        ("E: Package x: not found\nreturned a non-zero code: 100", "E: Package"),
    ],
)
def test_the_cause_is_found_in_the_output(text: str, message: str) -> None:
    assert message in error_from_text(text, "building").message.splitlines()[0]


def test_a_secret_in_the_output_is_hidden() -> None:
    assert (
        "hunter2"
        not in error_from_text("fetching https://user:hunter2@index.invalid/simple failed", "building").message
    )


@pytest.mark.parametrize("behind", range(1400, 1500, 7))
def test_a_secret_is_hidden_wherever_the_output_is_cut(behind: int) -> None:
    """The end of a long output may begin in the middle of an address."""
    output = f"https://user:{'hunter2' * 9}@index.invalid/simple {'x' * behind}"
    assert "hunter2" not in error_from_text(output, "building").message
