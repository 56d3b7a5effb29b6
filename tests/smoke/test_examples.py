"""The example programs: each shows one cause and needs only NumPy and CuPy."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpuenv.model.causes import Cause

FOLDER = Path(__file__).parents[2] / "examples"
GUARD = "require_gpu"  # what every example imports first
EXAMPLES = tuple(path for path in sorted(FOLDER.glob("*.py")) if path.stem != GUARD)


def sources(path: Path) -> dict[str, str]:
    """The CUDA C++ sources of an example by variable name."""
    return {
        node.targets[0].id: node.value.value
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str) and "__global__" in node.value.value
    }


def test_five_of_the_thirteen_examples_have_cuda_sources() -> None:
    assert len(EXAMPLES) == 13
    assert sum(bool(sources(path)) for path in EXAMPLES) == 5


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_named_after_a_cause_and_shows_its_command(path: Path) -> None:
    assert path.stem.replace("_", "-") in {cause.value for cause in Cause}
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))
    assert f"    python examples/{path.name}\n" in f"{ast.get_docstring(tree)}\n"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_imports_only_numpy_and_cupy(path: Path) -> None:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    packages = {name.split(".")[0] for name in names} - sys.stdlib_module_names
    assert "cupy" in packages - {GUARD} <= {"cupy", "numpy"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_without_cupy_an_example_explains_the_mistake(path: Path) -> None:
    result = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, timeout=60)
    explanation = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"{explanation}\n\nNot run: CuPy cannot be imported (")
    assert "Traceback" not in result.stderr


def test_the_table_names_every_example_and_its_mistake() -> None:
    rows = re.findall(
        r"^\| \[`(.+)\.py`\]\(\1\.py\) \| (.+?) \| .+ \|$",
        (FOLDER / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    titles = {
        path.stem: (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]
        for path in EXAMPLES
    }
    assert dict(rows) == titles
