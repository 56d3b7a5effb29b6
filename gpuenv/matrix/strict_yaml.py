"""YAML without its surprises: every scalar is the text that was written, a key stands once, and nothing is shared.

``safe_load`` turns 12.10 into 12.1 and ``no`` into False, and lets a second key overwrite the first.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import yaml

from gpuenv.model.record import dataclass

_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq")
)
_NOTHING = ("", "null", "~")  # unquoted; the C parser gives a plain scalar the style '', the other one None
_DEEPEST = 50
LARGEST = 8 * 1024 * 1024  # characters

Plain: TypeAlias = "str | list[Plain] | dict[str, Plain] | None"


class YamlError(ValueError):
    """A file that is no strict YAML; the message has the line."""


@dataclass(frozen=True, slots=True)
class Document:
    """The plain values of a file, and the line on which each path begins (``wheel_lines[1].releases[0]``)."""

    value: Plain
    lines: dict[str, int]


def parse(text: str) -> Document:
    """Reads one document.

    Raises:
        YamlError: for broken YAML, a repeated key, an alias, a tag, a key that is no text, 8 MiB or 50 levels.
    """
    if len(text) > LARGEST:
        raise YamlError(f"{len(text)} characters are more than the {LARGEST} that a matrix may have")
    if _is_deep(text):
        raise YamlError(f"nested more than {_DEEPEST} levels deep")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(text, loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise YamlError(f"{where}{getattr(error, 'problem', None) or error}") from error
    except RecursionError as error:
        raise YamlError("nested too deeply") from error
    if root is None:
        return Document(None, {})
    lines: dict[str, int] = {}
    return Document(_plain(root, "", lines, set()), lines)


def _is_deep(text: str) -> bool:
    """Whether the text could nest deeper than the parser's stack bears: looked at before it is parsed."""
    if re.search(rf"^(?: {{{2 * _DEEPEST},}}|(?: *[-?:] ){{{_DEEPEST},}})", text, re.MULTILINE):
        return True
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth += 1 if bracket in "[{" else -1
        if depth > _DEEPEST:
            return True
    return False


def _plain(node: yaml.Node, path: str, lines: dict[str, int], seen: set[int]) -> Plain:
    line = node.start_mark.line + 1
    lines[path.lstrip(".")] = line
    if not isinstance(node, yaml.ScalarNode):
        if id(node) in seen:
            raise YamlError(f"line {line}: an alias; write the values out")
        seen.add(id(node))
    if node.tag and node.tag not in _TAGS:
        raise YamlError(f"line {line}: the tag {node.tag}; expected plain values")
    if isinstance(node, yaml.ScalarNode):
        return None if not node.style and node.value in _NOTHING else str(node.value)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, f"{path}[{number}]", lines, seen) for number, item in enumerate(node.value)]
    return _mapping(node, path, lines, seen)


def _mapping(node: yaml.Node, path: str, lines: dict[str, int], seen: set[int]) -> Plain:
    found: dict[str, Plain] = {}
    for key, value in node.value:
        at = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise YamlError(f"line {at}: a key that is no text")
        if key.value in found:
            raise YamlError(f"line {at}: the key {key.value} stands here a second time")
        found[key.value] = _plain(value, f"{path}.{key.value}", lines, seen)
    return found
