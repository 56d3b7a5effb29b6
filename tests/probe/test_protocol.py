"""Parsing the probe scripts' output, also if it is truncated or mixed with other output."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuenv.model.redaction import hide_secrets
from gpuenv.probe.context import script, target_command
from gpuenv.probe.protocol import first_lines, last_line, nested, numbered, parse_facts
from tests.probe.pythons import python
from tests.probe.targets import libraries_request
from tests.support.planted_secrets import LONG_URL, shown_parts

if TYPE_CHECKING:
    from pathlib import Path

MARK = "gpuenv:"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
# Output of a library or a sitecustomize, without the mark.
NOISE = st.lists(st.text(max_size=30), max_size=4).map("\n".join).filter(lambda text: MARK not in text)


def output_of(facts: dict[str, Any]) -> str:
    return "".join(f"{MARK}{json.dumps({key: value})}\n" for key, value in facts.items())


@given(st.dictionaries(st.text(), JSON, max_size=5), NOISE, NOISE)
@settings(deadline=None)
def test_facts_are_read_from_mixed_output(facts: dict[str, Any], before: str, after: str) -> None:
    output = "".join(f"{before}\n{line}\n{after}\n" for line in output_of(facts).splitlines())
    assert parse_facts(output) == facts


def test_the_mark_may_follow_other_text_on_its_line() -> None:
    assert parse_facts('Loading site hooks... gpuenv:{"python": "3.12.4"}\n') == {"python": "3.12.4"}


def test_what_a_child_printed_is_not_cut_within_a_secret() -> None:
    error = f"OSError: cannot open {LONG_URL.line}"
    for shown in (last_line(f"Traceback\n{error}\n"), first_lines("", f"{error}\nmore")):
        assert shown.startswith("OSError: cannot open")
        assert shown_parts(LONG_URL, hide_secrets(shown)) == []


def test_the_later_of_two_values_counts() -> None:
    assert parse_facts(output_of({"count": 1}) + output_of({"count": 2})) == {"count": 2}


@pytest.mark.parametrize(
    "broken",
    [
        'gpuenv:{"cut": "sho',
        'gpuenv:{"trailing": 1} and more',
        "gpuenv:",
        "gpuenv:[1, 2]",
        'gpuenv:"text"',
        "gpuenv:NaN",
        'gpuenv {"other": "mark"}',
        'GPUENV:{"other": "mark"}',
        "gpuenv:\x00\x01",
        pytest.param(MARK + "[" * 100_000, id="nested"),
        pytest.param(MARK + '{"digits": ' + "9" * 5000 + "}", id="digits"),
    ],
)
def test_invalid_lines_are_dropped(broken: str) -> None:
    assert parse_facts(f'gpuenv:{{"first": 1}}\n{broken}\ngpuenv:{{"last": 2}}\n') == {"first": 1, "last": 2}


def test_truncated_output_loses_only_its_last_line() -> None:
    output = output_of({"init": 0, "library": "/usr/lib/libnvidia-ml.so.1", "count": 8})
    for length in range(len(output)):
        facts = parse_facts(output[:length])
        assert list(facts) == ["init", "library", "count"][: len(facts)]
        assert len(facts) in (output[:length].count("\n"), output[:length].count("\n") + 1)


def test_numbered_facts_keep_their_printed_order() -> None:
    facts = parse_facts("".join(output_of({f"gpu.{number}": {"index": number}}) for number in (0, 2, 10, 1)))
    assert numbered(facts, "gpu") == [{"index": number} for number in (0, 2, 10, 1)]


def test_nested_facts_are_grouped_by_number_and_name() -> None:
    facts = {
        "gpu.0.index": 0,
        "gpu.1.index": 1,
        "gpu.0.failures.nvmlX": 3,
        "gpu.0.failures.nvmlY": 4,
        "gpu.1.uuid": "u",
    }
    first = {"index": 0, "failures": {"nvmlX": 3, "nvmlY": 4}}
    assert nested(facts, "gpu") == [first, {"index": 1, "uuid": "u"}]


@pytest.mark.parametrize("key", ["gpu", "gpu.0", "gpu.x.index", "gpu..index", "gpus.0.index", "gpu.0.", ""])
def test_other_keys_are_not_nested_facts(key: str) -> None:
    assert nested({key: 1, "gpu.0.name": "text", "gpu.0.name.key": 1}, "gpu") == [{"name": "text"}]


def test_numbered_facts_of_another_name_are_ignored() -> None:
    facts = {"gpu.0": "this", "gpus.0": "not this", "gpu": "nor this", "mygpu.0": "nor this"}
    assert numbered(facts, "gpu") == ["this"]


def test_a_script_prints_each_fact_before_it_reads_the_next() -> None:
    """The first facts can be read while the child still runs."""
    command = [sys.executable, "-B", script("start.py"), "kernel", "/"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        rest = child.stdout.read()
    assert list(parse_facts(first)) == ["uname"]
    assert parse_facts(rest)["done"] is True
    assert child.returncode == 0


HOOK = "import sys\nsys.stdout.write('gpuenv: at work on ')\nsys.stdout.flush()\n"  # such as a module system's hook
ARGUMENTS = {
    "interpreter": ((), "python"),
    "libraries": ((libraries_request("loader", []),), "trying"),
    "scheme": ((), "executable"),
    "module_import": (("json",), "started"),
}


@pytest.mark.parametrize("version", ["2.7", "3.6", ".".join(map(str, sys.version_info[:2]))])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_first_fact_starts_a_new_line(tmp_path: Path, name: str, version: str) -> None:
    """Even after output that contains the mark and no newline."""
    arguments, first = ARGUMENTS[name]
    (tmp_path / "sitecustomize.py").write_text(HOOK, encoding="utf-8")
    command = target_command(str(python(version)), name, *arguments)
    result = subprocess.run(
        command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False, timeout=30
    )
    assert result.stdout.startswith(f'gpuenv: at work on \n{MARK}{{"{first}": '), result.stdout + result.stderr
    assert first in parse_facts(result.stdout)
