"""YAML without its surprises: every scalar is the text that was written, a key stands once, and nothing is shared.

``safe_load`` turns 12.10 into 12.1 and ``no`` into False, and lets a second key overwrite the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import yaml

_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq")
)
_NOTHING = ("", "null", "~")  # unquoted; the C parser gives a plain scalar the style '', the other one None
_DEEPEST = 50
LARGEST = 8 * 1024 * 1024  # characters
_MOST = 50  # problems in a message
_MOST_VALUES = 20_000  # with every alias written out

Plain: TypeAlias = "str | list[Plain] | dict[str, Plain] | None"


class YamlError(ValueError):
    """A file that is no strict YAML; each of ``problems`` has its line."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(frozen=True, slots=True)
class Document:
    """The plain values of a file, and the line on which each path begins (``wheel_lines[1].releases[0]``).

    Attributes:
        tags: what a value is marked with by another tool (``!reset``), by its path.
    """

    value: Plain
    lines: dict[str, int]
    tags: dict[str, str] = field(default_factory=dict)


def parse(text: str) -> Document:
    """Reads one document.

    Raises:
        YamlError: for broken YAML, 8 MiB or 50 levels; for repeated keys, aliases, tags and keys that are no text, all.
    """
    reader = _StrictLoader(shared=False)
    document = reader.read(text)
    if reader.problems:
        raise YamlError(*reader.problems[:_MOST])
    return document


def parse_shared(text: str) -> Document:
    """Reads a document of another tool, which may use anchors, merge keys and tags of its own.

    An alias is written out; what comes to more than 20,000 values is refused, and so is one that holds itself.

    Raises:
        YamlError: as ``parse`` does, but for aliases and tags.
    """
    return _StrictLoader(shared=True).read(text)


# By LibYAML where it is there.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Counts how deep it is in, since it goes in by recursion: one in C that nothing else ends but a crash."""

    _depth = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        """Called before the parts of each value."""
        del current_index
        self._depth += 1
        if self._depth > _DEEPEST:
            where = f"line {current_node.start_mark.line + 1}: " if current_node else ""
            raise YamlError(f"{where}nested more than {_DEEPEST} levels deep")

    def ascend_resolver(self) -> None:
        """And after them."""
        self._depth -= 1


def _composed(text: str) -> yaml.Node | None:
    if len(text) > LARGEST:
        raise YamlError(f"{len(text)} characters are more than the {LARGEST} that a matrix may have")
    try:
        root = yaml.compose(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise YamlError(f"{where}{getattr(error, 'problem', None) or error}") from error
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise YamlError(f"line {line}: half a character, which is no text") from error
    return root


class _StrictLoader:
    """Makes plain values of a document; a ``shared`` one has its aliases written out, as long as it stays small."""

    def __init__(self, *, shared: bool) -> None:
        self.problems: list[str] = []
        self._shared = shared
        self._lines: dict[str, int] = {}
        self._tags: dict[str, str] = {}
        self._met: set[int] = set()  # nodes; where they are shared, those that the present one lies in
        self._count = 0

    def read(self, text: str) -> Document:
        root = _composed(text)
        return Document(None if root is None else self._plain(root, ""), self._lines, self._tags)

    def _refuse(self, line: int, problem: str) -> None:
        self.problems.append(f"line {line}: {problem}")
        if self._shared:
            raise YamlError(*self.problems)

    def _plain(self, node: yaml.Node, path: str) -> Plain:
        line, place = node.start_mark.line + 1, path.lstrip(".")
        self._count += 1
        if self._shared and self._count > _MOST_VALUES:
            self._refuse(line, f"aliases make this more than {_MOST_VALUES} values")
        self._lines.setdefault(place, line)
        if node.tag and node.tag not in _TAGS:
            if self._shared:
                self._tags.setdefault(place, node.tag)
            else:
                self._refuse(line, f"the tag {node.tag}; expected plain values")
        if isinstance(node, yaml.ScalarNode):
            return None if not node.style and node.value in _NOTHING else str(node.value)
        if id(node) in self._met:
            self._refuse(line, "a value that holds itself" if self._shared else "an alias; write the values out")
            return None  # not gone into again: it may stand for more than memory holds
        self._met.add(id(node))
        found: Plain
        if isinstance(node, yaml.SequenceNode):
            found = [self._plain(item, f"{path}[{number}]") for number, item in enumerate(node.value)]
        else:
            found = self._mapping(node, path)
        if self._shared:
            self._met.discard(id(node))
        return found

    def _mapping(self, node: yaml.Node, path: str) -> dict[str, Plain]:
        found: dict[str, Plain] = {}
        merged: list[yaml.Node] = []
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self._refuse(line, "a key that is no text")
                continue
            if self._shared and key.value == "<<":
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
                continue
            if key.value in found:
                self._refuse(line, f"the key {key.value} stands here a second time")
            if self._shared:
                self._lines[f"{path}.{key.value}".lstrip(".")] = line
            found[key.value] = self._plain(value, f"{path}.{key.value}")
        for other in merged:
            values = self._plain(other, path)
            found = {**values, **found} if isinstance(values, dict) else found
        return found
