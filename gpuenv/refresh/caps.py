"""What a CuPy makes of an NVRTC: the table in its compiler module, read as source and never run."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_HOLDERS = ("_get_max_compute_capability", "_get_arch")
_MINORS = 10


class CapsError(ValueError):
    """The module is not written as it was so far."""


@dataclass(frozen=True, slots=True)
class Caps:
    """The highest capability asked for, from each NVRTC minor on, and whether it is compared as text."""

    steps: Mapping[str, str]
    as_text: bool


def read_caps(source: str, cuda_major: int) -> Caps:
    """The caps for the NVRTCs of one CUDA major.

    Args:
        source: of ``cupy/cuda/compiler.py``.
        cuda_major: of the wheel line.

    Raises:
        CapsError: where the table is not found, or written in another way.
    """
    try:
        functions = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    except SyntaxError as error:
        raise CapsError(f"cupy/cuda/compiler.py: {error}") from error
    branches = list(_branches(_table(functions)))
    steps: dict[str, str] = {}
    last = None
    for minor in range(_MINORS):
        cap = next((cap for test, cap in branches if _holds(test, {"major": cuda_major, "minor": minor})), None)
        if cap is not None and cap != last:
            steps[f"{cuda_major}.{minor}"] = f"{cap[:-1]}.{cap[-1]}"
            last = cap
    return Caps(steps, _compared_as_text(functions))


def _table(functions: Mapping[str, ast.FunctionDef]) -> ast.If:
    """The first condition on the major version, in the function that asks for NVRTC's version."""
    for name in _HOLDERS:
        holder = functions.get(name)
        if holder is not None and "_get_nvrtc_version" in ast.unparse(holder):
            for node in ast.walk(holder):
                if isinstance(node, ast.If) and "major" in ast.unparse(node.test):
                    return node
    raise CapsError("cupy/cuda/compiler.py: no table of capabilities by the version of NVRTC")


def _branches(node: ast.If) -> Iterator[tuple[ast.expr | None, str]]:
    yield node.test, _constant(node.body)
    if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        yield from _branches(node.orelse[0])
    elif node.orelse:
        yield None, _constant(node.orelse)


def _constant(body: list[ast.stmt]) -> str:
    for statement in body:
        if isinstance(statement, ast.Assign | ast.Return) and isinstance(statement.value, ast.Constant):
            return str(statement.value.value)
    raise CapsError("cupy/cuda/compiler.py: a branch of the table without a constant")


def _holds(test: ast.expr | None, names: Mapping[str, int]) -> bool:
    return test is None or bool(_value(test, names))


def _value(node: ast.expr, names: Mapping[str, int]) -> object:
    """The few kinds of expression that the table uses."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.Tuple):
        return tuple(_value(part, names) for part in node.elts)
    if isinstance(node, ast.BoolOp):
        values = [bool(_value(part, names)) for part in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.Compare):
        values_in_turn = [_value(part, names) for part in (node.left, *node.comparators)]
        kinds = [_COMPARE.get(type(kind)) for kind in node.ops]
        pairs = zip(kinds, values_in_turn, values_in_turn[1:], strict=False)
        if None not in kinds:
            return all(compare(left, right) for compare, left, right in pairs if compare)
    raise CapsError(f"cupy/cuda/compiler.py: an expression that is new: {ast.unparse(node)}")


def _compared_as_text(functions: Mapping[str, ast.FunctionDef]) -> bool:
    """Whether the lower of capability and cap is taken as text, by which 120 is less than 90."""
    holder = functions.get("_get_arch")
    calls = [node for node in ast.walk(holder) if isinstance(node, ast.Call)] if holder else []
    minimum = [ast.unparse(call) for call in calls if getattr(call.func, "id", "") == "min"]
    if not minimum:
        raise CapsError("cupy/cuda/compiler.py: nothing tells which of two is lower")
    return not any("key=int" in text for text in minimum)
