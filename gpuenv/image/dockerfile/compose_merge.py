"""Merges services: what one extends, in its own file or another, and override files.

The Compose Specification (compose-spec/compose-spec): 05-services.md, extends (read 2026-11-21); 13-merge.md, and what
of it is written in short forms: compose-spec/compose-go, override/merge.go (read 2026-11-22). Docker, "Merge Compose
files" (read 2026-11-22): beside a compose file, its override file is taken unasked; "Extend your Compose file",
Relative paths, and 14-include.md: paths in a file of another folder start there (both read 2026-11-22).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuenv.matrix.strict_yaml import Document, Plain

_DEEPEST = 5  # a chain longer than that goes in circles
_RESET, _OVERRIDE = "!reset", "!override"
_REPLACED = ("command", "entrypoint", "test")  # sequences to which nothing is appended
_NAMED = ("environment", "args", "labels", "annotations")  # mappings that may be written as lists of NAME=value


@dataclass(frozen=True, slots=True)
class Node:
    """A value with where it stands.

    Attributes:
        value: a text, nothing, or more of them.
        line: of all the files that come together.
        tag: what it is marked with.
    """

    value: str | tuple[Node, ...] | Mapping[str, Node] | None
    line: int
    tag: str = ""

    def at(self, key: str) -> Node | None:
        """What stands below a key."""
        return self.value.get(key) if isinstance(self.value, Mapping) else None

    @property
    def text(self) -> str | None:
        """The text, where it is one."""
        return self.value if isinstance(self.value, str) else None


# The services of a file that another one names; none where it cannot be read.
Loader = Callable[[str], "Mapping[str, Node] | None"]


def nodes_of(document: Document, above: int) -> Node:
    """The nodes of a document, with an offset added to its lines."""

    def node(value: Plain, path: str, line: int) -> Node:
        line = document.lines.get(path, line)
        inner: str | tuple[Node, ...] | Mapping[str, Node] | None
        if isinstance(value, dict):
            inner = {key: node(each, f"{path}.{key}".lstrip("."), line) for key, each in value.items()}
        elif isinstance(value, list):
            inner = tuple(node(each, f"{path}[{number}]", line) for number, each in enumerate(value))
        else:
            inner = value
        return Node(inner, line + above, document.tags.get(path, ""))

    return node(document.value, "", 1)


def plain_of(node: Node, path: str, lines: dict[str, int]) -> Plain:
    """The plain values of a node, without what is reset; the line of each path is written down."""
    lines[path] = node.line
    if isinstance(node.value, Mapping):
        kept = ((key, each) for key, each in node.value.items() if each.tag != _RESET)
        return {key: plain_of(each, f"{path}.{key}".lstrip("."), lines) for key, each in kept}
    if isinstance(node.value, tuple):
        return [plain_of(each, f"{path}[{number}]", lines) for number, each in enumerate(node.value)]
    return node.value


def relative_to(services: Mapping[str, Node], folder: str) -> Mapping[str, Node]:
    """The services of a file in another folder, with the paths of builds and extends from the first file's folder."""
    return {name: _moved(service, folder) for name, service in services.items()} if folder else services


def _moved(service: Node, folder: str) -> Node:
    if not isinstance(service.value, Mapping):
        return service
    moved = dict(service.value)
    for key, inner in (("build", "context"), ("extends", "file")):
        node = service.at(key)
        if node is None:
            continue
        path = node.at(inner)
        if path is not None and path.text is not None and isinstance(node.value, Mapping):
            moved[key] = replace(node, value={**node.value, inner: replace(path, value=join_path(folder, path.text))})
        elif key == "build" and node.text is not None:
            moved[key] = replace(node, value=join_path(folder, node.text))
    return replace(service, value=moved)


def join_path(folder: str, path: str) -> str:
    """A path from a folder; what begins with a variable, or is no path, stays."""
    elsewhere = "://" in path or path.startswith(("$", "git@"))
    return path if elsewhere else posixpath.normpath(posixpath.join(folder, path))


def override_services(services: Mapping[str, Node], more: Mapping[str, Node]) -> Mapping[str, Node]:
    """The services, overridden by a later file; each keeps its position."""
    both = {
        name: replace(merge_nodes(services[name], own), line=services[name].line) if name in services else own
        for name, own in more.items()
    }
    return {**services, **both}


def resolve_extends(body: Node, services: Mapping[str, Node], load: Loader, depth: int = 0) -> tuple[Node, bool]:
    """A service merged over the one that it extends, and whether all files could be read."""
    file, name = _extends(body)
    if name is None or depth > _DEEPEST:
        return body, True
    others = load(file) if file else services
    other = others.get(name) if others is not None else None
    if others is None or other is None or not isinstance(other.value, Mapping):
        return body, False
    former, whole = resolve_extends(other, others, load, depth + 1)
    return merge_nodes(former, body), whole


def _extends(body: Node) -> tuple[str | None, str | None]:
    """The file, where it is another one, and the service that one extends."""
    named = body.at("extends")
    if named is None or named.text is not None:
        return None, named.text if named is not None else None
    file, name = named.at("file"), named.at("service")
    return file.text if file is not None else None, name.text if name is not None else None


def merge_nodes(former: Node, own: Node, key: str = "") -> Node:
    """Merges a later value over an earlier one: mappings are merged, sequences appended, texts replaced."""
    if own.tag in (_RESET, _OVERRIDE) or former.tag == _RESET:
        return own
    if own.value is None and key not in _REPLACED:
        return former
    before, after = _long(former, key), _long(own, key)
    if isinstance(before.value, Mapping) and isinstance(after.value, Mapping):
        known = before.value if key not in _NAMED else {}  # in these a name without a value is a word, too
        both = {
            name: merge_nodes(known[name], each, name) if name in known else each for name, each in after.value.items()
        }
        return replace(after, value={**before.value, **both})
    if isinstance(before.value, tuple) and isinstance(after.value, tuple) and key not in _REPLACED:
        targets = {_target(each) for each in after.value} if key == "volumes" else set()
        kept = tuple(each for each in before.value if _target(each) not in targets)
        return replace(after, value=(*kept, *after.value))
    return own


def _long(node: Node, key: str) -> Node:
    """The long form of a short one: of a list of NAME=value, or of a build that is only a context."""
    if key == "build" and node.text is not None:
        return replace(node, value={"context": replace(node, tag="")})
    if key not in _NAMED or not isinstance(node.value, tuple):
        return node
    named: dict[str, Node] = {}
    for each in node.value:
        name, equals, text = (each.text or "").partition("=")
        named[name] = replace(each, value=text if equals else None)
    return replace(node, value=named)


def _target(volume: Node) -> str | None:
    """Where a volume is mounted, which only one can be."""
    if volume.text is not None:
        return ":".join(volume.text.split(":")[1:2]) or volume.text
    target = volume.at("target")
    return target.text if target is not None else None
