"""A target named by a Jupyter kernel, and consent on a terminal."""

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

from gpuenv.model.gpus import VARIABLE
from gpuenv.probe.jupyter_kernels import kernel_interpreter
from gpuenv.probe.target import TargetError
from tests.cli.program import PROGRAM
from tests.install.sandbox import LIMIT, MACHINE, contents, versions
from tests.install.test_install import NEW

if TYPE_CHECKING:
    from tests.install.sandbox import Ground


def kernelspec(folder: Path, name: str, *argv: str, language: str = "python") -> Path:
    path = folder / "kernels" / name / "kernel.json"
    path.parent.mkdir(parents=True)
    told = {"argv": [*argv, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": language}
    path.write_text(json.dumps(told), encoding="utf-8")
    return path


def test_a_kernel_s_environment_is_installed_into(ground: Ground) -> None:
    target = ground.target("science")
    kernelspec(ground.folder / ".local/share/jupyter", "science", str(target / "bin/python"))
    done = ground.gpuenv("install", "--kernel", "Science", "--yes", *MACHINE)
    assert done.returncode == 0, done.stderr
    assert versions(target) == NEW
    done = ground.gpuenv("rollback", "--kernel", "science")
    assert done.returncode == 0, done.stderr
    assert versions(target) == {}


def test_an_environment_that_has_lost_its_settings_is_not_passed_over(ground: Ground) -> None:
    """Its interpreter is that of another Python by now, into which nobody wants anything installed."""
    target = ground.target("lost")
    (target / "pyvenv.cfg").unlink()
    former = contents(target)
    done = ground.install(target)
    assert done.returncode == 7, done.stderr
    assert "pyvenv.cfg" in done.stderr
    assert contents(target) == former


def test_both_ways_to_name_a_target(ground: Ground) -> None:
    done = ground.gpuenv("install", "--kernel", "x", "--python", "y")
    assert done.returncode == 2
    assert "exclude each other" in done.stderr
    done = ground.gpuenv("install", "--kernel", "x")
    assert done.returncode == 2
    assert "there is no Jupyter kernel 'x'" in done.stderr


def test_where_a_kernel_is_looked_for(tmp_path: Path) -> None:
    """In Jupyter's own order; the environment that Jupyter runs in stands for a bare python."""
    home, data, active, other = (tmp_path / name for name in ("home", "data", "active", "other"))
    kernelspec(home / ".local/share/jupyter", "mine", "/opt/mine/bin/python3.12")
    kernelspec(active / "share/jupyter", "python3", "python")
    kernelspec(active / "share/jupyter", "mine", "/opt/other/bin/python")
    kernelspec(data, "moved", "/opt/moved/bin/pypy3")
    kernelspec(other, "mine", "/opt/first/bin/python")
    (active / "bin").mkdir()
    (active / "bin/python").touch(mode=0o755)
    here = {"HOME": str(home), "VIRTUAL_ENV": str(active), "PATH": ""}
    assert kernel_interpreter("mine", here) == "/opt/mine/bin/python3.12"
    assert kernel_interpreter("MINE", {**here, "JUPYTER_PATH": str(other)}) == "/opt/first/bin/python"
    assert kernel_interpreter("python3", here) == str(active / "bin/python")
    assert kernel_interpreter("moved", {**here, "JUPYTER_DATA_DIR": str(data)}) == "/opt/moved/bin/pypy3"
    assert kernel_interpreter(str(data / "kernels/moved"), here) == "/opt/moved/bin/pypy3"
    (active / "bin/jupyter").touch(mode=0o755)
    by_path = {"HOME": str(home), "PATH": str(active / "bin")}
    assert kernel_interpreter("python3", by_path) == str(active / "bin/python")


@pytest.mark.parametrize(
    ("argv", "language", "said"),
    [
        (("conda", "run", "-n", "x", "python"), "python", "started through conda"),
        (("R", "--slave"), "R", "a kernel of R"),
        (("python3",), "python", "neither in its environment nor on PATH"),
        (("./python",), "python", "not an absolute path"),
    ],
)
def test_a_kernel_whose_interpreter_cannot_be_seen(
    tmp_path: Path, argv: tuple[str, ...], language: str, said: str
) -> None:
    kernelspec(tmp_path, "odd", *argv, language=language)
    with pytest.raises(TargetError, match=said):
        kernel_interpreter("odd", {"JUPYTER_PATH": str(tmp_path), "HOME": str(tmp_path), "PATH": ""})


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"argv": []}', '{"argv": [1]}', '{"argv": "python"}', "[" * 100000]
)
def test_what_is_no_kernelspec(tmp_path: Path, content: str) -> None:
    spec = kernelspec(tmp_path, "bad", "x")
    spec.write_text(content, encoding="utf-8")
    with pytest.raises(TargetError, match=r"kernelspec"):
        kernel_interpreter(str(spec), {})
    with pytest.raises(TargetError, match="no Jupyter kernel"):
        kernel_interpreter("..", {"JUPYTER_PATH": str(tmp_path), "HOME": str(tmp_path)})


def test_a_kernelspec_that_cannot_be_looked_at() -> None:
    with pytest.raises(TargetError, match="the kernelspec cannot be read: File name too long"):
        kernel_interpreter(f"/{'x' * 5000}", {})


@pytest.mark.parametrize("answer", ["y", "n", "\x04"], ids=["yes", "no", "end"])
def test_the_question_on_a_terminal(ground: Ground, answer: str) -> None:
    target = ground.target("asked")
    before = contents(target)
    told, code = on_a_terminal(ground, target, f"{answer}\n" if answer != "\x04" else answer)
    assert "+ cupy-cuda12x 14.2.0" in told
    assert "Proceed? [y/N]" in told
    assert "Traceback" not in told
    if answer == "y":
        assert code == 0, told
        assert "INSTALLED" in told
        assert versions(target) == NEW
    else:
        assert code == (2 if answer == "n" else 130), told
        assert contents(target) == before


def on_a_terminal(ground: Ground, target: Path, answer: str) -> tuple[str, int]:
    """What is shown, and the exit code; the answer is typed as soon as the question is there."""
    ours, theirs = pty.openpty()
    command = [*PROGRAM, "install", "--python", str(target), *MACHINE]
    process = subprocess.Popen(
        command, env=ground.environment(TERM="xterm", COLUMNS="80"), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown, asked, until = "", False, time.monotonic() + LIMIT
    while time.monotonic() < until:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                shown += os.read(ours, 65536).decode("utf-8", "replace")
            except OSError:  # the other side is closed
                break
        elif process.poll() is not None:
            break
        if "[y/N]" in shown and not asked:
            os.write(ours, answer.encode())
            asked = True
    os.close(ours)
    return shown, process.wait(LIMIT)


def test_where_there_is_a_gpu_it_has_to_compute(ground: Ground) -> None:
    """A pretend machine has one, and does not say that it is none; what stands in for CuPy cannot compute there."""
    target = ground.target("gpu", "numpy==2.1.0")
    before = contents(target)
    command = (*PROGRAM, "install", "--python", str(target), "--yes", "--format", "json")
    done = ground.gpuenv("simulate", "h100-535", "--", "env", "-u", VARIABLE, *command)
    assert done.returncode == 4, done.stderr
    told = json.loads(done.stdout)
    assert told["status"] == "restored"
    assert told["message"].startswith("The install failed: smoke test:"), told["message"]
    assert contents(target) == before
