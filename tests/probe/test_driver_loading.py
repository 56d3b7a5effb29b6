"""Driver libraries that are missing or have a missing dependency."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuenv.model.snapshot import SourceState
from gpuenv.probe.children import ChildResult, Ending
from gpuenv.probe.context import script
from gpuenv.probe.driver_probes import nvml_facts
from gpuenv.simulate.stub_driver import compile_library
from tests.probe.probe_runs import MINIMAL, probe_context, probe_cuda, probe_nvml

MISSING = "libnvrm_gpu.so"  # of a Jetson's libcuda, and missing in some of its containers


def test_a_missing_library_is_an_absent_source(tmp_path: Path) -> None:
    ctx = probe_context({"LD_LIBRARY_PATH": str(tmp_path)})
    assert [probe_cuda(ctx)[1].state, probe_nvml(ctx)[1].state] == [SourceState.ABSENT] * 2


def test_a_dangling_link_is_an_absent_source(tmp_path: Path) -> None:
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (tmp_path / name).symlink_to(f"{name}.gone")
    ctx = probe_context({"LD_LIBRARY_PATH": str(tmp_path)})
    assert [probe_cuda(ctx)[1].state, probe_nvml(ctx)[1].state] == [SourceState.ABSENT] * 2


def test_a_library_with_a_missing_dependency_is_a_failed_source(tmp_path: Path) -> None:
    """It is not absent, since its file exists."""
    compile_library(Path(os.devnull), MISSING, tmp_path / MISSING)
    linked = ["-Wl,--no-as-needed", str(tmp_path / MISSING)]
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        command = ["cc", "-shared", "-fPIC", *linked, f"-Wl,-soname,{name}", "-o", str(tmp_path / name)]
        subprocess.run(command, check=True, timeout=60)
    (tmp_path / MISSING).unlink()
    ctx = probe_context({"LD_LIBRARY_PATH": str(tmp_path)})
    for _, source in (probe_cuda(ctx), probe_nvml(ctx)):
        assert source.state is SourceState.FAILED
        assert f"{MISSING}: cannot open shared object file: No such file" in (source.detail or "")


@pytest.mark.parametrize(
    ("message", "state"),
    [
        ("Error loading shared library libnvidia-ml.so.1: No such file or directory", SourceState.ABSENT),
        (
            f"Error loading shared library {MISSING}: No such file or directory (needed by /usr/lib/libnvidia-ml.so.1)",
            SourceState.FAILED,
        ),
        ("libnvidia-ml.so.1: file too short", SourceState.FAILED),
    ],
)
def test_musls_message_distinguishes_a_library_from_its_dependency(message: str, state: SourceState) -> None:
    facts = "".join(f"gpuenv:{json.dumps({key: value})}\n" for key, value in (("init", 12), ("message", message)))
    assert nvml_facts(ChildResult(Ending.EXITED, 0, facts, "", None, 0.1, 0.0))[1].state is state


def test_the_path_of_a_mapped_library_is_read_in_any_locale(tmp_path: Path) -> None:
    """The locale's encoding, by which Python decodes text, does not fit this name."""
    library = tmp_path / "mü" / "libcublas.so.12"
    library.parent.mkdir()
    compile_library(Path(os.devnull), library.name, library)
    code = (
        "import ctypes, os, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from libraries import mapped\n"
        "ctypes.CDLL(sys.argv[2])\n"
        "sys.stdout.buffer.write(os.fsencode(mapped('libcublas.so')))\n"
    )
    environment = {**MINIMAL, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", code, str(Path(script("libraries.py")).parent), str(library)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)
    assert done.stdout.decode() == str(library), done.stderr
