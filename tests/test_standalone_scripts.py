"""Probe scripts and the payload of the smoke tests run without the rest of the package."""

from __future__ import annotations

import ast
import sys

from tests.support.syntax_trees import (
    PACKAGE,
    PAYLOAD,
    Module,
    imports,
    violations,
)

SCRIPT_FILES = {path.stem: path for path in (PACKAGE / "probe/scripts").glob("*.py")}
# Scripts that run in the target's interpreter, which may be an old Python.
RUN_IN_A_TARGET = ("start", "interpreter", "interpreter_bare", "libraries", "scheme", "module_import")
# Third-party libraries: a dependency of gpuenv, and a dependency of CuPy in the target.
LIBRARIES = {"nvml": {"pynvml"}, "libraries": {"cuda"}}


def imports_of(script: str) -> set[str]:
    tree = ast.parse(SCRIPT_FILES[script].read_text(encoding="utf-8"))
    return {name.split(".")[0] for name in imports(tree)}


def scripts_for_old_pythons() -> list[str]:
    """The scripts that run in a target, and the scripts that they import."""
    scripts = list(RUN_IN_A_TARGET)
    for script in scripts:
        scripts += sorted((imports_of(script) & set(SCRIPT_FILES)) - {*scripts, *LIBRARIES.get(script, ())})
    return scripts


def test_scripts_import_only_the_standard_library_and_other_scripts() -> None:
    """A script is run by path in an interpreter that may lack gpuenv; imp belongs to the library of old Pythons."""
    scripts = set(SCRIPT_FILES) - {"cuda"}  # the package of NVIDIA; no script imports cuda.py
    libraries = {script: imports_of(script) - scripts - {"imp", *sys.stdlib_module_names} for script in SCRIPT_FILES}
    assert {script: names for script, names in libraries.items() if names} == LIBRARIES


def test_the_payload_imports_nothing_else_of_the_package() -> None:
    """The payload runs in the target environment, where gpuenv is not installed."""

    def outside_imports(module: Module) -> set[str]:
        names = {name for name in imports(module.tree) if name.startswith("gpuenv.")}
        return {name for name in names if not name.startswith(PAYLOAD)} if module.is_payload else set()

    assert violations(outside_imports) == {}


def test_the_payload_is_imported_only_by_itself() -> None:
    def payload_imports(module: Module) -> set[str]:
        names = {name for name in imports(module.tree) if name.startswith(PAYLOAD)}
        return set() if module.is_payload else names

    assert violations(payload_imports) == {}


def test_the_payload_is_written_in_the_syntax_of_python_3_8() -> None:
    paths = sorted((PACKAGE / "smoke/payload").rglob("*.py"))
    assert len(paths) > 15
    for path in paths:
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 8))


def test_a_script_for_a_target_is_written_in_the_syntax_of_old_pythons() -> None:
    """Another test runs the scripts with old interpreters, if some are installed."""
    modern = (ast.JoinedStr, ast.AnnAssign, ast.AsyncFunctionDef, ast.NamedExpr, ast.Starred, ast.Nonlocal)
    modern_nodes = []
    for script in scripts_for_old_pythons():
        tree = ast.parse(SCRIPT_FILES[script].read_text(encoding="ascii"), f"{script}.py", feature_version=(3, 4))
        for node in ast.walk(tree):
            new_arguments = isinstance(node, ast.arguments) and (node.kwonlyargs or node.posonlyargs)
            annotated = isinstance(node, ast.arg) and node.annotation is not None
            if isinstance(node, modern) or new_arguments or annotated:
                modern_nodes.append((script, type(node).__name__, getattr(node, "lineno", None)))
    assert modern_nodes == []
