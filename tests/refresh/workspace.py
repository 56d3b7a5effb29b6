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
from gpuenv.matrix.canonical import matrix_text
from gpuenv.matrix.load import read_values, to_matrix

_TABLES = ("schema", "driver_branches", "cuda_majors", "cuda_minors", "generations", "wheel_lines", "sources")


def _small() -> str:
    """Returns the shipped matrix with one release of one wheel line, without the newest CUDA minor and companions."""
    shipped, _ = read_values(data_path("matrix.yaml").read_text(encoding="utf-8"), "matrix.yaml")
    values = {key: shipped[key] for key in ("revision", *_TABLES)}
    values["cuda_minors"] = [row for row in values["cuda_minors"] if row["cuda"] != "13.5"]
    line = next(line for line in values["wheel_lines"] if line["name"] == "cupy-cuda13x")
    releases = [row for row in line["releases"] if row["cupy"] == "14.1.1"]
    values["wheel_lines"] = [{**line, "releases": releases}]
    return matrix_text(to_matrix(values, "matrix.yaml", {}), values, {})


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
    return re.sub(r"(seen: '|revision: ')\d{4}-\d\d-\d\d", "", text)
