"""The script that runs in the target's interpreter, of any version and in any state."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuenv.model.snapshot import SourceState
from gpuenv.probe.assembly import assemble
from gpuenv.probe.context import target_command
from gpuenv.probe.protocol import parse_facts
from gpuenv.probe.raw import RawFacts
from gpuenv.probe.target import find_interpreter
from tests.probe.probe_runs import MINIMAL, target_of
from tests.probe.pythons import python
from tests.probe.targets import NOTHING, libraries_request, program
from tests.probe.venvs import interpreter_of, site_packages
from tests.support.target import run_at_start

OLD = ["2.7", "3.6", "3.7", "3.8", "3.9"]
NEW = ["3.10", "3.11", "3.12", "3.13", "3.14"]


@pytest.mark.parametrize("version", OLD + NEW)
def test_an_interpreter_of_any_version_prints_its_facts(version: str) -> None:
    facts, source = target_of(python(version))
    assert source.state is SourceState.ANSWERED, source.detail
    assert facts.python is not None
    assert facts.python.startswith(version + ".")
    assert facts.implementation == "cpython"
    assert facts.executable is not None
    assert Path(facts.executable).samefile(python(version))
    assert facts.prefix is not None
    assert Path(facts.prefix).is_dir()
    assert facts.kind in ("system", "conda")


@pytest.mark.parametrize("version", OLD + NEW)
def test_the_libraries_script_runs_on_an_interpreter_of_any_version(version: str) -> None:
    libraries = [{"name": "c", "soname": "libc.so.6"}, {"name": "no", "soname": "libnothing.so.1"}]
    for finder in ("loader", "pathfinder"):
        command = [*target_command(str(python(version)), "libraries", libraries_request(finder, libraries))]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=MINIMAL, timeout=20)
        assert done.returncode == 0, done.stderr
        facts = parse_facts(done.stdout)
        assert facts["done"] is True
        assert Path(facts["library.c"]["path"]).name.startswith("libc")
        assert facts["library.no"]["path"] is None
        assert "libnothing.so.1" in facts["library.no"]["error"]


def test_a_virtual_environment_is_distinguished_from_its_base_python(venv: Path) -> None:
    facts, source = target_of(interpreter_of(venv))
    assert source.state is SourceState.ANSWERED
    assert (facts.kind, facts.prefix) == ("venv", str(venv))
    assert facts.python == ".".join(map(str, sys.version_info[:3]))
    assert facts.externally_managed is False


def test_a_prefix_with_condas_records_is_recognised_as_condas(venv: Path) -> None:
    (venv / "conda-meta").mkdir()
    assert target_of(interpreter_of(venv))[0].kind == "conda"


def test_an_environment_in_a_folder_of_any_name_is_recognised(tmp_path: Path) -> None:
    folder = tmp_path / "mes environnements été 環境"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    for encoding in ("C.UTF-8", "C", "POSIX"):
        facts, _ = target_of(interpreter_of(folder), {"LC_ALL": encoding})
        assert facts.prefix == str(folder)


def test_an_environment_whose_base_python_was_removed_is_reported_as_broken(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.symlink_to(sys.base_prefix)
    interpreter = base / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not interpreter.exists():
        pytest.skip(f"this Python has no {interpreter.name} in its prefix")
    venv = tmp_path / "venv"
    subprocess.run([str(interpreter), "-m", "venv", "--without-pip", "--symlinks", str(venv)], check=True)
    assert target_of(interpreter_of(venv))[1].state is SourceState.ANSWERED
    base.unlink()
    facts, source = target_of(interpreter_of(venv))
    assert facts == NOTHING
    assert source.state is SourceState.FAILED
    assert source.detail == "could not be started: No such file or directory"
    # It is still an environment; the doctor reports that it is broken.
    assert find_interpreter(str(venv), {}) == str(interpreter_of(venv))


NOISY_HOOK = """
import atexit, os, sys
sys.stdout.write("welcome to the cluster\\n" * 1000)
sys.stdout.write('gpuenv:{"prefix": "/nowhere", "kind": "conda"}\\n')
sys.stdout.write("gpuenv:{broken\\ngpuenv: 1\\n{}\\nno newline at the end of this: ")
sys.stderr.write("a warning\\n" * 1000)
os.write(1, b"\\xff\\xfe bytes that are not text\\n")
atexit.register(lambda: sys.stdout.write("goodbye\\n"))
"""


def test_output_of_a_startup_hook_is_ignored(venv: Path) -> None:
    expected, _ = target_of(interpreter_of(venv))
    run_at_start(site_packages(venv), NOISY_HOOK)
    reported, source = target_of(interpreter_of(venv))
    assert source.state is SourceState.ANSWERED
    assert reported == expected


@pytest.mark.parametrize(
    "replacement", ["open(os.devnull, 'w')", "sys.stderr", "None", "__import__('io').StringIO()", "object()"]
)
def test_an_interpreter_answers_even_if_a_hook_replaces_standard_output(venv: Path, replacement: str) -> None:
    """Such as a hook that redirects output to a log; import cupy still works."""
    expected, _ = target_of(interpreter_of(venv))
    hook = f"import os, sys\nsys.stdout = {replacement}\n"
    run_at_start(site_packages(venv), hook)
    reported, source = target_of(interpreter_of(venv))
    assert source.state is SourceState.ANSWERED, source.detail
    assert reported == expected


@pytest.mark.parametrize("error", ["RuntimeError('no')", "ImportError('no')", "KeyError(1)", "OSError(13, 'no')"])
def test_an_interpreter_whose_startup_hook_raises_still_answers(venv: Path, error: str) -> None:
    """Python prints a warning and continues."""
    run_at_start(site_packages(venv), f"raise {error}\n")
    facts, source = target_of(interpreter_of(venv))
    assert source.state is SourceState.ANSWERED, source.detail
    assert facts.kind == "venv"


def test_an_interpreter_with_a_broken_path_file_still_answers(venv: Path) -> None:
    (site_packages(venv) / "hook.pth").write_text("import no_such_module_anywhere\n", encoding="utf-8")
    assert target_of(interpreter_of(venv))[1].state is SourceState.ANSWERED


@pytest.mark.parametrize(
    ("hook", "state", "message"),
    [
        ("import sys; sys.exit(3)", SourceState.FAILED, "exit code "),
        ("import os; os._exit(7)", SourceState.FAILED, "exit code 7"),
        ("import os; os._exit(0)", SourceState.FAILED, "exit code 0"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGABRT)", SourceState.CRASHED, "SIGABRT"),
    ],
)
def test_an_interpreter_that_a_hook_ends_is_reported_as_broken(
    venv: Path, hook: str, state: SourceState, message: str
) -> None:
    run_at_start(site_packages(venv), hook)
    facts, source = target_of(interpreter_of(venv))
    assert (facts, source.state) == (NOTHING, state)
    assert message in (source.detail or "")


def test_an_interpreter_that_a_hook_blocks_is_reported_at_the_deadline(venv: Path) -> None:
    run_at_start(site_packages(venv), "import time; time.sleep(60)")
    started = time.monotonic()
    facts, source = target_of(interpreter_of(venv), limit=0.5)
    assert (facts, source.state) == (NOTHING, SourceState.TIMED_OUT)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\necho I am not Python\n",
        "#!/bin/sh\nhead -c 4000000 /dev/urandom\n",
        "#!/bin/sh\necho 'gpuenv:[]'; echo 'gpuenv:null'; echo 'gpuenv:{'\n",
        "#!/bin/sh\necho 'pyenv: python3: command not found' >&2; exit 127\n",
        "#!/bin/sh\nexit 0\n",
        "#!/bin/sh\nkill -9 $$\n",
        "not even a script\n",
        "",
    ],
    ids=["words", "noise", "marks without facts", "shim", "silence", "crash", "text", "empty"],
)
def test_a_program_that_is_not_python_is_reported_as_broken(tmp_path: Path, text: str) -> None:
    facts, source = target_of(program(tmp_path / "python3", text))
    assert facts == NOTHING
    assert source.state in (SourceState.FAILED, SourceState.CRASHED)
    assert source.detail


def test_the_error_of_a_failing_interpreter_is_reported(tmp_path: Path) -> None:
    # As pyenv 2.6.30 prints it.
    lines = ("pyenv: python3: command not found", "", "Note: See 'pyenv help global' for tips on allowing multiple")
    text = "".join(f"echo {shlex.quote(line)} >&2\n" for line in lines)
    shim = program(tmp_path / "python3", f"#!/bin/sh\n{text}exit 127\n")
    detail = target_of(shim)[1].detail
    assert detail == "exit code 127: pyenv: python3: command not found"


def test_facts_of_the_wrong_type_are_dropped(tmp_path: Path) -> None:
    lines = [
        {"python": 3.12},
        {"implementation": ["cpython"]},
        {"kind": "venv"},
        {"distributions": "none"},
        {"externally_managed": "no"},
        {"prefix": "/somewhere"},
        {"done": True},
    ]
    message = "\n".join(f"gpuenv:{json.dumps(line)}" for line in lines)
    facts, source = target_of(program(tmp_path / "python3", f"#!/bin/sh\ncat <<'END'\n{message}\nEND\n"))
    assert source.state is SourceState.ANSWERED
    target = assemble(RawFacts(target=facts), None).target
    readings = (target.python, target.implementation, target.kind, target.externally_managed, target.prefix)
    assert [reading.value for reading in readings] == [None, None, "venv", None, "/somewhere"]
    assert target.packages == {}


def test_a_module_of_the_standard_library_shadowed_by_pythonpath_is_named(tmp_path: Path, venv: Path) -> None:
    """A project's json.py breaks every program there, CuPy too: the target is broken, and the cause must be named."""
    (tmp_path / "json.py").write_text("raise ImportError('this is the json of a project')\n", encoding="utf-8")
    facts, source = target_of(interpreter_of(venv), {"PYTHONPATH": str(tmp_path)})
    assert (facts, source.state) == (NOTHING, SourceState.FAILED)
    assert "this is the json of a project" in (source.detail or "")


