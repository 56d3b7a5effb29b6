"""The files of messages: each entry is found by its own example, and an invalid one names file and entry."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuenv.doctor.checks import all_checks
from gpuenv.explain import messages
from gpuenv.explain.explainer import explanation
from gpuenv.explain.match import scan
from gpuenv.explain.messages import MESSAGES, Message, MessageError, all_messages, compile_messages
from gpuenv.model.causes import Cause

VALID: dict[str, Any] = {
    "id": "cuda.example",
    "text": "an example failed",
    "causes": {"no-driver": 0.9},
    "source": "a library",
    "example": "an example failed",
}


def test_the_compiled_file_equals_the_files_people_edit() -> None:
    compiled = json.loads(compile_messages())["messages"]
    entries = [
        {**entry, "program": file.stem}
        for file in sorted(MESSAGES.glob("*.yaml"))
        for entry in yaml.safe_load(file.read_text(encoding="utf-8"))
    ]
    assert compiled == entries
    assert [message.id for message in all_messages()] == [entry["id"] for entry in entries]


def test_ids_are_unique_and_made_of_words() -> None:
    ids = [message.id for message in all_messages()]
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    assert [name for name in ids if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*\.[a-z0-9]+(?:-[a-z0-9]+)*", name)] == []


@pytest.mark.parametrize("message", all_messages(), ids=lambda message: message.id)
def test_the_example_of_a_message_is_found_and_one_of_its_causes_comes_first(message: Message) -> None:
    scanner = scan(message.example.encode())
    assert message.id in {hit.message.id for hit in scanner.hits}
    causes = {cause for weights in (message.causes, *(rule.causes for rule in message.by)) for cause in weights}
    (first, *_) = explanation(scanner).causes
    assert first.cause in causes


def test_every_message_has_a_source() -> None:
    assert [message.id for message in all_messages() if len(message.source) < 5] == []


def test_a_value_that_decides_is_one_that_the_pattern_captures() -> None:
    wrong = [
        (message.id, rule.group)
        for message in all_messages()
        for rule in message.by
        if rule.group not in {"any", *re.compile(message.pattern or "").groupindex}
    ]
    assert wrong == []


def test_a_message_replaces_existing_ones() -> None:
    replaced = {name for message in all_messages() for name in message.replaces}
    assert replaced <= {message.id for message in all_messages()}


def test_a_title_fills_in_only_what_the_pattern_captures() -> None:
    wrong = [
        (message.id, name)
        for message in all_messages()
        for text in (message.title, message.decided_by)
        for name in re.findall(r"\{(\w+)\}", text or "")
        if name not in re.compile(message.pattern or "").groupindex
    ]
    assert wrong == []


def test_no_pattern_has_a_formatted_repetition_bound() -> None:
    """In an f-string ``{0,60}`` becomes ``(0, 60)``, which no text has."""
    bound = re.compile(r"(?<!\\)\(\d+, \d+\)")
    assert [one.id for one in all_messages() if bound.search(f"{one.pattern} {one.unless}")] == []


def test_every_code_is_one_of_a_check() -> None:
    codes = {check.code for check in all_checks()}
    assert [one.id for one in all_messages() if one.code is not None and one.code not in codes] == []


def test_every_cause_but_those_of_no_text_has_a_message() -> None:
    named = {
        c for one in all_messages() for weights in (one.causes, *(rule.causes for rule in one.by)) for c in weights
    }
    assert {Cause.OUT_OF_MEMORY, Cause.NO_DRIVER} <= named
    assert len(named) >= len(Cause) - 5


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"source": None}, "source is missing"),
        ({"example": None}, "example is missing"),
        ({"causes": None}, "causes is missing"),
        ({"weight": 1}, "weight is unknown"),
        ({"late": "yes"}, "late: expected"),
        ({"causes": ["no-driver"]}, "causes: expected"),
        ({"causes": {"no-such-cause": 0.9}}, "no-such-cause"),
        ({"causes": {"no-driver": 1.5}}, "weights"),
        ({"causes": {"no-driver": 0}}, "weights"),
        ({"causes": {"no-driver": 0.9, "no-nvidia-gpu": 0.2}}, "weights"),
        ({"text": None}, "either text, or pattern"),
        ({"pattern": "failed", "literals": ["failed"]}, "either text, or pattern"),
        ({"text": None, "pattern": "failed"}, "literals"),
        ({"literals": ["failed"]}, "literals"),
        ({"text": None, "pattern": "(failed", "literals": ["failed"]}, "missing )"),
        ({"text": None, "pattern": "failed", "literals": ["Failed"]}, "lower case"),
        ({"text": None, "pattern": "failed", "literals": ["fa"]}, "3 characters"),
        ({"unless": "[a"}, "unterminated"),
        ({"by": [{"number": "(", "causes": {"no-driver": 0.9}}]}, "missing )"),
        ({"by": [{"number": "1", "causes": {"no-such-cause": 0.9}}]}, "no-such-cause"),
        ({"by": [{"number": "1", "causes": {"no-driver": 2}}]}, "weights"),
        ({"by": [{"number": "1"}]}, "causes"),
        ({"fix": "restart"}, "fix: expected"),
        ({"fix": [{"command": "sudo reboot"}]}, "found command"),
        ({"fix": [{"text": "Restart.", "shell": "reboot"}]}, "found text, shell"),
        ({"fix": [{"text": "Restart.", "command": "sudo reboot", "shell_line": "reboot"}]}, "text with a command or"),
    ],
)
def test_an_invalid_entry_is_named_with_its_file(
    changed: dict[str, Any], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {key: value for key, value in {**VALID, **changed}.items() if value is not None}
    with pytest.raises(MessageError) as caught:
        compiled_alone([entry], tmp_path, monkeypatch)
    assert str(caught.value).startswith("cuda.yaml: cuda.example: ")
    assert problem in str(caught.value)


def test_an_entry_without_an_id_and_an_id_used_twice_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nameless = {key: value for key, value in VALID.items() if key != "id"}
    with pytest.raises(MessageError, match=r"cuda\.yaml: an entry without an id: id is missing"):
        compiled_alone([nameless], tmp_path, monkeypatch)
    with pytest.raises(MessageError, match=r"cuda\.yaml: cuda\.example: the id is used twice"):
        compiled_alone([VALID, dict(VALID)], tmp_path, monkeypatch)


def test_a_valid_entry_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(compiled_alone([VALID], tmp_path, monkeypatch))["messages"] == [{**VALID, "program": "cuda"}]


def compiled_alone(entries: list[dict[str, Any]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The JSON of a folder with one file of these entries."""
    (folder / "cuda.yaml").write_text(json.dumps(entries), encoding="utf-8")  # JSON is YAML
    monkeypatch.setattr(messages, "MESSAGES", folder)
    return compile_messages()
