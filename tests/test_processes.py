"""Programs, the driver and the network, held by syntax trees: who may start, load or ask them."""

from __future__ import annotations

import ast

from tests.support.syntax_trees import (
    PAYLOAD,
    SCRIPTS,
    SUPERVISOR,
    Module,
    called,
    functions,
    imports,
    modules,
    nodes,
    strangers,
)

STARTERS = {"Popen", "run", "call", "check_call", "check_output"}


def test_nothing_goes_through_a_shell() -> None:
    def shells(module: Module) -> set[str]:
        calls = [node for node in nodes(module.tree) if isinstance(node, ast.Call)]
        told = {f"shell=, line {call.lineno}" for call in calls for word in call.keywords if word.arg == "shell"}
        return told | {called(call) for call in calls} & {"system", "popen", "getoutput", "getstatusoutput"}

    assert strangers(shells) == {}


def test_a_program_is_started_with_a_list_of_words() -> None:
    """A text would be taken apart by whoever runs it; the types do not tell, since a text is a sequence of texts."""
    starts = [
        (f"{module}, line {node.lineno}", bool(node.args) and _is_list(node.args[0], function))
        for module in modules()
        for function in functions(module.tree)
        for node in nodes(function)
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
        for node in nodes(function)
        if isinstance(node, ast.Assign) and any(getattr(to, "id", "") == name for to in node.targets)
    ]
    kinds = [
        ast.unparse(a.annotation) for a in nodes(function) if isinstance(a, ast.arg) and a.arg == name and a.annotation
    ]
    return all(isinstance(value, ast.List) for value in given) and (bool(given) or kinds == ["Sequence[str]"])


def test_programs_are_started_in_one_module_alone() -> None:
    """And by programs that run in a child themselves, and where the caller's own program runs.

    The target's script asks musl's loader for its version, the supervisor of the smoke tests starts one, and a smoke
    test asks another library in a process without CuPy. The commands of ``gpuenv run`` and ``gpuenv simulate`` are the
    user's own, with the user's own terminal and no deadline.
    """
    importing = {module.name for module in modules() if "subprocess" in set(imports(module.tree))}
    in_children = {f"{SCRIPTS}.interpreter", SUPERVISOR, f"{PAYLOAD}.main", f"{PAYLOAD}.tests.interop"}
    assert importing == {"gpuenv.probe.children", "gpuenv.cli.commands.run", "gpuenv.simulate.launcher", *in_children}


def test_no_process_is_made_without_subprocess() -> None:
    """But by the payload and the supervisor of the smoke tests, in the target."""
    making = {"fork", "forkpty", "posix_spawn", "posix_spawnp", "execv", "execve", "execvp", "execvpe", "spawnv"}
    found = {
        (module.name, node.func.attr)
        for module in modules()
        for node in nodes(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in making
        if getattr(node.func.value, "id", "") == "os"
    }
    own = {entry for entry in found if not entry[0].startswith("gpuenv.smoke.")}
    assert own == set()


def test_the_driver_is_loaded_in_scripts_alone() -> None:
    """The supervisor and a script ask the kernel for what Python cannot; a test reads managed memory by its address."""
    importing = {module.name for module in modules() if {"ctypes", "pynvml"} & set(imports(module.tree))}
    without_driver = {SUPERVISOR, f"{SCRIPTS}.shared", f"{PAYLOAD}.tests.memory"}
    assert importing - without_driver == {
        f"{SCRIPTS}.{name}" for name in ("nvml", "cuda", "hold", "libraries", "nvrtc")
    }


def test_nothing_uses_the_network() -> None:
    """But for one question to a registry."""
    asking = {"gpuenv.image.check.http": {"urllib", "http", "ssl"}, "gpuenv.image.check.registry_client": {"urllib"}}

    def used(module: Module) -> set[str]:
        names = {name.split(".")[0] for name in imports(module.tree)}
        attributes = {
            node.attr
            for node in nodes(module.tree)
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "socket"
        }
        network = {"urllib", "http", "ssl", "requests", "ftplib", "asyncio"} - asking.get(module.name, set())
        known = (
            {"requests"} if module.name == "gpuenv.image.check.local_images" else set[str]()
        )  # what Docker's SDK raises
        return names & (network - known) | attributes - {"gethostname"}

    assert strangers(used) == {}
