"""Distributions in a target, read from their metadata."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from gpuenv.model.snapshot import PackageLocation, SourceState
from tests.probe.probe_runs import probe_context, probe_libraries, target_of
from tests.probe.raw_facts import Distribution, TargetFacts
from tests.probe.targets import cupy_lines, distribution
from tests.probe.venvs import interpreter_of, site_packages


@pytest.mark.parametrize("form", ["dist-info", "egg-info folder", "egg-info file"])
def test_a_distribution_is_read_from_the_metadata_of_any_installer(venv: Path, form: str) -> None:
    distribution(site_packages(venv), "cupy-cuda12x", "14.2.0", form=form)
    facts, _ = target_of(interpreter_of(venv))
    other_facts = {"tags": [], "requires": [], "place": PackageLocation.ENVIRONMENT}
    assert facts.distributions == (Distribution("cupy-cuda12x", "14.2.0", str(site_packages(venv)), **other_facts),)


@pytest.mark.parametrize("spelling", ["CuPy_CUDA12x", "cupy.cuda12x", "cupy--cuda12x", "cupy-cuda12x"])
def test_a_name_is_reported_in_its_canonical_spelling(venv: Path, spelling: str) -> None:
    distribution(site_packages(venv), spelling, "14.2.0")
    assert cupy_lines(target_of(interpreter_of(venv))[0]) == [("cupy-cuda12x", "14.2.0")]


@pytest.mark.parametrize("broken", ["no METADATA", "empty METADATA", "bytes", "a folder named METADATA", "no version"])
def test_broken_metadata_is_skipped(venv: Path, broken: str) -> None:
    distribution(site_packages(venv), "numpy", "2.3.4")
    folder = site_packages(venv) / "cupy_cuda12x-14.2.0.dist-info"
    folder.mkdir()
    if broken == "a folder named METADATA":
        (folder / "METADATA").mkdir()
    elif broken != "no METADATA":
        content = {"empty METADATA": b"", "bytes": os.urandom(4096), "no version": b"Name: cupy-cuda12x\n"}[broken]
        (folder / "METADATA").write_bytes(content.replace(b"Version", b""))
    facts, source = target_of(interpreter_of(venv))
    assert source.state is SourceState.ANSWERED
    assert cupy_lines(facts) == [("numpy", "2.3.4")]


def test_distributions_are_listed_in_import_order(tmp_path: Path, venv: Path) -> None:
    distribution(site_packages(venv), "numpy", "2.3.4")
    ahead = tmp_path / "ahead"
    distribution(ahead, "numpy", "1.26.4")
    facts, _ = target_of(interpreter_of(venv), {"PYTHONPATH": str(ahead)})
    assert cupy_lines(facts) == [("numpy", "1.26.4"), ("numpy", "2.3.4")]


LISTED = (
    "cuda-bindings", "cuda-core", "cuda-python", "cudf-cu12", "cuquantum-python-cu12", "cutensor-cu12", "dask-cuda",
    "libcuml-cu12", "nvmath-python", "nvtx", "nx-cugraph-cu12", "onnxruntime-gpu", "pip", "pycuda", "pylibraft-cu12",
    "raft-dask-cu12", "tensorflow", "ucxx-cu12", "uv",
)  # fmt: skip


def test_installers_and_distributions_that_share_cuda_with_cupy_are_listed(venv: Path) -> None:
    for name in (*LISTED, "requests", "pipx", "my-secret-project", "pandas"):
        distribution(site_packages(venv), name, "1.0")
    assert sorted(entry.distribution for entry in target_of(interpreter_of(venv))[0].distributions) == list(LISTED)


@pytest.mark.parametrize(
    ("distributions", "soname"),
    [
        ((), None),
        ((Distribution("cupy-rocm-7-0", "14.2.0"),), None),
        ((Distribution("cupy-xarray", "0.1"),), None),
        ((Distribution("cupy-cuda11x", "13.6.0"),), "libnvrtc.so.11.2"),
        ((Distribution("cupy-cuda12x", "14.2.0"),), "libnvrtc.so.12"),
        ((Distribution("cupy-cuda13x", "14.2.0"), Distribution("cupy-cuda12x", "14.2.0")), "libnvrtc.so.13"),
    ],
)
def test_the_probed_libraries_follow_from_the_installed_cupys_cuda_major(
    venv: Path, distributions: tuple[Distribution, ...], soname: str | None
) -> None:
    reported, source = probe_libraries(
        probe_context(), str(interpreter_of(venv)), TargetFacts(distributions=distributions)
    )
    assert source.state is (SourceState.ANSWERED if soname else SourceState.NOT_ASKED)
    assert [entry.soname for entry in reported.libraries or () if entry.name == "nvrtc"] == ([soname] if soname else [])


@pytest.mark.parametrize("distributions", [(Distribution("cupy", "14.2.0"),), (Distribution("cupy-cuda101", "9.6.0"),)])
def test_the_core_extension_is_loaded_even_if_the_cuda_major_is_unknown(
    venv: Path, distributions: tuple[Distribution, ...]
) -> None:
    """The loader's error for it does not depend on the list of libraries."""
    core = f"cupy/_core/core{sysconfig.get_config_var('EXT_SUFFIX')}"
    (site_packages(venv) / core).parent.mkdir(parents=True)
    (site_packages(venv) / core).write_bytes(b"")
    located = [entry.plus(location=str(site_packages(venv))) for entry in distributions]
    reported, source = probe_libraries(probe_context(), str(interpreter_of(venv)), TargetFacts(distributions=located))
    assert (source.state, reported.libraries) == (SourceState.ANSWERED, ())
    assert "file too short" in (reported.extension_error or "")


