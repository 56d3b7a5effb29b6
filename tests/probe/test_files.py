"""Verification of installed files against RECORD, with real wheels that uv installs and tests damage."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from gpuenv.model.snapshot import FileState, SourceState
from tests.probe.probe_runs import probe_context, probe_files, probe_files_of, probe_target
from tests.probe.pythons import python
from tests.probe.raw_facts import FileFacts
from tests.probe.venvs import install, interpreter_of, site_packages
from tests.support.target import metadata_wheel, run_at_start

CUPY = {"cupy/__init__.py": b"x = 1\n", "cupy/_core/core.so": b"code" * 100}
HEADER = b"#ifndef X\n#define CUDART_VERSION  12090\n#endif\n"


def files_of(interpreter: Path, *, deep: bool = False) -> FileFacts:
    facts, source = probe_files(probe_context(), str(interpreter), deep=deep)
    assert source.state is SourceState.ANSWERED, source.detail
    return facts


def faults(venv: Path, *, deep: bool = False) -> list[tuple[str, str]]:
    """The state and the path below site-packages of each fault."""
    facts = files_of(interpreter_of(venv), deep=deep)
    assert facts.file_faults_count == len(facts.file_faults)
    folder = site_packages(venv)
    return [(entry.state, str(Path(entry.path).relative_to(folder))) for entry in facts.file_faults]


@pytest.fixture(scope="module")
def original_cupy_venv(original_venv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cupy")
    venv = shutil.copytree(original_venv, folder / "venv", symlinks=True)
    install(venv, metadata_wheel(folder, "cupy-cuda12x==14.2.0", CUPY))
    return venv


@pytest.fixture
def cupy_venv(original_cupy_venv: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original_cupy_venv, tmp_path / "venv", symlinks=True)


def test_a_fresh_installation_has_no_faults(cupy_venv: Path) -> None:
    assert faults(cupy_venv) == []
    assert faults(cupy_venv, deep=True) == []


def test_a_missing_file_is_reported_with_its_distribution(cupy_venv: Path) -> None:
    (site_packages(cupy_venv) / "cupy/_core/core.so").unlink()
    assert faults(cupy_venv) == [("missing", "cupy/_core/core.so")]
    assert files_of(interpreter_of(cupy_venv)).file_faults[0].distributions == ("cupy-cuda12x",)


def test_a_file_of_another_size_is_reported(cupy_venv: Path) -> None:
    """Such as after a full disk or an interrupted copy."""
    os.truncate(site_packages(cupy_venv) / "cupy/_core/core.so", 10)
    assert faults(cupy_venv) == [("wrong-size", "cupy/_core/core.so")]


def test_changed_content_of_the_same_size_is_reported_with_deep(cupy_venv: Path) -> None:
    (site_packages(cupy_venv) / "cupy/__init__.py").write_bytes(b"x = 2\n")
    assert faults(cupy_venv) == []
    assert faults(cupy_venv, deep=True) == [("changed", "cupy/__init__.py")]


def test_files_shared_by_two_cupy_wheels_are_owned_twice(cupy_venv: Path, tmp_path: Path) -> None:
    install(cupy_venv, metadata_wheel(tmp_path, "cupy-cuda13x==14.2.0", {**CUPY, "cupy/_core/core.so": b"other"}))
    assert faults(cupy_venv) == [("owned-twice", "cupy/__init__.py"), ("owned-twice", "cupy/_core/core.so")]
    assert files_of(interpreter_of(cupy_venv)).file_faults[0].distributions == ("cupy-cuda12x", "cupy-cuda13x")


def test_a_file_shared_by_two_distributions_is_a_fault_only_if_it_differs(venv: Path, tmp_path: Path) -> None:
    """nvidia-nccl-cu12 and -cu13 install the same library's path; many CUDA wheels the same empty __init__.py."""
    cuda_12_files = {"nvidia/__init__.py": b"", "nvidia/nccl/lib/libnccl.so.2": b"for 12"}
    cuda_13_files = {"nvidia/__init__.py": b"", "nvidia/nccl/lib/libnccl.so.2": b"for CUDA 13"}
    install(venv, metadata_wheel(tmp_path, "nvidia-nccl-cu12==2.27.7", cuda_12_files))
    install(venv, metadata_wheel(tmp_path, "nvidia-nccl-cu13==2.27.7", cuda_13_files))
    assert faults(venv) == [("owned-twice", "nvidia/nccl/lib/libnccl.so.2")]