def test_a_target_that_the_kernel_kills_is_reported_with_the_likely_reason(venv: Path) -> None:
    hook = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n"
    (site_packages(venv) / "hook.pth").write_text(hook, encoding="utf-8")
    _, source = target_of(interpreter_of(venv))
    assert (source.state, source.detail) == (SourceState.FAILED, "killed by SIGKILL, mostly for lack of memory")


def test_the_machine_is_probed_with_any_pythonpath(tmp_path: Path) -> None:
    """PYTHONPATH affects only the target, not the facts of the kernel and the driver."""
    (tmp_path / "json.py").write_text("raise ImportError('this is the json of a project')\n", encoding="utf-8")
    environment = {**MINIMAL, "PYTHONPATH": str(tmp_path)}
    code = (
        "import time; from gpuenv.probe.context import *; from gpuenv.probe.driver_probes import *\n"
        f"ctx = ProbeContext({environment!r}, '/', time.monotonic() + 20, ChildGroup())\n"
        "kernel, cuda = kernel_facts(run_script(ctx, 'kernel', '/')), cuda_facts(run_script(ctx, 'cuda'))\n"
        "print(*(source.state.value for facts, source in (kernel, cuda, nvml_facts(run_nvml(ctx)))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=MINIMAL)
    kernel, cuda, nvml = done.stdout.split()
    assert kernel == "answered"
    assert cuda in ("answered", "absent")
    assert nvml in ("answered", "absent")


def test_modules_next_to_the_script_do_not_shadow_the_targets(venv: Path) -> None:
    """There is a cuda.py among the probe scripts, and a package cuda of NVIDIA's."""
    package = site_packages(venv) / "cuda" / "pathfinder"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import ctypes\ndef load_nvidia_dynamic_lib(name):\n    raise RuntimeError('cannot load ' + name)\n",
        encoding="utf-8",
    )
    request = libraries_request("pathfinder", [{"name": "nvrtc", "soname": "libnothing.so.1"}])
    command = [*target_command(str(interpreter_of(venv)), "libraries", request)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=MINIMAL, timeout=20)
    reported = parse_facts(done.stdout)
    assert "pathfinder_error" not in reported
    # The error of cuda-pathfinder takes precedence over the loader's "not found".
    assert reported["library.nvrtc"]["error"] == "cannot load nvrtc"


def test_probing_leaves_no_bytecode_in_the_target(venv: Path) -> None:
    run_at_start(site_packages(venv), "import usercustomize_of_this_test\n")
    (site_packages(venv) / "usercustomize_of_this_test.py").write_text("", encoding="utf-8")
    before = sorted(venv.rglob("*"))
    assert target_of(interpreter_of(venv))[1].state is SourceState.ANSWERED
    assert sorted(venv.rglob("*")) == before