@pytest.mark.parametrize(
    ("name", "linked", "major", "release"),
    [
        ("cupy", "libcublas.so.12", 12, "libnvrtc.so.12"),
        ("cupy_core", "libcublas.so.11", 11, "libnvrtc.so.11.2"),
        ("cupy", "libcublas.so.9.0", None, None),
        ("cupy_cuda12x", "libcublas.so.12", None, "libnvrtc.so.12"),
    ],
)
def test_the_cuda_major_of_a_source_build_is_that_of_its_cublas(
    venv: Path, name: str, linked: str, major: int | None, release: str | None
) -> None:
    distribution(site_packages(venv), name, "13.6.0")
    (site_packages(venv) / "cupy").mkdir()
    (site_packages(venv) / "cupy/__init__.py").write_text("", encoding="utf-8")
    libs = site_packages(venv) / "cupy_backends/cuda/libs"
    libs.mkdir(parents=True)
    (libs / "cublas.cpython-312-x86_64-linux-gnu.so").write_bytes(b"\x7fELF\0" + linked.encode() + b"\0libc.so.6\0")
    facts, _ = target_of(interpreter_of(venv))
    assert [entry.cuda_major for entry in facts.distributions if entry.distribution.startswith("cupy")] == [major]
    reported, _ = probe_libraries(probe_context(), str(interpreter_of(venv)), facts)
    sonames = [entry.soname for entry in reported.libraries or () if entry.name == "nvrtc"]
    assert sonames == ([release] if release else [])


def test_a_second_release_of_the_same_wheel_line_does_not_stop_the_probe(tmp_path: Path, venv: Path) -> None:
    """Such as in an environment with system-site-packages over a system with an older release."""
    distribution(site_packages(venv), "cupy-cuda12x", "14.2.0")
    behind = tmp_path / "system"
    distribution(behind, "cupy-cuda12x", "13.6.0")
    (site_packages(venv) / "system.pth").write_text(f"{behind}\n", encoding="utf-8")
    facts, _ = target_of(interpreter_of(venv))
    assert cupy_lines(facts) == [("cupy-cuda12x", "14.2.0"), ("cupy-cuda12x", "13.6.0")]
    assert probe_libraries(probe_context(), str(interpreter_of(venv)), facts)[1].state is SourceState.ANSWERED


