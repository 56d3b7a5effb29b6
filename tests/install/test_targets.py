"""Targets: unusable ones, those named by a Jupyter kernel, and consent on a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.gpus import SIMULATED
from gpuenv.probe.jupyter_kernels import kernel_interpreter
from gpuenv.probe.target import TargetError
from tests.cli.program import PROGRAM
from tests.install.sandbox import LIMIT, MACHINE, contents, install_outcome, versions
from tests.install.test_install import NEW
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox


def kernelspec(folder: Path, name: str, *argv: str, language: str = "python") -> Path:
    path = folder / "kernels" / name / "kernel.json"
    path.parent.mkdir(parents=True)
    spec = {"argv": [*argv, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": language}
    path.write_text(json.dumps(spec), encoding="utf-8")
    return path


def test_an_install_into_the_environment_of_a_kernel_is_undone(sandbox: Sandbox) -> None:
    target = sandbox.target("science")
    kernelspec(sandbox.folder / ".local/share/jupyter", "science", str(target / "bin/python"))
    result = sandbox.gpuenv("install", "--kernel", "Science", "--yes", *MACHINE)
    assert result.returncode == 0, result.stderr
    assert versions(target) == NEW
    result = sandbox.gpuenv("rollback", "--yes", "--kernel", "science")
    assert result.returncode == 0, result.stderr
    assert versions(target) == {}


def test_an_environment_without_pyvenv_cfg_is_refused(sandbox: Sandbox) -> None:
    """Its interpreter would install into another Python."""
    target = sandbox.target("lost")
    (target / "pyvenv.cfg").unlink()
    former = contents(target)
    result = sandbox.install(target)
    assert result.returncode == 7, result.stderr
    assert "pyvenv.cfg" in result.stderr
    assert contents(target) == former


def broken_interpreter(sandbox: Sandbox, how: str) -> Path:
    """An environment whose interpreter does not answer."""
    target = sandbox.target("broken")
    if how == "base gone":
        for name in target.glob("bin/python*"):
            name.unlink()
        (target / "bin/python3").symlink_to("/nonexistent/python3")
    else:
        (site,) = target.glob("lib/python*/site-packages")
        run_at_start(site, {"hook hangs": "import time; time.sleep(600)", "hook fails": "import os; os._exit(3)"}[how])
    return target


@pytest.mark.parametrize(
    ("how", "command"),
    [("base gone", "install --dry-run"), ("hook hangs", "install --dry-run"), ("hook fails", "lock")],
)
def test_the_remedy_for_a_silent_interpreter_is_the_doctor(sandbox: Sandbox, how: str, command: str) -> None:
    """Its environment may be fine."""
    target = broken_interpreter(sandbox, how)
    result = sandbox.gpuenv(*command.split(), "--python", target, "--timeout", "2", *MACHINE)
    assert result.returncode == 7, result.stderr
    assert result.stderr.endswith(f"\nFind the cause: gpuenv doctor --python {target}\n"), result.stderr


def test_the_remedy_for_a_deleted_active_environment_is_the_doctor(sandbox: Sandbox) -> None:
    for arguments in (("install", "--dry-run", *MACHINE), ("rollback", "--list")):
        result = sandbox.gpuenv(*arguments, VIRTUAL_ENV=str(sandbox.folder / "deleted"))
        assert result.returncode == 7, result.stderr
        assert result.stderr.endswith("\nFind the cause: gpuenv doctor\n"), result.stderr


def test_kernel_and_python_options_exclude_each_other(sandbox: Sandbox) -> None:
    result = sandbox.gpuenv("install", "--kernel", "x", "--python", "y")
    assert result.returncode == 2
    assert "exclude each other" in result.stderr
    result = sandbox.gpuenv("install", "--kernel", "x")
    assert result.returncode == 2
    assert "there is no Jupyter kernel 'x'" in result.stderr


def test_kernels_are_found_in_the_search_order_of_jupyter(tmp_path: Path) -> None:
    """A bare ``python`` means the environment that Jupyter runs in."""
    home, data, active, other = (tmp_path / name for name in ("home", "data", "active", "other"))
    kernelspec(home / ".local/share/jupyter", "mine", "/opt/mine/bin/python3.12")
    kernelspec(active / "share/jupyter", "python3", "python")
    kernelspec(active / "share/jupyter", "mine", "/opt/other/bin/python")
    kernelspec(data, "moved", "/opt/moved/bin/pypy3")
    kernelspec(other, "mine", "/opt/first/bin/python")
    (active / "bin").mkdir()
    (active / "bin/python").touch(mode=0o755)
    variables = {"HOME": str(home), "VIRTUAL_ENV": str(active), "PATH": ""}
    assert kernel_interpreter("mine", variables) == "/opt/mine/bin/python3.12"
    assert kernel_interpreter("MINE", {**variables, "JUPYTER_PATH": str(other)}) == "/opt/first/bin/python"
    assert kernel_interpreter("python3", variables) == str(active / "bin/python")
    assert kernel_interpreter("moved", {**variables, "JUPYTER_DATA_DIR": str(data)}) == "/opt/moved/bin/pypy3"
    assert kernel_interpreter(str(data / "kernels/moved"), variables) == "/opt/moved/bin/pypy3"
    (active / "bin/jupyter").touch(mode=0o755)
    by_path = {"HOME": str(home), "PATH": str(active / "bin")}
    assert kernel_interpreter("python3", by_path) == str(active / "bin/python")


@pytest.mark.parametrize(
    ("argv", "language", "message"),
    [
        (("conda", "run", "-n", "x", "python"), "python", "started through conda"),
        (("R", "--slave"), "R", "a kernel of R"),
        (("python3",), "python", "neither in its environment nor on PATH"),
        (("./python",), "python", "not an absolute path"),
    ],
)
def test_a_kernel_without_a_known_interpreter_is_refused(
    tmp_path: Path, argv: tuple[str, ...], language: str, message: str
) -> None:
    kernelspec(tmp_path, "odd", *argv, language=language)
    with pytest.raises(TargetError, match=message):
        kernel_interpreter("odd", {"JUPYTER_PATH": str(tmp_path), "HOME": str(tmp_path), "PATH": ""})


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"argv": []}', '{"argv": [1]}', '{"argv": "python"}', "[" * 100000]
)
def test_a_malformed_kernelspec_is_refused(tmp_path: Path, content: str) -> None:
    spec = kernelspec(tmp_path, "bad", "x")
    spec.write_text(content, encoding="utf-8")
    with pytest.raises(TargetError, match=r"kernelspec"):
        kernel_interpreter(str(spec), {})
    with pytest.raises(TargetError, match="no Jupyter kernel"):
        kernel_interpreter("..", {"JUPYTER_PATH": str(tmp_path), "HOME": str(tmp_path)})


def test_an_unreadable_kernelspec_is_refused() -> None:
    with pytest.raises(TargetError, match="the kernelspec cannot be read: File name too long"):
        kernel_interpreter(f"/{'x' * 5000}", {})


@pytest.mark.parametrize("answer", ["y", "n", "\x04"], ids=["yes", "no", "end"])
def test_an_install_on_a_terminal_asks_for_consent(sandbox: Sandbox, answer: str) -> None:
    target = sandbox.target("terminal")
    before = contents(target)
    output, code = run_on_a_terminal(sandbox, answer, "install", "--python", target, *MACHINE)
    assert "+ cupy-cuda12x 14.2.0" in output
    assert "Proceed? [y/N]" in output
    assert "Traceback" not in output
    if answer == "y":
        assert code == 0, output
        assert "INSTALLED" in output
        assert versions(target) == NEW
    else:
        assert code == (2 if answer == "n" else 130), output
        assert contents(target) == before


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_rollback_on_a_terminal_asks_for_consent(sandbox: Sandbox, answer: str) -> None:
    target = sandbox.target("terminal")
    before = contents(target)
    install_outcome(sandbox, target)
    installed = contents(target)
    output, code = run_on_a_terminal(sandbox, answer, "rollback", "--python", target)
    assert "- cupy-cuda12x 14.2.0" in output
    assert "Proceed? [y/N]" in output
    assert (contents(target), code) == ((before, 0) if answer == "y" else (installed, 2)), output


def test_a_rollback_without_a_terminal_needs_consent(sandbox: Sandbox) -> None:
    target = sandbox.target("script")
    before = contents(target)
    install_outcome(sandbox, target)
    installed = contents(target)
    refused = sandbox.gpuenv("rollback", "--python", target)
    assert (refused.returncode, contents(target)) == (2, installed)
    assert "Pass --yes to accept the plan." in refused.stderr
    accepted = sandbox.gpuenv("rollback", "--python", target, "-y", "-q")
    assert (accepted.returncode, accepted.stderr, contents(target)) == (0, "", before)


def run_on_a_terminal(sandbox: Sandbox, answer: str, *arguments: str | Path) -> tuple[str, int]:
    """Runs the program on a terminal, answers the prompt, and returns the output and the exit code."""
    terminal, child_end = pty.openpty()
    command = [*PROGRAM, *map(str, arguments)]
    process = subprocess.Popen(
        command,
        env=sandbox.environment(TERM="xterm", COLUMNS="80"),
        stdin=child_end,
        stdout=child_end,
        stderr=child_end,
    )
    os.close(child_end)
    output, answered, until = "", False, time.monotonic() + LIMIT
    while time.monotonic() < until:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                output += os.read(terminal, 65536).decode("utf-8", "replace")
            except OSError:  # the other side is closed
                break
        elif process.poll() is not None:
            break
        if "[y/N]" in output and not answered:
            os.write(terminal, (answer if answer == "\x04" else f"{answer}\n").encode())
            answered = True
    os.close(terminal)
    return output, process.wait(LIMIT)


def test_an_install_on_a_gpu_machine_must_pass_the_smoke_test(sandbox: Sandbox) -> None:
    """The simulated machine claims a real GPU, on which the stand-in for CuPy cannot compute."""
    target = sandbox.target("gpu", "numpy==2.1.0")
    before = contents(target)
    command = (*PROGRAM, "install", "--python", str(target), "--yes", "--format", "json")
    result = sandbox.gpuenv("simulate", "h100-535", "--", "env", "-u", SIMULATED, *command)
    assert result.returncode == 4, result.stderr
    outcome = json.loads(result.stdout)
    assert outcome["status"] == "restored"
    assert outcome["message"].startswith("The install failed: smoke test:"), outcome["message"]
    assert contents(target) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_can_undo_an_install_that_it_made_with_any_umask(sandbox: Sandbox) -> None:
    """And the remedy for an environment that every user can write to makes it usable."""
    target = sandbox.target("umask", "numpy==2.1.0")
    subprocess.run(["chmod", "-R", "o+w", str(target)], check=True)
    former = os.umask(0)
    try:
        refused = sandbox.install(target)
        assert refused.returncode == 2, refused.stderr
        assert f"chmod -R go-w {target}" in " ".join(refused.stderr.split())
        subprocess.run(["chmod", "-R", "go-w", str(target)], check=True)
        assert sandbox.install(target).returncode == 0
        undone = sandbox.gpuenv("rollback", "--yes", "--python", target)
    finally:
        os.umask(former)
    assert undone.returncode == 0, undone.stderr
