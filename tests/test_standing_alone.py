"""What runs outside of the package stands on its own: scripts for a target, and the payload of the smoke tests."""

from __future__ import annotations

import ast
import sys

import pytest

from tests.support.syntax_trees import (
    PACKAGE,
    PAYLOAD,
    SCRIPTS,
    Module,
    imports,
    modules,
    strangers,
)


def test_a_script_stands_on_its_own() -> None:
    """It is run by its path, in an interpreter that may have no gpuenv."""
    found = {
        module.name.rsplit(".", 1)[1]: {name.split(".")[0] for name in imports(module.tree)}
        for module in modules()
        if module.name.startswith(SCRIPTS)
    }
    family = {name for name in found if name.startswith("kernel_")} | {"telling"}
    others = {name: names - {"imp", *sys.stdlib_module_names} for name, names in found.items()}
    assert {name: names - family for name, names in others.items() if name in {"kernel", *family}} == {
        name: set() for name in {"kernel", *family}
    }, "the kernel's scripts import each other alone"
    alone = {name: names for name, names in others.items() if name not in {"kernel", *family}}
    assert alone == {
        "device_nodes": set(),
        "nvml": {"device_nodes", "nvml_loading", "nvml_processes", "nvml_values", "pynvml", "telling"},
        "nvml_loading": set(),
        "nvml_processes": {"nvml_values"},
        "nvml_values": set(),
        "cuda": {"device_nodes", "telling"},
        "interpreter": {
            "interpreter_cupy",
            "interpreter_distributions",
            "interpreter_linked",
            "interpreter_near",
            "interpreter_packages",
            "interpreter_telling",
        },
        "interpreter_bare": set(),
        "interpreter_cupy": set(),
        "interpreter_distributions": {"interpreter_packages", "interpreter_places"},
        "interpreter_linked": {"interpreter_distributions", "library_files"},
        "interpreter_near": {"interpreter_telling"},
        "interpreter_packages": set(),
        "interpreter_places": {"interpreter_packages"},
        "interpreter_telling": set(),
        "libraries": {"cuda", "interpreter_telling", "library_files", "library_versions"},
        "library_files": {"interpreter_packages"},
        "library_versions": set(),
        "files": {"telling"},
        "hold": set(),
        "scheme": {"interpreter_near", "interpreter_telling"},
        "start": set(),
        "importing": {"interpreter_telling"},
        "nvrtc": set(),
    }


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
    assert len(paths) > 70
    for path in paths:
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 8))


@pytest.mark.parametrize(
    "name",
    [
        *("interpreter", "interpreter_cupy", "interpreter_linked", "interpreter_packages", "libraries"),
        *("interpreter_distributions", "interpreter_places"),
        *("library_files", "library_versions", "scheme", "start", "importing"),
    ],
)
def test_a_script_for_a_target_is_written_in_the_syntax_of_old_pythons(name: str) -> None:
    """Old interpreters run it in another test, where there are some."""
    text = (PACKAGE / f"probe/scripts/{name}.py").read_text(encoding="utf-8")
    text.encode("ascii")
    tree = ast.parse(text, feature_version=(3, 4))
    modern = (ast.JoinedStr, ast.AnnAssign, ast.AsyncFunctionDef, ast.NamedExpr, ast.Starred, ast.Nonlocal)
    assert [type(node).__name__ for node in ast.walk(tree) if isinstance(node, modern)] == []
    arguments = [node for node in ast.walk(tree) if isinstance(node, ast.arguments)]
    assert [entry for entry in arguments if entry.kwonlyargs or entry.posonlyargs] == []
    assert [arg.arg for entry in arguments for arg in entry.args if arg.annotation is not None] == []
