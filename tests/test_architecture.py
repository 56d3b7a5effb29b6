"""How the house is built, held by its syntax trees: who imports whom, what is pure, and what nobody may do."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict

from tests.support.syntax_trees import (
    PAYLOAD,
    SCRIPTS,
    Module,
    called,
    functions,
    imports,
    modules,
    nodes,
    strangers,
)

# What the modules of each part of the package may import of the others, besides gpuenv itself for its version.
MAY_IMPORT = {
    "model": set[str](),
    "matrix": {"model", "files"},
    "doctor": {"model", "matrix"},
    "explain": {"model", "matrix", "doctor"},
    "probe": {"model", "interrupt", "files"},
    "paste": {"model", "matrix", "probe", "explain"},
    "preflight": {"model", "matrix", "files"},
    "report": {"model", "matrix", "doctor", "explain", "preflight"},
    "image": {
        *("model", "matrix", "doctor", "probe", "report", "install", "smoke", "files"),
    },
    "install": {"model", "matrix", "doctor", "probe", "report", "files", "dist_metadata"},
    "smoke": {"model", "probe"},
    "plugins": {"model", "doctor", "probe", "files", "dist_metadata"},
    "data": set[str](),
    "files": set[str](),
    "dist_metadata": {"files"},
    "cli": {
        *("model", "matrix", "doctor", "explain", "probe", "preflight", "report", "image", "install", "smoke"),
        *("simulate", "refresh", "data", "plugins", "paste", "interrupt", "files"),
    },
    "simulate": {"model", "matrix", "report", "probe", "data", "files"},
    "pytest_plugin": {"model", "doctor", "probe", "preflight", "report"},
    "refresh": {"model", "matrix", "probe", "files"},
    "interrupt": set[str](),
    "__main__": {"cli", "interrupt"},
    "__init__": set[str](),
}
# Libraries of others, and the one place that may import each.
THIRD_PARTY = {
    "packaging": {"model", "matrix", "doctor", "probe", "preflight", "install", "refresh", "image", "paste"},
    "elftools": {"gpuenv.refresh.binaries"},
    "tomli": {"files"},
    "yaml": {"gpuenv.matrix.strict_yaml"},
    "typer": {"cli"},
    "rich": {"gpuenv.cli.output"},
    "pynvml": {f"{SCRIPTS}.nvml"},
    "cuda": {f"{SCRIPTS}.libraries"},
    "docker": {"gpuenv.image.check.local_images", "gpuenv.image.container_engine"},
    "requests": {"gpuenv.image.check.local_images"},
    "urllib3": {"gpuenv.image.container_engine"},  # what the SDK lets through
    "cyclonedx": {"gpuenv.image.sbom"},
    "packageurl": {"gpuenv.image.sbom"},
    "pytest": {"pytest_plugin"},
    # What runs in the target environment.
    **{name: {"payload"} for name in ("numpy", "cupy", "cupyx", "torch", "numba", "jax", "ml_dtypes")},
}
# Parts without a touch of the world outside, and the modules in them that are its edge.
PURE = ("model", "matrix", "doctor", "explain", "paste", "preflight", "report")
EDGES = {"gpuenv.explain.classifier_weights", "gpuenv.matrix.load", "gpuenv.preflight.config"}
IMPURE_MODULES = {
    "time",
    "subprocess",
    "socket",
    "shutil",
    "tempfile",
    "ctypes",
    "threading",
    "logging",
    "urllib",
    "sys",
    "os",
}
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "__import__", "breakpoint"}
IMPURE_ATTRIBUTES = {
    *("environ", "getenv", "read_text", "write_text", "read_bytes", "write_bytes", "iterdir", "glob", "mkdir"),
    *("unlink", "exists", "is_file", "is_dir", "expanduser", "now", "today", "utcnow", "monotonic", "perf_counter"),
    *("stdout", "stderr", "stdin", "argv", "system", "popen"),
}
# The handlers that catch everything.
BROAD_KINDS = ("Exception", "BaseException")
BROAD = [
    ("gpuenv.doctor.diagnose", "_run"),  # a crashed check is reported as such
    ("gpuenv.image.check.deadline", "run"),  # raised again where it is waited for
    ("gpuenv.cli.main", "run"),  # the last handler turns a fault of ours into a message
    ("gpuenv.probe.session", "_work"),  # raised again by the main thread
    (f"{SCRIPTS}.target_shared", "emit"),  # a foreign stream
    (f"{SCRIPTS}.module_import", "main"),  # someone else's module
    (f"{SCRIPTS}.interpreter", "main"),  # someone else's interpreter
    (f"{SCRIPTS}.libraries", "finder"),  # someone else's package
    (f"{SCRIPTS}.libraries", "load_library"),  # cuda-pathfinder
    (f"{SCRIPTS}.libraries", "cupy_settings"),  # CuPy's own module
    (f"{SCRIPTS}.libraries", "optional_library"),  # CuPy's own module
    (f"{SCRIPTS}.libraries", "emit_settings"),  # CuPy's own module
    (f"{PAYLOAD}.harness", "list_devices"),  # someone else's environment
    (f"{PAYLOAD}.harness", "run_test"),  # a test may raise anything: that is its answer
    (f"{PAYLOAD}.harness", "_run"),  # likewise
    (f"{PAYLOAD}.groundwork", "_compiled"),  # someone else's package
    (f"{PAYLOAD}.groundwork", "_library"),  # likewise
    (f"{PAYLOAD}.groundwork", "groundwork"),  # likewise
]


def test_the_whole_package_is_looked_at() -> None:
    assert {module.part for module in modules()} == set(MAY_IMPORT)
    assert len(modules()) > 50


def test_a_part_imports_only_those_below_it() -> None:
    def too_high(module: Module) -> set[str]:
        told = {name.split(".")[1] for name in imports(module.tree) if name.startswith("gpuenv.")}
        return told - MAY_IMPORT[module.part] - {module.part, "__version__"}

    assert strangers(too_high) == {}


def test_a_part_may_import_no_more_than_it_does() -> None:
    told = {(module.part, name.split(".")[1]) for module in modules() for name in imports(module.tree) if "." in name}
    assert {(part, other) for part, others in MAY_IMPORT.items() for other in others} <= told


def test_a_library_of_others_is_imported_in_its_one_place() -> None:
    def out_of_place(module: Module) -> set[str]:
        ours = {"shared", "target_shared"} if module.name.startswith(f"{SCRIPTS}.") else set()
        names = {name.split(".")[0] for name in imports(module.tree)} - {
            "gpuenv",
            "imp",
            *sys.stdlib_module_names,
            *ours,
        }  # imp: Python 3.12 has none
        here = {"payload"} if module.is_payload else {module.part, module.name}
        return {name for name in names if not THIRD_PARTY.get(name, set()) & here}

    assert strangers(out_of_place) == {}


def test_a_module_of_a_pure_part_touches_nothing_outside() -> None:
    def outside(module: Module) -> set[str]:
        if module.part not in PURE or module.name in EDGES:
            return set()
        names = {name.split(".")[0] for name in imports(module.tree)}
        calls = {called(node) for node in nodes(module.tree) if isinstance(node, ast.Call)}
        attributes = {node.attr for node in nodes(module.tree) if isinstance(node, ast.Attribute)}
        return names & IMPURE_MODULES | calls & IMPURE_CALLS | attributes & IMPURE_ATTRIBUTES

    assert strangers(outside) == {}


def test_the_edges_of_the_pure_parts_are_where_they_are_said_to_be() -> None:
    def reads(module: Module) -> bool:
        return "read_text" in ast.dump(module.tree) or any(
            name.startswith("gpuenv.files.") for name in imports(module.tree)
        )

    assert {module.name for module in modules() if module.part in PURE and reads(module)} == EDGES


def test_broad_handlers_are_the_known_ones() -> None:
    """One that raises again catches nothing."""
    found = [
        (module.name, function.name)
        for module in modules()
        for function in functions(module.tree)
        for node in nodes(function)
        if isinstance(node, ast.ExceptHandler) and _is_broad(node) and not _raises_again(node)
    ]
    assert sorted(found) == sorted(BROAD)
    outside = [node for module in modules() for node in module.tree.body if isinstance(node, ast.Try)]
    assert outside == [], "every handler is in a function"


def _is_broad(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or getattr(kind, "id", "") in BROAD_KINDS for kind in kinds)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_nothing_suppresses_every_exception() -> None:
    def suppressed(module: Module) -> set[str]:
        calls = (node for node in nodes(module.tree) if isinstance(node, ast.Call) and called(node) == "suppress")
        return {getattr(kind, "id", "") for call in calls for kind in call.args} & set(BROAD_KINDS)

    assert strangers(suppressed) == {}


def test_every_module_says_what_it_is() -> None:
    assert [module.name for module in modules() if not ast.get_docstring(module.tree)] == []


def test_no_function_is_a_copy_of_another() -> None:
    """Two statements or more that differ in nothing but the names of variables."""
    copies: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules():
        for function in functions(module.tree):
            body = function.body[1:] if ast.get_docstring(function) else function.body
            if sum(isinstance(node, ast.stmt) for statement in body for node in nodes(statement)) > 1:
                copies[_with_numbered_variables(function, body)].append(f"{module.name}.{function.name}")
    assert [places for places in copies.values() if len(places) > 1] == []


def _with_numbered_variables(function: ast.AST, body: list[ast.stmt]) -> str:
    """The body of a function as a text; its parameters and variables are numbered as they come."""
    variables = {node.arg for node in nodes(function) if isinstance(node, ast.arg)}
    variables |= {node.id for node in nodes(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    numbers: dict[str, int] = {}

    def numbered(match: re.Match[str]) -> str:
        name = match[1]
        return f"variable {numbers.setdefault(name, len(numbers))}" if name in variables else name

    return re.sub(r"\b(?:Name\(id|arg\(arg)='(\w+)'", numbered, "".join(map(ast.dump, body)))
