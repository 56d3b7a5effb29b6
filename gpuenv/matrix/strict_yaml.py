"""Strict YAML: keys are unique, nothing is shared, and no text is taken for something else.

``safe_load`` turns 12.10 into 12.1 and ``no`` into False, and lets a second key overwrite the first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

_YAML = "tag:yaml.org,2002:"
_BOOLEANS = {"true": True, "false": False}
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_TAGS = frozenset(
    f"{_YAML}{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq")
)
_NOTHING = ("", "null", "~")  # unquoted; the C parser gives a plain scalar the style '', the other one None
_MAX_DEPTH = 50
_TOO_DEEP = f"nested more than {_MAX_DEPTH} levels deep"
_DEPTH_OF_PARSER = "maximum nesting depth"  # in the message of LibYAML 0.2.6 and newer, whose own limit is 1000
MAX_CHARACTERS = 8 * 1024 * 1024
_MAX_PROBLEMS = 50  # in a message
_MAX_VALUES = 20_000  # with aliases expanded
_MAX_PATH = 1000  # characters: each value of a shared document keeps its own path

Plain: TypeAlias = "str | list[Plain] | dict[str, Plain] | None"


class YamlError(ValueError):
    """A file that is not strict YAML; each of ``problems`` has its line."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(frozen=True, slots=True)
class Document:
    """The plain values of a file and the first line of each path (``wheel_lines[1].releases[0]``).

    Attributes:
        tags: another tool's tags of values (``!reset``) by path.
    """

    value: Plain
    lines: dict[str, int]
    tags: dict[str, str] = field(default_factory=dict)


def parse(text: str, *, typed: bool = False) -> Document:
    """Parses one document.

    Args:
        text: the document.
        typed: whether unquoted ``true``, ``false`` and whole numbers are what they look like, and a text must be quoted
            if it begins with no letter (``13.0``, ``>=2.0``) or YAML takes it for something else (``yes``). By default,
            every scalar is the text as written.

    Raises:
        YamlError: for invalid YAML, more than 8 MiB or 50 levels, repeated keys, aliases, tags and non-text keys.
    """
    reader = _StrictLoader(shared=False, typed=typed)
    document = reader.read(text)
    if reader.problems:
        raise YamlError(*reader.problems[:_MAX_PROBLEMS])
    return document


def parse_shared(text: str) -> Document:
    """Parses a document of another tool, with anchors, merge keys and custom tags.

    Expands aliases; more than 20,000 values and an alias that contains itself are rejected.

    Raises:
        YamlError: as for ``parse``, except for aliases and tags.
    """
    return _StrictLoader(shared=True).read(text)


# With LibYAML if available.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Limits the depth: the C parser recurses and would crash."""

    _depth = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        """Called before the parts of each value."""
        del current_index
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            where = f"line {current_node.start_mark.line + 1}: " if current_node else ""
            raise YamlError(f"{where}{_TOO_DEEP}")

    def ascend_resolver(self) -> None:
        """Called after them."""
        self._depth -= 1


def _composed(text: str) -> yaml.Node | None:
    if len(text) > MAX_CHARACTERS:
        raise YamlError(f"{len(text)} characters are more than {MAX_CHARACTERS}, the limit of a matrix")
    try:
        root = yaml.compose(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise YamlError(f"{where}{_TOO_DEEP if _DEPTH_OF_PARSER in problem else problem}") from error
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise YamlError(f"line {line}: a lone surrogate, which is not text") from error
    return root


class _StrictLoader:
    """Converts a document to plain values; a ``shared`` one may have aliases, which are expanded up to a limit."""

    def __init__(self, *, shared: bool, typed: bool = False) -> None:
        self.problems: list[str] = []
        self._shared, self._typed = shared, typed
        self._lines: dict[str, int] = {}
        self._tags: dict[str, str] = {}
        self._visited: set[int] = set()  # nodes; in a shared document, the ancestors of the current one
        self._count = 0

    def read(self, text: str) -> Document:
        root = _composed(text)
        return Document(None if root is None else self._plain(root, ""), self._lines, self._tags)

    def _refuse(self, line: int, problem: str) -> None:
        self.problems.append(f"line {line}: {problem}")
        if self._shared:
            raise YamlError(*self.problems)

    def _plain(self, node: yaml.Node, path: str) -> Plain:
        line, key = node.start_mark.line + 1, path.lstrip(".")
        self._count += 1
        if len(path) > _MAX_PATH:
            raise YamlError(f"line {line}: keys above a value have more than {_MAX_PATH} characters")
        if self._shared and self._count > _MAX_VALUES:
            self._refuse(line, f"aliases make this more than {_MAX_VALUES} values")
        self._lines.setdefault(key, line)
        if node.tag and node.tag not in _TAGS:
            if self._shared:
                self._tags.setdefault(key, node.tag)
            else:
                self._refuse(line, f"the tag {node.tag}; expected plain values")
        if isinstance(node, yaml.ScalarNode):
            if not node.style and node.value in _NOTHING:
                return None
            return self._typed_value(node) if self._typed and not node.style else str(node.value)
        if id(node) in self._visited:
            self._refuse(line, "a value that contains itself" if self._shared else "an alias; expand it")
            return None  # not expanded: it may exceed the memory
        self._visited.add(id(node))
        found: Plain
        if isinstance(node, yaml.SequenceNode):
            found = [self._plain(item, f"{path}[{number}]") for number, item in enumerate(node.value)]
        else:
            found = self._mapping(node, path)
        if self._shared:
            self._visited.discard(id(node))
        return found

    def _typed_value(self, node: yaml.ScalarNode) -> Any:  # noqa: ANN401 - text, a whole number or a boolean
        """The value of an unquoted scalar, which YAML's implicit tags must not take for another kind of value."""
        text = str(node.value)
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if _WHOLE.fullmatch(text):
            return int(text)
        if node.tag != f"{_YAML}str" or not text[:1].isalpha():
            self._refuse(
                node.start_mark.line + 1,
                f"{text} is no whole number, true or false; as a text, it must be quoted: '{text}'",
            )
        return text

    def _mapping(self, node: yaml.Node, path: str) -> dict[str, Plain]:
        found: dict[str, Plain] = {}
        merged: list[yaml.Node] = []
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self._refuse(line, "a key that is not text")
                continue
            if self._shared and key.value == "<<":
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
                continue
            if self._typed:
                self._plain(key, path)
            if key.value in found:
                self._refuse(line, f"the key {key.value} occurs a second time")
            self._lines[f"{path}.{key.value}".lstrip(".")] = line
            found[key.value] = self._plain(value, f"{path}.{key.value}")
        for other in merged:
            values = self._plain(other, path)
            found = {**values, **found} if isinstance(values, dict) else found
        return found
