"""The order of the modules that the docstring of ``gpuenv.install`` states."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import gpuenv.install

FOLDER = Path(gpuenv.install.__file__).parent


def stated() -> list[str]:
    lines = re.findall(r"^(\S.*?)  ", gpuenv.install.__doc__ or "", re.MULTILINE)
    names = [name for line in lines for name in line.split(", ")]
    return [f"backends{name}" if name.startswith(".") else name for name in names]


def imported(path: Path) -> set[str]:
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    below = [(node.module or "").removeprefix("gpuenv.install.") for node in nodes if "install" in (node.module or "")]
    return {name for name in below if name != "backends"} - {"gpuenv.install"}


def test_every_module_has_a_place_in_the_order() -> None:
    there = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.py") if path.name != "__init__.py"}
    assert sorted(f"{name.replace('.', '/')}.py" for name in stated()) == sorted(there)


def test_a_module_imports_only_those_above_it() -> None:
    order = stated()
    late = {
        name: below
        for index, name in enumerate(order)
        if (below := imported(FOLDER / f"{name.replace('.', '/')}.py") - set(order[:index]))
    }
    assert late == {}
