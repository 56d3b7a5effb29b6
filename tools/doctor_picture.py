"""Draws ``docs/_static/doctor.svg``, the report on a simulated machine: ``make picture``.

The program runs on a terminal, and rich draws what it prints there.
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gpuenv.simulate.profile import TargetSpec
from tests.support.target import Targets

PICTURE = Path(__file__).parents[1] / "docs/_static/doctor.svg"
MACHINE = Path(__file__).parents[1] / "tests/machines/v100-580.yaml"
PACKAGES = ("cupy-cuda13x==14.2.0", "numpy==2.3.4")
WIDTH = 88


def report() -> list[str]:
    """The lines that ``gpuenv doctor`` prints to a terminal: a V100, no CUDA toolkit, and CuPy for CUDA 13.

    The environment has the metadata of its packages alone. The host's name and the date of the matrix are left out.
    """
    # Its name has always the same length, so that the commands with it are always wrapped in the same way.
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        environment = Targets(folder).interpreter(TargetSpec(packages=PACKAGES)).parents[1]
        (folder / "env").symlink_to(environment)
        profile = MACHINE.read_text(encoding="utf-8")
        (folder / "v100.yaml").write_text(profile.replace("toolkit: 12.9\n", ""), encoding="utf-8")
        command = ["gpuenv", "simulate", "./v100.yaml", "--", "gpuenv", "doctor", "--python", "env"]
        text = on_terminal(command, folder).partition("\x1b[2mMatrix revision")[0]
    text = text.replace(str(environment), "~/env").replace(str(folder / "env"), "~/env")
    return [line for line in text.rstrip().splitlines() if not line.startswith("  host ")]


def on_terminal(command: Sequence[str], folder: Path) -> str:
    """What a command prints to a terminal of this width, with its colours."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (200, WIDTH))
    variables = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm-256color",
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
    }
    with subprocess.Popen(command, cwd=folder, env=variables, stdout=theirs, stdin=subprocess.DEVNULL):
        os.close(theirs)
        output = b"".join(iter(lambda: _read(ours), b""))
        os.close(ours)
    return output.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux reports the end of a terminal in this way
        return b""


def picture(lines: Sequence[str]) -> str:
    """The lines as an SVG that loads nothing."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi("$ gpuenv doctor --python env\n" + "\n".join(lines)))
    svg = console.export_svg(title="gpuenv doctor", unique_id="doctor")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def main() -> None:
    """Writes the picture."""
    PICTURE.write_text(picture(report()), encoding="utf-8")


if __name__ == "__main__":
    main()
