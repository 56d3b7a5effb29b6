"""Secrets are hidden in a line of text; other text is unchanged."""

from __future__ import annotations

import pytest

from gpuenv.model.redaction import hide_secrets


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
def test_a_secret_is_hidden_in_every_notation(line: str, hidden: str) -> None:
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
def test_text_without_a_secret_is_unchanged(line: str) -> None:
    assert hide_secrets(line) == line
