"""What lines of logs give away is hidden, and what they tell of a machine stays."""

from __future__ import annotations

import time

import pytest

from gpuenv.report.redact import Identity, hide_secrets, redact_lines

NOBODY = Identity("", "", "")


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ("password=hunter2hunter2", "hunter2"),
        ("aws_secret_access_key = abcdef/ghijkl", "abcdef/ghijkl"),
        ("db.password: 'x9-hunter2'", "hunter2"),
        ('{"access_token": "abcdef123456"}', "abcdef123456"),
        ("tool login --token abcdef123456 --verbose", "abcdef123456"),
        ("X-Api-Key: 1234567890abc", "1234567890abc"),
        ("curl -H 'Authorization: Bearer abcdef0123456789'", "abcdef0123456789"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    ],
)
def test_a_secret_is_hidden_however_its_name_is_written(line: str, hidden: str) -> None:
    assert hidden not in hide_secrets(line)
    assert hide_secrets(hide_secrets(line)) == hide_secrets(line)


@pytest.mark.parametrize(
    "line",
    [
        "max_tokens=512 tokens/s: 1000.25",
        "tokenizer: gpt2-medium",
        "FATAL: password authentication failed for user",
        "KeyError: 'device'",
        "Driver Version: 550.54.14   CUDA Version: 12.4",
        "error: unexpected token ';'",
        "bearer of bad news",
    ],
)
def test_what_is_no_secret_stays(line: str) -> None:
    assert hide_secrets(line) == line


@pytest.mark.parametrize(
    ("line", "left"),
    [
        (r"C:\Users\Jane Doe\AppData\cupy", r"C:\Users/(redacted)\AppData\cupy"),
        ("/mnt/c/Users/Jane Doe/cupy", "/mnt/c/Users/(redacted)/cupy"),
        ("/home/jane see docs/cupy", "/home/(redacted) see docs/cupy"),
    ],
)
def test_a_name_of_windows_may_have_blanks(line: str, left: str) -> None:
    assert redact_lines([line], NOBODY) == [left]


@pytest.mark.parametrize(
    "unit", ["password", "token_", "a.b-", "api_key ", "Bearer ", "/home/a ", "C:\\Users\\a b ", "a@"]
)
def test_a_long_line_is_soon_read(unit: str) -> None:
    begun = time.process_time()
    redact_lines([(unit * 100_000)[:100_000]], Identity("/home/somebody", "somebody", "node17"))
    assert time.process_time() - begun < 2
