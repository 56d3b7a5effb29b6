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
) -> list[str]:
    """Runs the commands with a shell, gpuenv with more options; returns what a user sees."""
    seen = []
    for fix in by_hand(report):
        seen.append(f"> {fix['text']}")
        if fix["command"] is None:
            continue
        line = shlex.join(fix["command"])
        if fix["command"][0] == "gpuenv":
            line = shlex.join([sys.executable, "-m", "gpuenv", *fix["command"][1:], *options])
        done = subprocess.run(
            ["bash", "-c", line],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
        seen.append(f"$ {line}\n{done.stdout[-500:]}{done.stderr[-500:]}[{done.returncode}]")
    return seen
