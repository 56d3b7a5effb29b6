"""The version of each toolkit's compiler, also with compilers that hang or fail."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from gpuenv.model.snapshot import SourceState
from gpuenv.probe.assembly import assemble
from gpuenv.probe.driver_probes import probe_nvcc
from gpuenv.probe.raw import RawFacts
from gpuenv.probe.request import ProbeRequest
from gpuenv.probe.session import take_snapshot
from tests.probe.probe_runs import MINIMAL, probe_context
from tests.probe.raw_facts import KernelFacts, RawToolkit

# The output of CUDA 13.0's compiler.
OUTPUT = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Built on Wed_Aug_20_01:58:59_PM_PDT_2025
Cuda compilation tools, release 13.0, V13.0.88
Build cuda_13.0.r13.0/compiler.36424714_0
"""


def toolkit(folder: Path, script: str, *, version: str | None = "13.0.1") -> str:
    (folder / "bin").mkdir(parents=True)
    (folder / "include").mkdir()
    (folder / "include/cuda_runtime.h").touch()
    if version:
        (folder / "version.json").write_text(json.dumps({"cuda": {"version": version}}), encoding="utf-8")
    compiler = folder / "bin/nvcc"
    compiler.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    compiler.chmod(0o755)
    return str(folder)


def prints(text: str) -> str:
    return f"cat <<'END'\n{text}END"


def toolkits_at(*paths: str) -> KernelFacts:
    return KernelFacts(toolkits=tuple(RawToolkit(path, "folder", "13.0", "version.json", nvcc=True) for path in paths))


def test_the_release_of_a_compiler_is_read_from_its_output(tmp_path: Path) -> None:
    path = toolkit(tmp_path / "cuda", prints(OUTPUT))
    releases, source = probe_nvcc(probe_context(), toolkits_at(path))
    assert releases == {path: "13.0"}
    assert (source.name, source.state, source.detail) == ("nvcc", SourceState.ANSWERED, f"{path}/bin/nvcc")


@pytest.mark.parametrize(
    ("script", "state", "words"),
    [
        ("exit 3", SourceState.FAILED, "exit code 3"),
        ("kill -SEGV $$", SourceState.CRASHED, "SIGSEGV"),
        ("sleep 60", SourceState.TIMED_OUT, "no answer"),
        ("echo hello", SourceState.FAILED, "no release in its output"),
        (prints("Cuda compilation tools, release thirteen\n"), SourceState.FAILED, "no release"),
    ],
)
def test_a_failing_compiler_is_a_failed_source(tmp_path: Path, script: str, state: SourceState, words: str) -> None:
    broken, working = toolkit(tmp_path / "bad", script), toolkit(tmp_path / "good", prints(OUTPUT))
    releases, source = probe_nvcc(probe_context(), toolkits_at(working, broken))
    assert releases == {working: "13.0"}
    assert source.state is state
    assert words in (source.detail or "")
    assert (source.detail or "").startswith(broken)


def test_a_missing_compiler_is_an_absent_source() -> None:
    releases, source = probe_nvcc(probe_context(), KernelFacts(toolkits=(RawToolkit("/opt/cuda", "folder", "12.4"),)))
    assert (releases, source.state) == ({}, SourceState.ABSENT)


def test_the_compiler_of_another_root_is_not_run(tmp_path: Path) -> None:
    root = tmp_path / "root"
    marker = tmp_path / "marker"
    toolkit(root / "usr/local/cuda-13.0", f"touch {marker}")
    snapshot = take_snapshot(ProbeRequest(environment=MINIMAL, root=str(root)))
    assert snapshot.source("nvcc").state is SourceState.ABSENT
    assert [kit.path for kit in snapshot.toolkits] == ["/usr/local/cuda-13.0"]
    assert not marker.exists()


def test_a_hung_compiler_does_not_affect_other_sources(tmp_path: Path) -> None:
    path = toolkit(tmp_path / "cuda", "sleep 60 & sleep 60")
    started = time.monotonic()
    snapshot = take_snapshot(ProbeRequest(environment={**MINIMAL, "CUDA_PATH": path}, timeout=4))
    assert time.monotonic() - started < 6
    assert snapshot.source("nvcc").state is SourceState.TIMED_OUT
    assert snapshot.source("kernel").state is SourceState.ANSWERED
    (kit,) = (kit for kit in snapshot.toolkits if kit.path == path)
    assert (str(kit.toolkit.value), kit.toolkit.source, kit.toolkit.others) == ("13.0", "version.json", ())


def test_a_compilers_differing_version_is_kept_next_to_the_files(tmp_path: Path) -> None:
    path = toolkit(tmp_path / "cuda", prints(OUTPUT), version="12.4.1")
    (tmp_path / "cuda/include/cuda.h").write_text("#define CUDA_VERSION 12060\n", encoding="utf-8")
    (tmp_path / "cuda/version.txt").write_text("CUDA Version 12.5.0\n", encoding="utf-8")
    snapshot = take_snapshot(ProbeRequest(environment={**MINIMAL, "CUDA_HOME": path}))
    (kit,) = (kit for kit in snapshot.toolkits if kit.path == path)
    assert (str(kit.toolkit.value), kit.toolkit.source, kit.found_via) == ("12.4", "version.json", "CUDA_HOME")
    assert [(str(answer.value), answer.source) for answer in kit.toolkit.others] == [
        ("12.6", "cuda.h"),
        ("12.5", "version.txt"),
        ("13.0", "nvcc"),
    ]


def test_a_toolkit_without_version_file_is_listed_by_its_compiler(tmp_path: Path) -> None:
    path = toolkit(tmp_path / "cuda", prints(OUTPUT), version=None)
    snapshot = take_snapshot(ProbeRequest(environment={**MINIMAL, "CUDA_HOME": path}))
    assert [(str(kit.toolkit.value), kit.toolkit.source) for kit in snapshot.toolkits if kit.path == path] == [
        ("13.0", "nvcc")
    ]
    silent = KernelFacts(toolkits=(RawToolkit("/opt/cuda", "folder", nvcc=True),))
    assert assemble(RawFacts(kernel=silent), None).toolkits == ()


def test_a_variable_that_names_a_missing_folder_is_reported(tmp_path: Path) -> None:
    environment = {**MINIMAL, "CUDA_PATH": "/nowhere", "CUDA_HOME": "/opt"}
    assert take_snapshot(ProbeRequest(environment=environment, root=str(tmp_path))).pointing_nowhere == (
        "CUDA_PATH",
        "CUDA_HOME",
    )
    (tmp_path / "opt").mkdir()
    assert take_snapshot(ProbeRequest(environment=environment, root=str(tmp_path))).pointing_nowhere == ("CUDA_PATH",)
