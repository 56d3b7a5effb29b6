"""A rule is written once: no two functions of the package do the same, whatever they are called."""

from __future__ import annotations

import ast
from collections import defaultdict
from copy import deepcopy
from typing import TYPE_CHECKING

from tests.support.syntax_trees import PAYLOAD, functions, modules

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST = 20  # nodes of a syntax tree: a line or two that join or open something are no rule


class Renamed(ast.NodeTransformer):
    """Gives parameters and variables the names of their places."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self._names: dict[str, str] = {}
        arguments = function.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            self._name(argument.arg)
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._name(node.id)

    def _name(self, name: str) -> None:
        self._names.setdefault(name, f"_{len(self._names)}")

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """A variable of the function's own, or a name of its module's."""
        return ast.Name(self._names.get(node.id, node.id), node.ctx)


def what_it_does(function: ast.FunctionDef) -> list[ast.stmt]:
    """Its statements without its docstring, under names that do not matter."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    renamed = Renamed(function)
    return [renamed.visit(deepcopy(statement)) for statement in body]


def candidates() -> Iterator[tuple[str, str, ast.FunctionDef]]:
    """The functions that hold a rule, with their modules and names."""
    for module in modules():
        # One file a test of the GPU's, and each can be read alone. A record's order is written where the record is.
        if not module.name.startswith(f"{PAYLOAD}.tests"):
            for name, function in functions(module.tree):
                if isinstance(function, ast.FunctionDef) and not name.startswith("__"):
                    yield module.name, name, function


def test_no_rule_is_written_twice() -> None:
    alike: defaultdict[tuple[type, ...], list[tuple[str, str, ast.FunctionDef]]] = defaultdict(list)
    for module, name, function in candidates():
        shape = tuple(type(node) for statement in function.body for node in ast.walk(statement))
        alike[shape[2:] if ast.get_docstring(function) else shape].append((module, name, function))
    found: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for shape, group in alike.items():
        if len(group) > 1 and len(shape) >= LEAST:
            for module, name, function in group:
                found["".join(map(ast.dump, what_it_does(function)))].add((module, name))
    twice = [places for places in found.values() if len(places) > 1]
    assert twice == []
