"""The architecture of the package, checked on syntax trees: imports, pure parts and forbidden constructs."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict

from tests.support.syntax_trees import (
    PAYLOAD,
    SCRIPTS,
    Module,
    call_name,
    functions,
    imports,
    modules,
    nodes,
    violations,
)

# The parts that each part of the package may import; gpuenv itself, for its version, is always allowed.
MAY_IMPORT = {
    "model": set[str](),
    "matrix": {"model", "files", "data"},
    "doctor": {"model", "matrix", "data", "files"},
    "explain": {"model", "matrix", "doctor", "data", "report"},
    "probe": {"model", "interrupt", "files"},
    "paste": {"model", "matrix", "doctor", "probe", "explain"},
    "preflight": {"model", "matrix", "files"},
    "report": {"model", "matrix", "doctor", "explain", "preflight"},
    "image": {
        *("model", "matrix", "doctor", "probe", "report", "install", "smoke", "data", "files", "archives", "net"),
    },
    "install": {"model", "matrix", "doctor", "probe", "report", "files", "dist_metadata", "archives"},
    "smoke": {"model", "probe"},
    "fleet": {"archives", "doctor", "files", "matrix", "model", "probe", "report"},
    "plugins": {"model", "doctor", "probe", "files", "dist_metadata"},
    "data": set[str](),
    "files": set[str](),
    "archives": set[str](),
    "clock": set[str](),
    "net": set[str](),
    "dist_metadata": {"files"},
    "cli": {
        *("model", "matrix", "doctor", "explain", "probe", "preflight", "report", "image", "install", "smoke"),
        *("simulate", "refresh", "data", "plugins", "paste", "interrupt", "files", "net", "fleet", "clock"),
    },
    "simulate": {"model", "matrix", "report", "probe", "data", "files"},
    "pytest_plugin": {"model", "doctor", "probe", "preflight", "report"},
    "refresh": {"model", "matrix", "probe", "files"},
    "interrupt": set[str](),
    "__main__": {"cli", "interrupt"},
    "api": {"model", "matrix", "doctor", "explain", "probe", "paste", "plugins", "preflight", "report", "clock"},
    "ipython_extension": {"doctor", "model"},
    "__init__": {"api", "model", "ipython_extension"},
}
# Third-party libraries, and the parts or modules that may import each.
THIRD_PARTY = {
    "packaging": {"model", "matrix", "doctor", "probe", "preflight", "install", "refresh", "image", "paste"},
    "elftools": {"gpuenv.refresh.binaries"},
    "tomli": {"files"},
    "yaml": {"gpuenv.matrix.strict_yaml", "gpuenv.matrix.canonical"},
    "typer": {"cli"},
    "rich": {"gpuenv.cli.output"},
    "pynvml": {f"{SCRIPTS}.nvml"},
    "cuda": {f"{SCRIPTS}.libraries"},
    "docker": {"gpuenv.image.inspect.fetch", "gpuenv.image.engine.container_engine"},
    "urllib3": {"gpuenv.image.engine.container_engine"},  # exceptions of the SDK
    "cyclonedx": {"gpuenv.image.build.sbom"},
    "packageurl": {"gpuenv.image.build.sbom"},
    "dask": {"gpuenv.fleet.runners.dask"},
    "distributed": {"gpuenv.fleet.runners.dask", "gpuenv.fleet.dask_map"},
    "ClusterShell": {"gpuenv.fleet.runners.ssh"},
    "pytest": {"pytest_plugin"},
    # These run in the target environment.
    **{name: {"payload"} for name in ("numpy", "cupy", "cupyx", "torch", "numba", "jax", "ml_dtypes")},
}
# Parts without side effects, and the modules in them that read files.
PURE = ("model", "matrix", "doctor", "explain", "paste", "preflight", "report")
EDGES = {
    *("gpuenv.doctor.fixes.table", "gpuenv.explain.classifier", "gpuenv.explain.messages", "gpuenv.matrix.load"),
    *("gpuenv.matrix.selection", "gpuenv.preflight.config"),
}
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
# Handlers that catch every exception.
BROAD_KINDS = ("Exception", "BaseException")
BROAD = [
    ("gpuenv.doctor.diagnose", "_run"),  # a crashed check is reported as such
    ("gpuenv.net", "run_within"),  # the same handler
    ("gpuenv.net", "run"),  # raised again by the waiting caller
    ("gpuenv.cli.main", "run"),  # the last handler turns an internal error into a message
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
    (f"{PAYLOAD}.harness", "run_test"),  # a test may raise anything, which is its result
    (f"{PAYLOAD}.harness", "_run_size"),  # a test may raise anything, which is its result
    (f"{PAYLOAD}.groundwork", "_compiled"),  # someone else's package
    (f"{PAYLOAD}.groundwork", "_library"),  # someone else's package
    (f"{PAYLOAD}.groundwork", "groundwork"),  # someone else's package
]


def test_every_part_of_the_package_is_in_the_table() -> None:
    assert {module.part for module in modules()} == set(MAY_IMPORT)
    assert len(modules()) > 50


def test_a_part_imports_only_the_parts_below_it() -> None:
    def forbidden_imports(module: Module) -> set[str]:
        imported = {name.split(".")[1] for name in imports(module.tree) if name.startswith("gpuenv.")}
        return imported - MAY_IMPORT[module.part] - {module.part, "__version__"}

    assert violations(forbidden_imports) == {}


def test_every_allowed_import_is_used() -> None:
    imported = {
        (module.part, name.split(".")[1]) for module in modules() for name in imports(module.tree) if "." in name
    }
    assert {(part, other) for part, others in MAY_IMPORT.items() for other in others} <= imported


def test_third_party_libraries_are_imported_only_in_their_modules() -> None:
    def misplaced_libraries(module: Module) -> set[str]:
        script_modules = {"shared", "target_shared"} if module.name.startswith(f"{SCRIPTS}.") else set()
        names = {name.split(".")[0] for name in imports(module.tree)} - {
            "gpuenv",
            "imp",
            *sys.stdlib_module_names,
            *script_modules,
        }  # imp: removed in Python 3.12
        places = {"payload"} if module.is_payload else {module.part, module.name}
        return {name for name in names if not THIRD_PARTY.get(name, set()) & places}

    assert violations(misplaced_libraries) == {}


def test_pure_parts_have_no_side_effects() -> None:
    def side_effects(module: Module) -> set[str]:
        if module.part not in PURE or module.name in EDGES:
            return set()
        names = {name.split(".")[0] for name in imports(module.tree)}
        calls = {call_name(node) for node in nodes(module.tree) if isinstance(node, ast.Call)}
        attributes = {node.attr for node in nodes(module.tree) if isinstance(node, ast.Attribute)}
        return names & IMPURE_MODULES | calls & IMPURE_CALLS | attributes & IMPURE_ATTRIBUTES

    assert violations(side_effects) == {}


def test_only_listed_modules_of_pure_parts_read_files() -> None:
    def reads_files(module: Module) -> bool:
        return "read_text" in ast.dump(module.tree) or any(
            name.startswith("gpuenv.files.") for name in imports(module.tree)
        )

    assert {module.name for module in modules() if module.part in PURE and reads_files(module)} == EDGES


def test_broad_exception_handlers_are_listed() -> None:
    """A handler that raises again is not broad."""
    broad_handlers = [
        (module.name, function.name)
        for module in modules()
        for function in functions(module.tree)
        for node in nodes(function)
        if isinstance(node, ast.ExceptHandler) and _is_broad(node) and not _raises_again(node)
    ]
    assert sorted(broad_handlers) == sorted(BROAD)
    handlers_at_module_level = [node for module in modules() for node in module.tree.body if isinstance(node, ast.Try)]
    assert handlers_at_module_level == [], "every handler is in a function"


def _is_broad(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or getattr(kind, "id", "") in BROAD_KINDS for kind in kinds)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_nothing_suppresses_every_exception() -> None:
    def broad_suppressions(module: Module) -> set[str]:
        calls = (node for node in nodes(module.tree) if isinstance(node, ast.Call) and call_name(node) == "suppress")
        return {getattr(kind, "id", "") for call in calls for kind in call.args} & set(BROAD_KINDS)

    assert violations(broad_suppressions) == {}


def test_every_module_has_a_docstring() -> None:
    assert [module.name for module in modules() if not ast.get_docstring(module.tree)] == []


def test_no_function_is_a_copy_of_another_function() -> None:
    """Two or more statements that differ only in the names of variables are a copy."""
    copies: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules():
        for function in functions(module.tree):
            body = function.body[1:] if ast.get_docstring(function) else function.body
            if sum(isinstance(node, ast.stmt) for statement in body for node in nodes(statement)) > 1:
                copies[_with_numbered_variables(function, body)].append(f"{module.name}.{function.name}")
    assert [places for places in copies.values() if len(places) > 1] == []


def _with_numbered_variables(function: ast.AST, body: list[ast.stmt]) -> str:
    """The body of a function as text, with its parameters and variables numbered in order of appearance."""
    variables = {node.arg for node in nodes(function) if isinstance(node, ast.arg)}
    variables |= {node.id for node in nodes(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    numbers: dict[str, int] = {}

    def number_of(match: re.Match[str]) -> str:
        name = match[1]
        return f"variable {numbers.setdefault(name, len(numbers))}" if name in variables else name

    return re.sub(r"\b(?:Name\(id|arg\(arg)='(\w+)'", number_of, "".join(map(ast.dump, body)))
