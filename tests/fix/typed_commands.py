"""Types the commands that a report prints into a shell."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.install.sandbox import LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_OF_THE_SHELL = ("_", "SHLVL", "PWD", "OLDPWD", "PATH")


def by_hand(report: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - JSON
    """The fixes of the first finding up to the first alternative, without the command that repairs by itself."""
    is_first = True
    for fix in report["findings"][0]["fix"]:
        command = fix["command"] or []
        if command[:1] == ["gpuenv"] and is_first:
            continue
        if fix["text"].startswith(("Or ", "If ")) and not is_first:
            return
        is_first = False
        yield fix


def type_commands(
    report: Any,  # noqa: ANN401 - JSON
    environment: Mapping[str, str],
    folder: Path,
    options: tuple[str, ...],
    limit: float = LIMIT,
) -> tuple[str, dict[str, str]]:
    """Runs the commands in one shell, gpuenv with more options; returns what a user sees, and the variables then."""
    lines = []
    for fix in by_hand(report):
        words = fix["command"] or []
        if words[:1] == ["gpuenv"]:
            words = [sys.executable, "-m", *words, *options]
        lines += [shlex.join(["echo", f"> {fix['text']}"]), fix["shell_line"] or shlex.join(words)]
    variables = folder / "variables"
    script = "\n".join(("exec 2>&1", "set -v", *lines, f"env -0 > {shlex.quote(str(variables))}"))
    done = subprocess.run(
        ["bash"],
        input=script,
        env=dict(environment),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    entries = (entry.partition("=") for entry in variables.read_text(encoding="utf-8").split("\0") if entry)
    return done.stdout, {name: value for name, _, value in entries if name not in _OF_THE_SHELL}
