"""What runs outside of the package stands on its own: scripts for a target, and the payload of the smoke tests."""

from __future__ import annotations

import ast
import sys

from tests.support.syntax_trees import (
    PACKAGE,
    PAYLOAD,
    Module,
    imports,
    strangers,
)

SCRIPT_FILES = {path.stem: path for path in (PACKAGE / "probe/scripts").glob("*.py")}
# What the target's own interpreter runs, which may be an old one; and what these import.
RUN_IN_A_TARGET = ("start", "interpreter", "interpreter_bare", "libraries", "scheme", "module_import")
# Libraries of others: the one that comes with gpuenv, and CuPy's in the target.
LIBRARIES = {"nvml": {"pynvml"}, "libraries": {"cuda"}}


def imported_by(script: str) -> set[str]:
    tree = ast.parse(SCRIPT_FILES[script].read_text(encoding="utf-8"))
    return {name.split(".")[0] for name in imports(tree)}


def for_old_pythons() -> list[str]:
    """The scripts that run in a target, and those that they import."""
    found = list(RUN_IN_A_TARGET)
    for script in found:
        found += sorted((imported_by(script) & set(SCRIPT_FILES)) - {*found, *LIBRARIES.get(script, ())})
    return found


def test_a_script_imports_the_standard_library_and_scripts_of_its_folder() -> None:
    """It is run by its path, in an interpreter that may have no gpuenv; imp is of the library of old Pythons."""
    ours = set(SCRIPT_FILES) - {"cuda"}  # the name of NVIDIA's package: no script imports ours
    others = {script: imported_by(script) - ours - {"imp", *sys.stdlib_module_names} for script in SCRIPT_FILES}
    assert {script: names for script, names in others.items() if names} == LIBRARIES


def test_the_payload_stands_on_its_own() -> None:
    """It runs in the target environment, where nothing else of this package is."""

    def stranger(module: Module) -> set[str]:
        names = {name for name in imports(module.tree) if name.startswith("gpuenv.")}
        return {name for name in names if not name.startswith(PAYLOAD)} if module.is_payload else set()

    assert strangers(stranger) == {}


def test_the_payload_is_imported_by_none_but_itself() -> None:
    def takes(module: Module) -> set[str]:
        names = {name for name in imports(module.tree) if name.startswith(PAYLOAD)}
        return set() if module.is_payload else names

    assert strangers(takes) == {}


def test_the_payload_is_written_in_the_syntax_of_python_3_8() -> None:
    paths = sorted((PACKAGE / "smoke/payload").rglob("*.py"))
    assert len(paths) > 15
    for path in paths:
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 8))


def test_a_script_for_a_target_is_written_in_the_syntax_of_old_pythons() -> None:
    """Old interpreters run it in another test, where there are some."""
    modern = (ast.JoinedStr, ast.AnnAssign, ast.AsyncFunctionDef, ast.NamedExpr, ast.Starred, ast.Nonlocal)
    found = []
    for script in for_old_pythons():
        tree = ast.parse(SCRIPT_FILES[script].read_text(encoding="ascii"), f"{script}.py", feature_version=(3, 4))
        for node in ast.walk(tree):
            new_arguments = isinstance(node, ast.arguments) and (node.kwonlyargs or node.posonlyargs)
            annotated = isinstance(node, ast.arg) and node.annotation is not None
            if isinstance(node, modern) or new_arguments or annotated:
                found.append((script, type(node).__name__, getattr(node, "lineno", None)))
    assert found == []