@pytest.mark.parametrize("path", ["nvidia/__init__.py", "nvidia/cuda_nvrtc/__init__.py"])
def test_a_missing_empty_module_of_nvidias_namespace_is_no_fault(venv: Path, tmp_path: Path, path: str) -> None:
    """Uninstalling the wheel of CUDA 13 removes the file, which that of CUDA 12 records as well."""
    library = "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"
    install(venv, metadata_wheel(tmp_path, "nvidia-cuda-nvrtc-cu12==12.9.86", {path: b"", library: b"12"}))
    (site_packages(venv) / path).unlink()
    assert faults(venv) == []
    (site_packages(venv) / library).unlink()
    assert faults(venv) == [("missing", library)]


@pytest.mark.parametrize("path", ["cupy/_core/__init__.py", "nvidia/dali/fn/__init__.py"])
def test_another_missing_module_is_a_fault(venv: Path, tmp_path: Path, path: str) -> None:
    content = b"" if path.startswith("cupy") else b"x = 1\n"
    install(venv, metadata_wheel(tmp_path, "cupy-cuda12x==14.2.0", {path: content}))
    (site_packages(venv) / path).unlink()
    assert faults(venv) == [("missing", path)]


def test_at_most_fifty_faults_are_listed_the_most_severe_first(venv: Path, tmp_path: Path) -> None:
    content = {f"cupy/m{number:02}.py": b"x\n" for number in range(60)}
    install(venv, metadata_wheel(tmp_path, "cupy-cuda12x==14.2.0", content))
    for number in range(59):
        (site_packages(venv) / f"cupy/m{number:02}.py").write_bytes(b"longer\n")
    (site_packages(venv) / "cupy/m59.py").unlink()
    facts = files_of(interpreter_of(venv))
    assert (len(facts.file_faults), facts.file_faults_count) == (50, 60)
    assert [entry.state for entry in facts.file_faults[:2]] == [FileState.MISSING, FileState.WRONG_SIZE]


