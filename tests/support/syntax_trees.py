"""The modules of the package as syntax trees, and what they import and call."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import gpuenv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE = Path(gpuenv.__file__).parent
SCRIPTS = "gpuenv.probe.scripts"
PAYLOAD = "gpuenv.smoke.payload"
SUPERVISOR = "gpuenv.smoke.supervisor"


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the package."""

    name: str
    tree: ast.Module

    @property
    def is_payload(self) -> bool:
        """Whether it runs in the target environment, as a part of the smoke tests."""
        return self.name.startswith(PAYLOAD)

    @property
    def part(self) -> str:
        """``matrix`` of ``gpuenv.matrix.load``; a module at the top is a part of its own."""
        return self.name.split(".")[1]

    def __str__(self) -> str:
        return self.name


@cache
def modules() -> tuple[Module, ...]:
    return tuple(
        Module(
            ".".join(("gpuenv", *path.relative_to(PACKAGE).with_suffix("").parts)),
            ast.parse(path.read_text(encoding="utf-8"), str(path)),
        )
        for path in sorted(PACKAGE.rglob("*.py"))
    )


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Every node of a tree."""
    return tuple(ast.walk(tree))


@cache
def imports(tree: ast.AST) -> tuple[str, ...]:
    """The full names that a module imports, at any level."""
    names: list[str] = []
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(names)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function, including nested ones."""
    return (node for node in nodes(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def call_name(node: ast.Call) -> str:
    """``run`` of ``subprocess.run(...)``."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def violations(rule: Callable[[Module], set[str]]) -> dict[str, set[str]]:
    """The modules that break a rule, each with what breaks it."""
    return {module.name: broken for module in modules() if (broken := rule(module))}
