"""How the house is built, held by its syntax trees: who imports whom, what is pure, and what nobody may do."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gpuenv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE = Path(gpuenv.__file__).parent
SCRIPTS = "gpuenv.probe.scripts"
PAYLOAD = "gpuenv.smoke.payload"
SUPERVISOR = "gpuenv.smoke.supervisor"

# What the modules of each part of the package may import of the others, besides gpuenv itself for its version.
MAY_IMPORT = {
    "model": set[str](),
    "matrix": {"model"},
    "doctor": {"model", "matrix"},
    "explain": {"model", "matrix", "doctor"},
    "probe": {"model", "matrix", "doctor"},
    "paste": {"model", "matrix", "probe", "explain"},
    "preflight": {"model", "matrix", "toml_text"},
    "report": {"model", "matrix", "doctor", "explain", "preflight"},
    "image": {"model", "matrix", "doctor", "probe", "report", "install", "smoke", "toml_text"},
    "install": {"model", "matrix", "doctor", "probe", "report", "toml_text", "atomic"},
    "smoke": {"model", "probe"},
    "plugins": {"model", "doctor", "probe"},
    "data": set[str](),
    "atomic": set[str](),
    "toml_text": set[str](),
    "cli": {
        *("model", "matrix", "doctor", "explain", "probe", "preflight", "report", "image", "install", "smoke"),
        *("simulate", "refresh", "data", "atomic", "plugins", "paste", "began"),
    },
    "simulate": {"model", "matrix", "report", "probe", "data"},
    "pytest_plugin": {"model", "probe", "preflight", "report"},
    "refresh": {"model", "matrix", "probe", "toml_text"},
    "began": set[str](),
    "__main__": {"cli", "began"},
    "__init__": set[str](),
}
# Libraries of others, and the one place that may import each.
THIRD_PARTY = {
    "packaging": {"model", "matrix", "doctor", "probe", "preflight", "install", "refresh", "image", "paste"},
    "tomli": {"toml_text"},
    "yaml": {"gpuenv.matrix.strict_yaml"},
    "typer": {"cli"},
    "rich": {"gpuenv.cli.output"},
    "pynvml": {f"{SCRIPTS}.nvml"},
    "cuda": {f"{SCRIPTS}.libraries"},
    "docker": {"gpuenv.image.check.engine", "gpuenv.image.engine"},
    "requests": {"gpuenv.image.check.engine"},
    "urllib3": {"gpuenv.image.engine"},  # what the SDK lets through
    "cyclonedx": {"gpuenv.image.sbom"},
    "packageurl": {"gpuenv.image.sbom"},
    "pytest": {"pytest_plugin"},
    # What runs in the target environment.
    **{name: {"payload"} for name in ("numpy", "cupy", "cupyx", "torch", "numba", "jax", "ml_dtypes")},
}
# Parts without a touch of the world outside, and the modules in them that are its edge.
PURE = ("model", "matrix", "doctor", "explain", "paste", "preflight", "report")
EDGES = {"gpuenv.explain.table", "gpuenv.matrix.load", "gpuenv.preflight.config", "gpuenv.preflight.config_file"}
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
    ("gpuenv.cli.front", "run"),  # the last handler turns a fault of ours into a message
    ("gpuenv.probe.forked", "_run"),  # the end of a script, as its interpreter would tell it
    (f"{SCRIPTS}.importing", "main"),  # someone else's module
    (f"{SCRIPTS}.interpreter", "main"),  # someone else's interpreter
    (f"{SCRIPTS}.libraries", "finder"),  # someone else's package
    (f"{SCRIPTS}.libraries", "look"),  # likewise
    (f"{SCRIPTS}.libraries", "cupy_settings"),  # CuPy's own module
    (f"{SCRIPTS}.libraries", "optional_library"),  # likewise
    (f"{SCRIPTS}.libraries", "tell_settings"),  # likewise
    (f"{PAYLOAD}.harness", "census"),  # someone else's environment
    (f"{PAYLOAD}.harness", "demo"),  # likewise
    (f"{PAYLOAD}.harness", "run_test"),  # a test may raise anything: that is its answer
    (f"{PAYLOAD}.harness", "_run"),  # likewise
    (f"{PAYLOAD}.groundwork", "_compiled"),  # someone else's package
    (f"{PAYLOAD}.groundwork", "_library"),  # likewise
    (f"{PAYLOAD}.groundwork", "groundwork"),  # likewise
    (f"{PAYLOAD}.demos.fork_after_cuda_init", "mistake"),  # whatever it raises is what is to be shown
]
_FAMILIES = ("interpreter", "kernel", "library", "nvml")  # scripts in parts, which import each other
STARTERS = {"Popen", "run", "call", "check_call", "check_output"}


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


def imports(tree: ast.AST) -> Iterator[str]:
    """The full names that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def functions(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Every function with its name; what stands outside of all has none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node


def called(node: ast.Call) -> str:
    """``run`` of ``subprocess.run(...)``."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def strangers(rule: Callable[[Module], set[str]]) -> dict[str, set[str]]:
    """The modules that break a rule, each with what breaks it."""
    return {module.name: found for module in modules() if (found := rule(module))}


def test_the_whole_package_is_looked_at() -> None:
    assert {module.part for module in modules()} == set(MAY_IMPORT)
    assert len(modules()) > 50


def test_a_part_imports_only_those_below_it() -> None:
    def too_high(module: Module) -> set[str]:
        told = {name.split(".")[1] for name in imports(module.tree) if name.startswith("gpuenv.")}
        return told - MAY_IMPORT[module.part] - {module.part, "__version__"}

    assert strangers(too_high) == {}


def test_a_library_of_others_is_imported_in_its_one_place() -> None:
    def out_of_place(module: Module) -> set[str]:
        folder = PACKAGE / "probe/scripts"
        beside = {"telling", *(path.stem for of in _FAMILIES for path in folder.glob(f"{of}_*.py"))}
        ours = beside if module.name.startswith(f"{SCRIPTS}.") else set()
        names = {name.split(".")[0] for name in imports(module.tree)} - {"gpuenv", *sys.stdlib_module_names, *ours}
        here = {"payload"} if module.is_payload else {module.part, module.name}
        return {name for name in names if not THIRD_PARTY.get(name, set()) & here}

    assert strangers(out_of_place) == {}


def test_a_module_of_a_pure_part_touches_nothing_outside() -> None:
    def outside(module: Module) -> set[str]:
        if module.part not in PURE or module.name in EDGES:
            return set()
        names = {name.split(".")[0] for name in imports(module.tree)}
        calls = {called(node) for node in ast.walk(module.tree) if isinstance(node, ast.Call)}
        attributes = {node.attr for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)}
        return names & IMPURE_MODULES | calls & IMPURE_CALLS | attributes & IMPURE_ATTRIBUTES

    assert strangers(outside) == {}


def test_the_edges_of_the_pure_parts_are_where_they_are_said_to_be() -> None:
    assert {
        module.name for module in modules() if module.part in PURE and "read_text" in ast.dump(module.tree)
    } == EDGES


def test_broad_handlers_are_the_known_ones() -> None:
    """One that raises again catches nothing."""
    found = [
        (module.name, name)
        for module in modules()
        for name, function in functions(module.tree)
        for node in ast.walk(function)
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
        calls = (node for node in ast.walk(module.tree) if isinstance(node, ast.Call) and called(node) == "suppress")
        return {getattr(kind, "id", "") for call in calls for kind in call.args} & set(BROAD_KINDS)

    assert strangers(suppressed) == {}


def test_nothing_goes_through_a_shell() -> None:
    def shells(module: Module) -> set[str]:
        calls = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
        told = {f"shell=, line {call.lineno}" for call in calls for word in call.keywords if word.arg == "shell"}
        return told | {called(call) for call in calls} & {"system", "popen", "getoutput", "getstatusoutput"}

    assert strangers(shells) == {}


def test_a_program_is_started_with_a_list_of_words() -> None:
    """A text would be taken apart by whoever runs it; the types do not tell, since a text is a sequence of texts."""
    starts = [
        (f"{module}, line {node.lineno}", bool(node.args) and _is_list(node.args[0], function))
        for module in modules()
        for _, function in functions(module.tree)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and _starts_a_program(node)
    ]
    assert [place for place, right in starts if not right] == []
    assert len(starts) >= 6


def _starts_a_program(node: ast.Call) -> bool:
    if isinstance(node.func, ast.Attribute):
        return getattr(node.func.value, "id", "") == "subprocess" and node.func.attr in STARTERS
    return getattr(node.func, "id", "") == "run_child"


def _is_list(command: ast.expr, function: ast.AST) -> bool:
    """A list as written here, a name that is given one, or a parameter that wants a sequence of texts."""
    if isinstance(command, ast.List):
        return True
    name = getattr(command, "id", "")
    given = [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and any(getattr(to, "id", "") == name for to in node.targets)
    ]
    kinds = [
        ast.unparse(a.annotation)
        for a in ast.walk(function)
        if isinstance(a, ast.arg) and a.arg == name and a.annotation
    ]
    return all(isinstance(value, ast.List) for value in given) and (bool(given) or kinds == ["Sequence[str]"])


def test_programs_are_started_in_one_module_alone() -> None:
    """And by programs that run in a child themselves, and where the caller's own program runs.

    The target's script asks musl's loader for its version, the supervisor of the smoke tests starts one, and a
    demonstration shows how a worker is started. The commands of ``gpuenv run`` and ``gpuenv simulate`` are the user's
    own, with the user's own terminal and no deadline. A fork of our own is waited for as a program is.
    """
    importing = {module.name for module in modules() if "subprocess" in set(imports(module.tree))}
    in_children = {f"{SCRIPTS}.interpreter", SUPERVISOR, f"{PAYLOAD}.several", f"{PAYLOAD}.demos.fork_after_cuda_init"}
    own = {"gpuenv.probe.children", "gpuenv.probe.piped"}
    assert importing == {*own, "gpuenv.cli.passthrough", "gpuenv.simulate.run", *in_children}


def test_the_driver_is_loaded_in_scripts_alone() -> None:
    """The supervisor asks the kernel for what Python cannot; a test reads managed memory by its address."""
    importing = {module.name for module in modules() if {"ctypes", "pynvml"} & set(imports(module.tree))}
    without_driver = {SUPERVISOR, f"{PAYLOAD}.tests.memory_managed"}
    assert importing - without_driver == {
        f"{SCRIPTS}.{name}" for name in ("nvml", "nvml_loading", "cuda", "libraries", "library_versions", "nvrtc")
    }


def test_nothing_uses_the_network() -> None:
    """But for one question to a registry."""
    asking = {"gpuenv.image.check.http": {"urllib", "http", "ssl"}, "gpuenv.image.check.registry": {"urllib"}}

    def used(module: Module) -> set[str]:
        names = {name.split(".")[0] for name in imports(module.tree)}
        attributes = {
            node.attr
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "socket"
        }
        network = {"urllib", "http", "ssl", "requests", "ftplib", "asyncio"} - asking.get(module.name, set())
        known = {"requests"} if module.name == "gpuenv.image.check.engine" else set[str]()  # what Docker's SDK raises
        return names & (network - known) | attributes - {"gethostname"}

    assert strangers(used) == {}


def test_a_script_stands_on_its_own() -> None:
    """It is run by its path, in an interpreter that may have no gpuenv."""
    found = {
        module.name.rsplit(".", 1)[1]: {name.split(".")[0] for name in imports(module.tree)}
        for module in modules()
        if module.name.startswith(SCRIPTS)
    }
    family = {name for name in found if name.startswith("kernel_")} | {"telling"}
    others = {name: names - set(sys.stdlib_module_names) for name, names in found.items()}
    assert {name: names - family for name, names in others.items() if name in {"kernel", *family}} == {
        name: set() for name in {"kernel", *family}
    }, "the kernel's scripts import each other alone"
    alone = {name: names for name, names in others.items() if name not in {"kernel", *family}}
    assert alone == {
        "nvml": {"nvml_loading", "nvml_processes", "nvml_values", "pynvml", "telling"},
        "nvml_loading": set(),
        "nvml_processes": {"nvml_values"},
        "nvml_values": set(),
        "cuda": set(),
        "interpreter": {"interpreter_cupy", "interpreter_packages"},
        "interpreter_cupy": set(),
        "interpreter_packages": set(),
        "libraries": {"cuda", "library_files", "library_versions"},
        "library_files": set(),
        "library_versions": set(),
        "files": set(),
        "scheme": set(),
        "start": set(),
        "importing": set(),
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
        *("interpreter", "interpreter_cupy", "interpreter_packages", "libraries", "library_files"),
        *("library_versions", "scheme", "start", "importing"),
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


def test_every_module_says_what_it_is() -> None:
    assert [module.name for module in modules() if not ast.get_docstring(module.tree)] == []


def test_records_are_made_by_the_cheap_decorator() -> None:
    """A module with a record that changes needs the standard one; so does what runs without the package."""

    def standard(module: Module) -> bool:
        froms = (node for node in ast.walk(module.tree) if isinstance(node, ast.ImportFrom))
        if not any(node.module == "dataclasses" and "dataclass" in {a.name for a in node.names} for node in froms):
            return False
        classes = (node for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef))
        decorators = [entry for node in classes for entry in node.decorator_list if isinstance(entry, ast.Call)]
        return all("frozen" in {word.arg for word in entry.keywords} for entry in decorators)

    alone = (SCRIPTS, PAYLOAD, "gpuenv.pytest_plugin", "gpuenv.model.record")
    assert {module.name for module in modules() if standard(module) and not module.name.startswith(alone)} == set()