def test_record_entries_outside_the_environment_are_ignored(cupy_venv: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    record = site_packages(cupy_venv) / "cupy_cuda12x-14.2.0.dist-info/RECORD"
    up = os.path.relpath(outside, site_packages(cupy_venv))
    lines = [f"{up},sha256=x,1", f"{outside},sha256=x,1", "/etc/passwd,sha256=x,1", "../../../../../../etc/hosts,,1"]
    lines += ["cupy/\0,sha256=x,1", ",,", "cupy/x,sha256=x,99999999999999999999999999", '"unclosed,' + "x" * 200000]
    record.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert faults(cupy_venv, deep=True) == [("missing", "cupy/x")]


def test_a_link_out_of_the_environment_is_not_read(cupy_venv: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"y = 1\n")
    module = site_packages(cupy_venv) / "cupy/__init__.py"
    module.unlink()
    module.symlink_to(tmp_path / "elsewhere")
    assert faults(cupy_venv, deep=True) == []


def test_a_fifo_in_place_of_a_module_does_not_block(cupy_venv: Path) -> None:
    module = site_packages(cupy_venv) / "cupy/__init__.py"
    module.unlink()
    os.mkfifo(module)
    assert faults(cupy_venv, deep=True) == []


def test_the_size_of_condas_files_is_not_checked(cupy_venv: Path) -> None:
    folder = site_packages(cupy_venv)
    (folder / "cupy_cuda12x-14.2.0.dist-info/INSTALLER").write_text("conda", encoding="utf-8")
    os.truncate(folder / "cupy/_core/core.so", 10)
    assert faults(cupy_venv, deep=True) == []
    (folder / "cupy/_core/core.so").unlink()
    assert faults(cupy_venv) == [("missing", "cupy/_core/core.so")]


@pytest.mark.parametrize("version", ["2.7", "3.6"])
def test_the_files_of_an_old_interpreter_are_checked(version: str, tmp_path: Path) -> None:
    """With PYTHONPATH, since uv cannot create environments for the oldest versions."""
    wheel = metadata_wheel(tmp_path, "cupy-cuda12x==14.2.0", CUPY)
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (tmp_path / "site/cupy/__init__.py").write_bytes(b"x = 2\n")
    (tmp_path / "site/cupy/_core/core.so").unlink()
    environment = {"PYTHONPATH": str(tmp_path / "site")}
    facts, source = probe_files(probe_context(environment), str(python(version)), deep=True)
    assert source.state is SourceState.ANSWERED, source.detail
    reported = [entry for entry in facts.file_faults if Path(entry.path).is_relative_to(tmp_path)]
    assert [entry.state for entry in reported] == [FileState.MISSING, FileState.CHANGED]


@pytest.mark.parametrize(
    ("files", "path"),
    [
        (["nvidia/cu13/include/cuda_runtime_api.h", "nvidia/cu13/lib/libnvrtc.so.13"], "nvidia/cu13"),
        (["nvidia/cuda_runtime/include/cuda_runtime_api.h", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"], "nvidia"),
    ],
    ids=["unified", "splayed"],
)
def test_a_toolkit_of_wheels_is_found(venv: Path, files: list[str], path: str) -> None:
    for file in files:
        installed_file = site_packages(venv) / file
        installed_file.parent.mkdir(parents=True)
        installed_file.write_bytes(HEADER)
    (kit,) = files_of(interpreter_of(venv)).toolkits
    assert (kit.path, kit.found_via, kit.toolkit) == (str(site_packages(venv) / path), "wheels", "12.9")
    assert (kit.has_nvrtc, kit.has_headers) == (True, True)


def test_a_toolkit_of_conda_is_found(venv: Path) -> None:
    (venv / "conda-meta").mkdir()
    include = venv / "targets/x86_64-linux/include"
    include.mkdir(parents=True)
    (include / "cuda_runtime_api.h").write_bytes(HEADER)
    (kit,) = files_of(interpreter_of(venv)).toolkits
    assert (kit.path, kit.found_via, kit.toolkit) == (str(venv), "conda", "12.9")
    assert (kit.has_nvrtc, kit.has_headers) == (False, True)


def test_the_files_of_a_target_on_another_file_system_are_not_checked(cupy_venv: Path) -> None:
    """Such as in a container that a wrapper enters, whose paths name other folders outside of it."""
    (site_packages(cupy_venv) / "cupy/_core/core.so").unlink()
    ctx = probe_context()
    target, source = probe_target(ctx, str(interpreter_of(cupy_venv)))
    elsewhere = target.plus(prefix_identity=[target.prefix_identity[0], target.prefix_identity[1] + 1])
    facts, files_source = probe_files_of(ctx, elsewhere, source, deep=False)
    assert (facts.file_faults_count, files_source.state) == (None, SourceState.FAILED)
    assert "another file system" in (files_source.detail or "")


def test_a_path_entry_that_is_not_text_does_not_hide_the_others(cupy_venv: Path) -> None:
    (site_packages(cupy_venv) / "cupy/_core/core.so").unlink()
    hook = "import pathlib, sys\nsys.path.append(pathlib.Path('/nowhere'))\nsys.path.append(b'bytes')\n"
    run_at_start(site_packages(cupy_venv), hook)
    assert faults(cupy_venv) == [("missing", "cupy/_core/core.so")]


def test_files_are_not_reported_as_intact_without_an_import_path(cupy_venv: Path) -> None:
    ctx = probe_context()
    target, source = probe_target(ctx, str(interpreter_of(cupy_venv)))
    facts, files_source = probe_files_of(ctx, target.plus(path=[]), source, deep=False)
    assert (facts.file_faults_count, files_source.state, files_source.detail) == (
        None,
        SourceState.FAILED,
        "the target's import path is unknown",
    )
