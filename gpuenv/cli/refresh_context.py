"""The index client, folders and tools with which ``gpuenv matrix refresh`` measures."""

from __future__ import annotations

import os
import shutil
import sys
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

from gpuenv.cli.command_errors import CommandError, announce, announce_once
from gpuenv.cli.refresh_progress import ProgressBar
from gpuenv.cli.sources import own_environment
from gpuenv.clock import today
from gpuenv.files import own_folder, user_cache
from gpuenv.matrix.tables import Matrix
from gpuenv.model.exit_codes import ExitCode
from gpuenv.probe.interpreters import module_command
from gpuenv.refresh.binaries import find_cuobjdump
from gpuenv.refresh.minors import compile_stub
from gpuenv.refresh.package_index import Index, PipIndex, UvIndex
from gpuenv.refresh.row_edits import RefreshContext


class IndexClient(str, Enum):
    """The tool that reaches the package index."""

    UV = "uv"
    PIP = "pip"


def new_context(before: Matrix, scratch: Path, installer: IndexClient | None) -> RefreshContext:
    """The context of a refresh; announces the tools that are missing.

    Raises:
        CommandError: when there is neither uv nor pip, or not the named one.
    """
    environment = own_environment()
    stub = scratch / "stub"
    stub.mkdir()
    has_stub = compile_stub(stub, environment)
    if not has_stub:
        announce("no C compiler found: which drivers a cudart accepts is not measured")
    cuobjdump = find_cuobjdump(environment)
    if cuobjdump is None:
        announce("cuobjdump was not found: only gpuenv's own reader reads the GPU code")
    return RefreshContext(
        index=_index(installer, environment, scratch),
        environment=environment,
        cache=(own_folder(user_cache(os.environ), announce_once) or scratch) / "refresh",
        scratch=scratch,
        today=today(),
        progress=ProgressBar(),
        cuobjdump=cuobjdump,
        stub=stub if has_stub else None,
        levels=tuple(sorted({row.cuda for row in before.driver_branches} | {row.cuda for row in before.cuda_minors})),
    )


def _index(installer: IndexClient | None, environment: dict[str, str], scratch: Path) -> Index:
    """The named index client, else uv if installed, else pip."""
    uv, pip = _program("uv"), _program("pip")
    if uv and installer is not IndexClient.PIP:
        return UvIndex(uv, environment, scratch)
    if pip and installer is not IndexClient.UV:
        return PipIndex(pip, environment, scratch)
    name = installer.value if installer else "uv or pip"
    raise CommandError(ExitCode.COULD_NOT_CHECK, f"refreshing the matrix needs {name}", "python -m pip install uv")


def _program(name: str) -> tuple[str, ...]:
    if find_spec(name) is not None:
        return module_command(sys.executable, name)
    program = shutil.which(name)
    return (program,) if program else ()