def releases_and_places(
    folder: Path, environment: dict[str, str] | None = None
) -> list[tuple[str, PackageLocation | None]]:
    facts, _ = target_of(folder / "bin/python3", environment or {})
    return [(entry.release, entry.place) for entry in facts.distributions]


def test_the_kind_of_path_entry_of_each_cupy_is_reported(tmp_path: Path, venv: Path) -> None:
    distribution(site_packages(venv), "cupy-cuda12x", "14.2.0")
    distribution(tmp_path / "ahead", "cupy-cuda11x", "13.6.0")
    distribution(tmp_path / "shared", "cupy-cuda11x", "13.0.0")
    (site_packages(venv) / "shared.pth").write_text(f"{tmp_path / 'shared'}\n", encoding="utf-8")
    assert releases_and_places(venv, {"PYTHONPATH": str(tmp_path / "ahead")}) == [
        ("13.6.0", PackageLocation.PYTHONPATH),
        ("14.2.0", PackageLocation.ENVIRONMENT),
        ("13.0.0", PackageLocation.ELSEWHERE),
    ]
    site = str(site_packages(venv))
    assert releases_and_places(venv, {"PYTHONPATH": site})[0] == ("14.2.0", PackageLocation.ENVIRONMENT)


def test_a_project_linked_by_setuptools_belongs_to_the_environment(tmp_path: Path, venv: Path) -> None:
    distribution(tmp_path / "src", "cupy", "14.2.0", form="egg-info folder")
    (site_packages(venv) / "easy-install.pth").write_text(f"{tmp_path / 'src'}\n", encoding="utf-8")
    assert releases_and_places(venv) == [("14.2.0", PackageLocation.ELSEWHERE)]
    (site_packages(venv) / "cupy.egg-link").write_text(f"{tmp_path / 'src'}\n.", encoding="utf-8")
    assert releases_and_places(venv) == [("14.2.0", PackageLocation.ENVIRONMENT)]


@pytest.mark.parametrize("right", ["1.26.4", "2.1.0"])
def test_metadata_that_match_the_files_outrank_leftover_metadata(venv: Path, right: str) -> None:
    site = site_packages(venv)
    (site / "numpy").mkdir()
    (site / "numpy/version.py").write_text(right, encoding="utf-8")
    for release in ("1.26.4", "2.1.0"):
        distribution(site, "numpy", release)
        size = len(release) + (release != right and len(release) == len(right))
        record = site / f"numpy-{release}.dist-info/RECORD"
        record.write_text(f'numpy/version.py,sha256=x,{size}\n"numpy, too",,\n', encoding="utf-8")
    facts, _ = target_of(interpreter_of(venv))
    assert cupy_lines(facts) == [("numpy", right)]
    (leftover,) = facts.left_metadata
    assert (leftover.name, leftover.release) == ("numpy", "2.1.0" if right == "1.26.4" else "1.26.4")


def test_empty_metadata_are_reported_with_their_files(venv: Path) -> None:
    site = site_packages(venv)
    (site / "cupy").mkdir()
    (site / "cupy/__init__.py").symlink_to("/gone")
    (site / "cupy_cuda12x-14.2.0.dist-info").mkdir()
    (site / "cupy_cuda12x-14.2.0.dist-info/METADATA").symlink_to("/gone")
    facts, _ = target_of(interpreter_of(venv))
    (leftover,) = facts.left_metadata
    assert (leftover.name, leftover.release, leftover.has_files) == ("cupy-cuda12x", None, True)


@pytest.mark.parametrize("name", ["RECORD", "METADATA", "INSTALLER", "WHEEL"])
def test_a_fifo_in_place_of_a_metadata_file_does_not_block(venv: Path, name: str) -> None:
    site = site_packages(venv)
    for release in ("1.26.4", "2.1.0"):
        distribution(site, "numpy", release)
    file = site / "numpy-2.1.0.dist-info" / name
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    distribution(site, "cupy-cuda12x", "14.2.0")
    facts, source = target_of(interpreter_of(venv), limit=5)
    assert source.state is SourceState.ANSWERED
    assert ("cupy-cuda12x", "14.2.0") in cupy_lines(facts)
