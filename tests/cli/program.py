"""Runs the program as a process, in an environment that the test defines."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuenv.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from multiprocessing.context import ForkServerContext

PROGRAM = (sys.executable, "-m", "gpuenv")
MINIMAL = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
LIMIT = 30.0
# Variables that the interpreter and the loader read when a process starts.
_AT_START = ("PYTHON", "LD_", "LC_", "LANG")
_PRELOADED = [  # imported by most commands
    *(
        "gpuenv.__main__",
        "gpuenv.cli.app",
        "gpuenv.cli.commands.preflight",
        "gpuenv.cli.diagnosis",
        "gpuenv.cli.output",
    ),
    *("gpuenv.doctor.checks", "gpuenv.explain.explainer", "gpuenv.image.rule_registry", "gpuenv.matrix.selection"),
    *("gpuenv.matrix.resolve", "gpuenv.matrix.what_if", "gpuenv.plugins.discovery", "gpuenv.preflight.evaluate"),
    *("gpuenv.probe.session", "gpuenv.report.redact", "gpuenv.report.text"),
]


def run_gpuenv(
    arguments: Iterable[str | Path],
    environment: Mapping[str, str],
    limit: float,
    cwd: Path | None = None,
    python: str | Path = sys.executable,
    text: bytes = b"",
) -> subprocess.CompletedProcess[str]:
    """Runs the program in exactly this environment, with a text on standard input; a traceback fails the test.

    The process is a fork of one that has imported the program, which saves most of the time of a start, unless the
    environment changes how an interpreter starts.
    """
    at_start = {name: value for name, value in environment.items() if name.startswith(_AT_START)}
    command = [str(python), "-m", "gpuenv", *map(str, arguments)]
    if str(python) == sys.executable and at_start.items() <= MINIMAL.items():
        result = _run_forked(command, environment, limit, cwd, text)
    else:
        done = subprocess.run(
            command, env=dict(environment), cwd=cwd, input=text, capture_output=True, check=False, timeout=limit
        )
        texts = [output.decode().replace("\r\n", "\n") for output in (done.stdout, done.stderr)]
        result = subprocess.CompletedProcess(command, done.returncode, *texts)
    assert "Traceback" not in result.stderr, result.stderr
    return result


@cache
def _fork_server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


def _run_forked(
    command: list[str], environment: Mapping[str, str], limit: float, cwd: Path | None, text: bytes
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        if text:
            streams[0].write_bytes(text)
        else:
            streams[0] = Path(os.devnull)
        arguments = (command[3:], dict(environment), cwd or Path.cwd(), streams)
        process = _fork_server().Process(target=_run_here, args=arguments)
        process.start()
        process.join(limit)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, limit)
        texts = [path.read_text(encoding="utf-8") for path in streams[1:]]
    return subprocess.CompletedProcess(command, process.exitcode, *texts)


def _run_here(arguments: list[str], environment: dict[str, str], folder: Path, streams: list[Path]) -> None:
    """Runs the program in this process, with these files as its streams; does not return."""
    for number, (path, mode) in enumerate(zip(streams, ("rb", "wb", "wb"), strict=True)):
        with path.open(mode) as file:
            os.dup2(file.fileno(), number)
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", errors="surrogateescape") for number in (1, 2))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    tempfile.tempdir = None  # named by the former environment
    sys.argv = ["gpuenv", *arguments]
    main()


def gpuenv(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the program in a minimal environment."""
    return run_gpuenv(arguments, {**MINIMAL, **(environment or {})}, LIMIT, cwd)


def full_answer(
    arguments: Iterable[str | Path], environment: Mapping[str, str], limit: float, cwd: Path | None = None
) -> tuple[int, Any]:
    """The exit code and the unredacted JSON object on standard output."""
    result = run_gpuenv([*arguments, "--format", "json", "--no-redact"], environment, limit, cwd)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


def answer(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """The exit code and the JSON object on standard output."""
    result = gpuenv(*arguments, "--format", "json", environment=environment)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)
