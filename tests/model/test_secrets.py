"""Secrets are hidden in a line of text; other text is unchanged."""

from __future__ import annotations

import time

import pytest
from detect_secrets.core.scan import scan_line
from detect_secrets.settings import default_settings

from gpuenv.model.redaction import cut_text, hide_in_lines, hide_secrets, hide_value
from gpuenv.model.secret_values import is_secret_name
from tests.support.planted_secrets import HARMLESS, IN_LINES_AFTER, PLANTED, PRIVATE_KEY, WORD, Planted, shown_parts

# Detectors of entropy name every digest; those of public addresses name no secret.
NO_ORACLE = ("High Entropy", "Public IP")


def test_the_table_has_all_kinds_of_forms() -> None:
    assert len(PLANTED) >= 60
    assert len({planted.form for planted in PLANTED}) == len(PLANTED)
    assert len(HARMLESS) >= 40


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.form)
def test_a_secret_is_hidden_in_every_form(planted: Planted) -> None:
    hidden = hide_secrets(planted.line)
    assert shown_parts(planted, hidden) == []
    assert hide_secrets(hidden) == hidden


def test_the_host_after_a_user_named_token_is_shown() -> None:
    assert hide_secrets(f"index https://__token__:{WORD}@gitlab.example/api/v4/simple") == (
        "index https://(redacted)@gitlab.example/api/v4/simple"
    )


@pytest.mark.parametrize("user", ["__token__", "me"])
@pytest.mark.parametrize(
    "host", ["${REGISTRY}/simple", "$REGISTRY/simple", "%(host)s/simple", "<host>/simple", "' + host"]
)
def test_a_password_before_a_host_in_a_variable_is_hidden(user: str, host: str) -> None:
    assert hide_secrets(f"index https://{user}:{WORD}@{host}") == f"index https://(redacted)@{host}"


@pytest.mark.parametrize(
    "url",
    [
        "$SCHEME://token:{}@a.example",
        "${{S}}://token:{}@a.example",
        "https://token:a'{}@a.example",
        "://token:{}@a.example",
    ],
)
def test_a_password_in_what_is_no_whole_url_is_hidden(url: str) -> None:
    assert WORD not in hide_secrets(url.format(WORD))


@pytest.mark.parametrize("line", HARMLESS)
def test_text_without_a_secret_is_unchanged(line: str) -> None:
    assert hide_secrets(line) == line


def test_what_another_detector_finds_is_hidden() -> None:
    """detect-secrets, with all of its detectors by name and by form."""
    found: dict[str, str] = {}
    with default_settings():
        for planted in PLANTED:
            for secret in scan_line(planted.line):
                if not any(kind in secret.type for kind in NO_ORACLE):
                    found[str(secret.secret_value)] = planted.line
    assert len(set(found.values())) >= 15
    assert {line: secret for secret, line in found.items() if secret in hide_secrets(line)} == {}


@pytest.mark.parametrize("text", IN_LINES_AFTER)
def test_a_secret_is_hidden_in_a_line_after_its_name(text: str) -> None:
    hidden = hide_secrets(text)
    assert WORD not in hidden
    assert len(hidden.split("\n")) == len(text.split("\n"))


def test_a_message_after_the_name_of_a_secret_is_shown() -> None:
    lines = ["Enter password:", "CUDA driver version is insufficient", "password:", "  rules: strict", "token:", "done"]
    assert hide_in_lines(lines) == lines


def test_a_private_key_is_hidden_line_by_line() -> None:
    lines = ["ImportError: libcuda.so.1", *PRIVATE_KEY.splitlines(), "ImportError: libcuda.so.1 again"]
    for prefix in ("", "  - line 7: ", "2026-11-24T02:11:19Z trainer | "):
        hidden = hide_in_lines(f"{prefix}{line}" for line in lines)
        assert hidden[0] == prefix + lines[0]
        assert hidden[-1] == prefix + lines[-1]
        assert not any(line in part for line in PRIVATE_KEY.splitlines()[1:-1] for part in hidden)


def test_a_private_key_without_an_end_hides_no_message_after_it() -> None:
    lines = [*PRIVATE_KEY.splitlines()[:3], "CUDA driver version is insufficient for CUDA runtime version"]
    assert hide_in_lines(lines)[-1] == lines[-1]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.form)
def test_a_text_is_never_cut_within_a_secret(planted: Planted) -> None:
    """The rest of a secret would have lost its form or its end."""
    for most in range(8, len(planted.line)):
        assert shown_parts(planted, hide_secrets(cut_text(planted.line, most))) == [], most


def test_a_text_without_a_secret_is_cut_at_its_length() -> None:
    assert cut_text("ab " * 100, 30) == f"{('ab ' * 100)[:26]} ..."
    assert cut_text("short", 30) == "short"


@pytest.mark.parametrize(
    ("name", "value", "is_hidden"),
    [
        ("DB_PASS", "hunter2-Zq7", True),
        ("GH_PAT", "hunter2-Zq7", True),
        ("CUDA_SECRET", "hunter2-Zq7", True),
        ("SESSION", "hunter2-Zq7", True),
        ("clientSecret", "hunter2-Zq7", True),
        ("PWD", "/home/alice", False),
        ("SSH_AUTH_SOCK", "/run/user/1/agent", False),
        ("CUPY_CACHE_KEY", "abc123def", False),
        ("name", "hunter2-Zq7", False),
    ],
)
def test_the_value_of_a_variable_is_hidden_by_its_name(name: str, value: str, is_hidden: bool) -> None:  # noqa: FBT001
    assert (hide_value(name, value) != value) == is_hidden


@pytest.mark.parametrize(
    "name",
    [
        "DB_PASS",
        "GH_PAT",
        "MYSQL_PWD",
        "API_KEY_2",
        "dbPassword",
        "X-Api-Key",
        "PGPASSWORD",
        "AWS_SESSION_TOKEN",
        "MY_CRED",
    ]
    + ["NPM_AUTH", "SAS", "AZURE_SIG", "SSH_AUTH_SOCK", "client.secret", "PIP_PASSPHRASE", "Cookie"],
)
def test_a_name_with_a_part_of_a_secret_is_one(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["PATH", "PWD", "OLDPWD", "KEYBOARD", "AUTHOR", "MONKEY", "COMPASS", "TOKENIZERS", "SIGNAL", "PATTERN", "PASSES"],
)
def test_a_name_that_only_contains_such_letters_is_none(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.long
@pytest.mark.parametrize(
    "unit",
    [
        "a=",
        "password",
        "x://",
        "a://b@c ",
        "token='",
        '\\"token\\":\\"',
        "KEY: ",
        "key=[",
        "?a=b&",
        "-----BEGIN PRIVATE KEY-----",
    ]
    + ["eyJaaaaaaaaaaaaaaaaaaaa.", " -u a:", "login ", "name: KEY\n", "x@", "aA1", "A", "[", "(", "pass: ", "SG.a"]
    + [
        " ",
        "=",
        "-p ",
        "login ",
        "x login -p ",
        "curl -b ",
        "mysql ",
        "echo a|",
        "aB3",
        "{",
        "//a:b@",
        "\\\n",
        "key:\n",
    ],
)
def test_a_hostile_text_is_redacted_quickly(unit: str) -> None:
    started = time.process_time()
    hide_secrets((unit * 200_000)[:200_000])
    assert time.process_time() - started < 3
