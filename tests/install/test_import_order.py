"""The order of the modules that the docstring of ``gpuenv.install`` states."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import gpuenv.install

FOLDER = Path(gpuenv.install.__file__).parent


def listed_modules() -> list[str]:
    lines = re.findall(r"^(\S.*?)  ", gpuenv.install.__doc__ or "", re.MULTILINE)
    names = [name for line in lines for name in line.split(", ")]
    return [f"backends{name}" if name.startswith(".") else name for name in names]


def imported_modules(path: Path) -> set[str]:
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    names = [(node.module or "").removeprefix("gpuenv.install.") for node in nodes if "install" in (node.module or "")]
    return {name for name in names if name != "backends"} - {"gpuenv.install"}


def test_every_module_is_listed_in_the_order() -> None:
    modules = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.py") if path.name != "__init__.py"}
    assert sorted(f"{name.replace('.', '/')}.py" for name in listed_modules()) == sorted(modules)


def test_a_module_imports_only_those_above_it() -> None:
    order = listed_modules()
    violations = {
        name: imports
        for index, name in enumerate(order)
        if (imports := imported_modules(FOLDER / f"{name.replace('.', '/')}.py") - set(order[:index]))
    }
    assert violations == {}
