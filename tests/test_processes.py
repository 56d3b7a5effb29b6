"""Modules that may start processes, load the driver or use the network, checked on syntax trees."""

from __future__ import annotations

import ast

from tests.support.syntax_trees import (
    PAYLOAD,
    SCRIPTS,
    SUPERVISOR,
    Module,
    call_name,
    functions,
    imports,
    modules,
    nodes,
    violations,
)

STARTERS = {"Popen", "run", "call", "check_call", "check_output"}


def test_no_process_is_started_through_a_shell() -> None:
    def shell_calls(module: Module) -> set[str]:
        calls = [node for node in nodes(module.tree) if isinstance(node, ast.Call)]
        keywords = {f"shell=, line {call.lineno}" for call in calls for word in call.keywords if word.arg == "shell"}
        return keywords | {call_name(call) for call in calls} & {"system", "popen", "getoutput", "getstatusoutput"}

    assert violations(shell_calls) == {}


def test_processes_are_started_with_a_list_of_arguments() -> None:
    """The type checker cannot find a string here, since a string is a sequence of strings."""
    starts = [
        (f"{module}, line {node.lineno}", bool(node.args) and _is_list(node.args[0], function))
        for module in modules()
        for function in functions(module.tree)
        for node in nodes(function)
        if isinstance(node, ast.Call) and _starts_a_program(node)
    ]
    assert [place for place, is_list in starts if not is_list] == []
    assert len(starts) >= 6


def _starts_a_program(node: ast.Call) -> bool:
    if isinstance(node.func, ast.Attribute):
        return getattr(node.func.value, "id", "") == "subprocess" and node.func.attr in STARTERS
    return getattr(node.func, "id", "") == "run_child"


def _is_list(command: ast.expr, function: ast.AST) -> bool:
    """Whether the command is a list, a name assigned to a list, or a parameter annotated as a sequence of strings."""
    if isinstance(command, ast.List):
        return True
    name = getattr(command, "id", "")
    assigned = [
        node.value
        for node in nodes(function)
        if isinstance(node, ast.Assign) and any(getattr(to, "id", "") == name for to in node.targets)
    ]
    kinds = [
        ast.unparse(a.annotation) for a in nodes(function) if isinstance(a, ast.arg) and a.arg == name and a.annotation
    ]
    return all(isinstance(value, ast.List) for value in assigned) and (bool(assigned) or kinds == ["Sequence[str]"])


def test_processes_are_started_only_in_listed_modules() -> None:
    """Processes are started by the probe, by programs that run in a child, and to run the caller's own program.

    The target's script runs musl's loader for its version, the supervisor of the smoke tests starts a process, and a
    smoke test queries another library in a process without CuPy. ``gpuenv run`` and ``gpuenv simulate`` run the
    user's command, with the user's terminal and no deadline; the magic of notebooks runs a command of gpuenv. Dask's
    workers get the function that starts one there.
    """
    importing = {module.name for module in modules() if "subprocess" in set(imports(module.tree))}
    in_children = {f"{SCRIPTS}.interpreter", SUPERVISOR, f"{PAYLOAD}.main", f"{PAYLOAD}.tests.interop"}
    on_workers = "gpuenv.fleet.runners.dask"
    here = {"gpuenv.probe.children", "gpuenv.cli.commands.run", "gpuenv.simulate.launcher", "gpuenv.ipython_extension"}
    assert importing == {*here, on_workers, *in_children}


def test_processes_are_started_only_with_subprocess() -> None:
    """Except by the payload and the supervisor of the smoke tests, in the target."""
    functions_of_os = {
        "fork",
        "forkpty",
        "posix_spawn",
        "posix_spawnp",
        "execv",
        "execve",
        "execvp",
        "execvpe",
        "spawnv",
    }
    callers = {
        (module.name, node.func.attr)
        for module in modules()
        for node in nodes(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in functions_of_os
        if getattr(node.func.value, "id", "") == "os"
    }
    outside_smoke = {entry for entry in callers if not entry[0].startswith("gpuenv.smoke.")}
    assert outside_smoke == set()


def test_the_driver_is_loaded_only_in_scripts() -> None:
    """Other uses of ctypes are system calls that Python lacks, and a test that reads managed memory by address."""
    importing = {module.name for module in modules() if {"ctypes", "pynvml"} & set(imports(module.tree))}
    without_driver = {SUPERVISOR, f"{SCRIPTS}.shared", f"{PAYLOAD}.tests.memory"}
    assert importing - without_driver == {
        f"{SCRIPTS}.{name}" for name in ("nvml", "cuda", "hold", "libraries", "nvrtc", "watch")
    }


def test_only_listed_modules_use_the_network() -> None:
    """The only uses are a query to a registry and the download of a published matrix."""
    network_modules = {
        "gpuenv.cli.matrix_update": {"urllib", "http"},
        "gpuenv.image.inspect.registry": {"urllib", "http"},
        "gpuenv.net": {"urllib", "http", "ssl"},
    }

    def forbidden_uses(module: Module) -> set[str]:
        names = {name.split(".")[0] for name in imports(module.tree)}
        attributes = {
            node.attr
            for node in nodes(module.tree)
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "socket"
        }
        network = {"urllib", "http", "ssl", "requests", "ftplib", "asyncio"} - network_modules.get(module.name, set())
        return names & network | attributes - {"gethostname"}

    assert violations(forbidden_uses) == {}
