"""Redaction of log lines: identities are hidden, facts of the machine stay."""

from __future__ import annotations

import time

import pytest

from gpuenv.report.redact import Identity, redact, redact_lines

NO_IDENTITY = Identity("", "", ())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (r"C:\Users\Jane Doe\AppData\cupy", r"C:\Users/(redacted)\AppData\cupy"),
        ("/mnt/c/Users/Jane Doe/cupy", "/mnt/c/Users/(redacted)/cupy"),
        ("/home/jane see docs/cupy", "/home/(redacted) see docs/cupy"),
    ],
)
def test_a_user_name_on_windows_may_contain_spaces(line: str, expected: str) -> None:
    assert redact_lines([line], NO_IDENTITY) == [expected]


@pytest.mark.parametrize("name", ["nvidia", "cupy", "docker", "localhost", "Ubuntu"])
def test_a_user_or_a_host_named_like_software_changes_no_path(name: str) -> None:
    lines = [f"/usr/lib/python3/site-packages/{name}/lib/libcublas.so.12", f"container: {name}"]
    assert redact_lines(lines, Identity(f"/home/{name}", name, (name,))) == lines
    assert redact_lines([f"/home/{name}/x"], Identity(f"/home/{name}", name, (name,))) == ["~/x"]


@pytest.mark.parametrize("hosts", [("node17", "node17.lab.example"), ("node17.lab.example",)])
def test_a_host_is_hidden_with_and_without_its_domain(hosts: tuple[str, ...]) -> None:
    lines = ["/net/node17.lab.example/x on node17: node170", "http://node17.lab.example:8080/x"]
    assert redact_lines(lines, Identity("", "", hosts)) == [
        "/net/(redacted)/x on (redacted): node170",
        "http://(redacted):8080/x",
    ]


@pytest.mark.parametrize(
    "unit", ["password", "token_", "a.b-", "api_key ", "Bearer ", "/home/a ", "C:\\Users\\a b ", "a@"]
)
def test_a_long_line_is_redacted_quickly(unit: str) -> None:
    started = time.process_time()
    redact_lines([(unit * 100_000)[:100_000]], Identity("/home/alice", "alice", ("node17",)))
    assert time.process_time() - started < 2


def test_references_to_build_and_pull_lose_only_their_secrets() -> None:
    reference = "10.1.2.3:5000/own/image:1"
    image = {
        "tag": reference,
        "dockerfile": f"FROM {reference}\nWORKDIR /home/cupy\n",
        "labels": {"base.name": reference},
    }
    redacted = {**image, "labels": {"base.name": "(redacted):5000/own/image:1"}}
    assert redact({**image, "notes": [reference]}, NO_IDENTITY) == {
        **redacted,
        "notes": ["(redacted):5000/own/image:1"],
    }
    dockerfile = redact({"dockerfile": "RUN fetch https://alice:geheim@example.org/x"}, NO_IDENTITY)["dockerfile"]
    assert "geheim" not in dockerfile
    assert "example.org/x" in dockerfile


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["tool", "--token", "hunter2-Zq7", "-v"], ["tool", "--token", "(redacted)", "-v"]),
        (
            ["curl", "-u", "bob:hunter2", "https://host.example"],
            ["curl", "-u", "bob:(redacted)", "https://host.example"],
        ),
        (["pip", "install", "cupy-cuda12x[ctk]==13.6.0"], ["pip", "install", "cupy-cuda12x[ctk]==13.6.0"]),
        (["sh", "-c", "echo a; pip install cupy"], ["sh", "-c", "echo a; pip install cupy"]),
    ],
)
def test_the_words_of_a_command_are_redacted_like_its_line(command: list[str], expected: list[str]) -> None:
    assert redact({"fix": [{"command": command}]}, NO_IDENTITY, runnable=True) == {"fix": [{"command": expected}]}


@pytest.mark.parametrize("name", ["command", "shell_line", "argv", "undo"])
def test_a_command_to_run_loses_only_its_secrets(name: str) -> None:
    home = "/srv/people/jorinde"
    identity = Identity(home, "jorinde", ("hexe",))
    command = [f"{home}/env/bin/python", "https://me:p4ssw0rd@index.example/simple"]
    data = {"text": f"Use {home}/env.", name: command}
    hidden = {"text": "Use ~/env.", name: ["~/env/bin/python", "https://(redacted)@index.example/simple"]}
    assert redact(data, identity) == hidden
    assert redact(data, identity, runnable=True) == {**hidden, name: [command[0], hidden[name][1]]}
