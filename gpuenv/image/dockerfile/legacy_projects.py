"""Requirements of a project without tables in pyproject.toml: from setup.cfg, and literals in setup.py.

setuptools, "Configuring setuptools using setup.cfg files" and "Keywords": install_requires and extras_require (read
2026-11-22). setup.py is a program: it is read, never run, and what it works out is not known.
"""

from __future__ import annotations

import ast
import configparser
import warnings
from collections.abc import Iterator

from gpuenv.image.dockerfile.projects import EVERY, Selection

FILES = ("setup.cfg", "setup.py")


def dependencies_of(name: str, text: str, selection: Selection) -> Iterator[str]:
    """The requirements that a file of that name states."""
    found = _of_cfg(text) if name.endswith(".cfg") else _of_py(text)
    for extra, requirements in found:
        if extra is None or {extra, EVERY} & selection.extras:
            yield from requirements


def _of_cfg(text: str) -> Iterator[tuple[str | None, list[str]]]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except (configparser.Error, ValueError):
        return
    yield None, _lines(parser.get("options", "install_requires", fallback=""))
    if parser.has_section("options.extras_require"):
        for extra, value in parser.items("options.extras_require"):
            yield extra, _lines(value)


def _lines(value: str) -> list[str]:
    parts = value.splitlines() if "\n" in value else value.split(";")
    return [part.strip() for part in parts if part.strip() and not part.strip().startswith("#")]


def _of_py(text: str) -> Iterator[tuple[str | None, list[str]]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about a setup.py are not for the user of check-image
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    names = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if function == "setup":
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            yield None, _texts(given.get("install_requires"), names)
            yield from _extras(given.get("extras_require"), names)


def _extras(node: ast.expr | None, names: dict[str, ast.expr]) -> Iterator[tuple[str | None, list[str]]]:
    value = names.get(node.id) if isinstance(node, ast.Name) else node
    for key, entries in zip(value.keys, value.values, strict=True) if isinstance(value, ast.Dict) else ():
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, _texts(entries, names)


def _texts(node: ast.expr | None, names: dict[str, ast.expr]) -> list[str]:
    """The texts in a list; one that is a name stands for what the name was last set to."""
    value = names.get(node.id) if isinstance(node, ast.Name) else node
    found = []
    for entry in value.elts if isinstance(value, (ast.List, ast.Tuple)) else ():
        known = names.get(entry.id) if isinstance(entry, ast.Name) else entry
        if isinstance(known, ast.Constant) and isinstance(known.value, str):
            found.append(known.value)
    return found
