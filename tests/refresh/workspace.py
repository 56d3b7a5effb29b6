"""A small matrix to refresh, and the environment of a user whose installers know only a local index."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gpuenv.data import data_path

TEXT = data_path("matrix.yaml").read_text(encoding="utf-8")
_LINE = "  - name: cupy-cuda13x"


def _small() -> str:
    """Returns the shipped matrix with one release of one wheel line, without the newest CUDA minor and companions."""
    head, _, tables = TEXT.partition("\nwheel_lines:\n")
    releases = [line for line in tables.splitlines() if "source: cupy-cuda13x-14.1.1}" in line]
    products = tables[tables.index("\nproducts:\n") + 1 :]
    lines = [line for line in head.splitlines() if "nvrtc-13.5" not in line and "cupy-cuda13x-14.2.0:" not in line]
    line = [_LINE, "    cuda_major: 13", "    first_cuda: 13.0", "    source: cupy-install", "    releases:", *releases]
    return "\n".join([*lines, "wheel_lines:", *line, "", products])


SMALL = _small()


@dataclass(frozen=True, slots=True)
class Workspace:
    """A matrix to refresh, and the environment of a user whose installers know only the local index."""

    matrix: Path
    environment: dict[str, str]

    def start(self, *options: str, limit: int | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "gpuenv", "matrix", "refresh", "--matrix", str(self.matrix), *options]

        def bounded() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored in background processes of a shell
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        return subprocess.Popen(
            command,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=bounded,  # noqa: PLW1509 - no threads
        )

    def run(self, *options: str, limit: int | None = None) -> tuple[int, str, str]:
        child = self.start(*options, limit=limit)
        out, error = child.communicate(timeout=900)
        assert "Traceback" not in error, error
        return child.returncode, out, error

    @property
    def text(self) -> str:
        return self.matrix.read_text(encoding="utf-8")


def user_environment(index: str, folder: Path) -> dict[str, str]:
    """Returns the environment of a user whose home is a folder."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TMPDIR": str(folder / "tmp"),
        "UV_CACHE_DIR": str(folder / "uv"),
        "UV_DEFAULT_INDEX": f"{index}/simple/",
        "UV_NO_CONFIG": "1",
        "UV_HTTP_RETRIES": "0",
        "UV_PYTHON_DOWNLOADS": "never",
        "PIP_INDEX_URL": f"{index}/simple/",
        "PIP_CACHE_DIR": str(folder / "pip"),
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": os.devnull,
    }


def without_dates(text: str) -> str:
    return re.sub(r"(seen: |revision: ')\d{4}-\d\d-\d\d", "", text)
