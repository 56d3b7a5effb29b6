"""The kind of the target environment, and what ``import cupy`` would load in it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gpuenv.model.snapshot import JupyterKernel
from gpuenv.probe.context import script, target_command
from gpuenv.probe.protocol import parse_facts
from tests.probe.probe_runs import MINIMAL, target_of
from tests.probe.pythons import python
from tests.probe.raw_facts import CupyModule, TargetFacts
from tests.probe.targets import distribution
from tests.probe.venvs import interpreter_of, make_venv, site_packages, uv


def facts_from(interpreter: Path, folder: Path, environment: dict[str, str] | None = None) -> Any:  # noqa: ANN401 - JSON
    """The facts that the interpreter prints when it runs in a folder."""
    command = [*target_command(str(interpreter), "interpreter")]
    variables = {**MINIMAL, **(environment or {})}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=True, timeout=20)
    return parse_facts(done.stdout)


def facts_of(venv: Path, environment: dict[str, str] | None = None) -> TargetFacts:
    return target_of(interpreter_of(venv), environment)[0]


def test_an_environment_of_venv_is_recognised(venv: Path) -> None:
    facts = facts_of(venv)
    assert (facts.made_by, facts.venv_python) == ("venv", platform.python_version())


def test_an_environment_of_uv_is_recognised(tmp_path: Path) -> None:
    uv("venv", "--python", sys.executable, tmp_path / "venv")
    assert facts_of(tmp_path / "venv").made_by == "uv"


def test_an_environment_of_virtualenv_is_recognised(venv: Path) -> None:
    with (venv / "pyvenv.cfg").open("a", encoding="utf-8") as settings:
        settings.write("virtualenv = 20.36.1\n")
    assert facts_of(venv).made_by == "virtualenv"


@pytest.mark.parametrize(
    ("marker", "tool"), [("history", "conda"), ("pixi", "pixi"), ("pixi_env_prefix", "pixi"), ("x.json", "venv")]
)
def test_conda_and_pixi_prefixes_are_recognised_by_marker_files(venv: Path, marker: str, tool: str) -> None:
    (venv / "conda-meta").mkdir()
    (venv / "conda-meta" / marker).write_text("{}", encoding="utf-8")
    (venv / "conda-meta/history").touch() if tool == "pixi" else None
    facts = facts_of(venv)
    assert (facts.made_by, facts.kind) == (tool, "conda")


def test_a_python_without_marker_files_has_no_known_tool() -> None:
    assert target_of(Path(sys.base_prefix) / "bin/python3")[0].made_by in (None, "conda", "pixi")


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write everywhere")
def test_an_environment_of_another_user_is_not_writable(venv: Path) -> None:
    assert facts_of(venv).writable is True
    folder = site_packages(venv)
    folder.chmod(0o555)
    for parent in [venv, *venv.parents]:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/tmp"):  # noqa: S108 - not to be changed
            parent.chmod(parent.stat().st_mode | 0o055)
    command = [*target_command(str(interpreter_of(venv)), "interpreter")]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    done = subprocess.run(command, cwd="/", env=MINIMAL, capture_output=True, text=True, check=False, timeout=20)
    folder.chmod(0o755)
    if "Permission denied" in done.stderr:
        pytest.skip("another user may not even start this machine's Python")
    assert parse_facts(done.stdout)["writable"] is False


def test_the_user_site_is_reported_if_it_is_enabled_and_exists(venv: Path, tmp_path: Path) -> None:
    interpreter = Path(sys.base_prefix) / "bin/python3"
    user_site = target_of(interpreter, {"PYTHONUSERBASE": str(tmp_path)})[0].user_site
    assert user_site is None, "a missing folder is not imported from"
    major, minor = sys.version_info[:2]
    folder = tmp_path / f"lib/python{major}.{minor}/site-packages"
    folder.mkdir(parents=True)
    assert target_of(interpreter, {"PYTHONUSERBASE": str(tmp_path)})[0].user_site == str(folder)
    assert target_of(interpreter, {"PYTHONUSERBASE": str(tmp_path), "PYTHONNOUSERSITE": "1"})[0].user_site is None
    assert facts_of(venv, {"PYTHONUSERBASE": str(tmp_path)}).user_site is None, "a virtual environment excludes it"


def test_condas_packages_are_listed_separately(venv: Path) -> None:
    (venv / "conda-meta").mkdir()
    for record in ("cuda-nvrtc-12.9.86-h5888daf_0", "libcublas-12.9.1.4-h9ab20c4_0", "zlib-1.3-0", "cupy-14.2.0-py_0"):
        (venv / f"conda-meta/{record}.json").write_text("{}", encoding="utf-8")
    distribution(site_packages(venv), "cupy-cuda12x", "13.6.0")
    facts = facts_of(venv)
    assert facts.conda_packages == {"cuda-nvrtc": "12.9.86", "libcublas": "12.9.1.4", "cupy": "14.2.0"}
    assert [entry.distribution for entry in facts.distributions] == ["cupy-cuda12x"]


def test_condas_packages_are_read_with_what_they_require_of_cuda(venv: Path) -> None:
    (venv / "conda-meta").mkdir()
    depends = {
        "cuda-version-12.9-h4f385c5_3": [],
        "gromacs-2026.1-cuda_0": ["cuda-version >=12.9,<13", "libcufft", "numpy[version='>=2']"],
        "pytorch-2.8.0-cuda129_0": ["numpy[version='>=2']", "cuda-version >=12.9,<13"],
        "zlib-1.3-0": ["libzlib 1.3"],
    }
    for record, needs in depends.items():
        text = json.dumps({"depends": needs, "constrains": ["cuda-version <14"], "files": ["a"] * 30000}, indent=2)
        (venv / f"conda-meta/{record}.json").write_text(text, encoding="utf-8")
    facts = facts_of(venv)
    assert facts.conda_packages == {"cuda-version": "12.9", "pytorch": "2.8.0"}
    assert [(entry.name, entry.release, entry.requirement) for entry in facts.conda_needs] == [
        ("gromacs", "2026.1", "cuda-version >=12.9,<13"),
        ("pytorch", "2.8.0", "cuda-version >=12.9,<13"),
    ]


@pytest.mark.parametrize("version", ["3.6", "3.14"])
def test_an_environment_of_any_python_version_is_recognised(tmp_path: Path, version: str) -> None:
    facts = facts_of(make_venv(tmp_path / "venv", python(version)))
    assert (facts.kind, facts.made_by, facts.prefix) == ("venv", "venv", str(tmp_path / "venv"))
    assert (facts.python or "").startswith(version + ".")
    assert (facts.writable, facts.externally_managed, facts.cupy_module) == (True, False, None)


def test_an_externally_managed_python_is_reported() -> None:
    """Such as Debian's or uv's."""
    markers = [*Path("/usr/lib").glob("python3*/EXTERNALLY-MANAGED")]
    if not markers or not Path("/usr/bin/python3").exists():
        pytest.skip("this machine has no externally managed Python")
    assert target_of(Path("/usr/bin/python3"))[0].externally_managed is True


def suffixes(tag: str) -> list[str]:
    """The extension suffixes of CPython 3.11 to 3.15: EXT_SUFFIX, the stable ABI's, and the plain one."""
    stable = [] if tag.endswith("t") else [".abi3.so"]
    return [f".cpython-{tag}-x86_64-linux-gnu.so", *stable, ".so"]


@pytest.mark.parametrize(
    ("name", "tag", "answer"),
    [
        ("core.cpython-312-x86_64-linux-gnu.so", "312", True),
        ("core.cpython-311-x86_64-linux-gnu.so", "312", False),
        ("core.cpython-314-x86_64-linux-gnu.so", "314t", False),
        ("core.cpython-314t-x86_64-linux-gnu.so", "314t", True),
        ("core.cpython-315-x86_64-linux-gnu.so", "315", True),
        ("core.cpython-312-aarch64-linux-gnu.so", "312", False),
        ("core.cpython-312-x86_64-linux-musl.so", "312", False),
        ("core.cp312-win_amd64.pyd", "312", False),
        ("core.abi3.so", "312", True),
        ("core.abi3.so", "314t", False),
        ("core.so", "312", True),
        ("core.pyx", "312", None),
    ],
)
def test_an_extension_module_is_loaded_by_the_interpreter_of_its_suffix(
    name: str, tag: str, answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(script("start.py")).parent))
    module = import_module("interpreter")
    assert module.loads(["__init__.py", name], suffixes(tag)) is answer


@pytest.mark.parametrize("version", ["3.6", "3.13"])
def test_a_cupy_for_another_interpreter_is_reported(tmp_path: Path, version: str) -> None:
    venv = make_venv(tmp_path / "venv", python(version))
    number = version.replace(".", "")
    matching = f"core.cpython-{number}{'m' if version == '3.6' else ''}-x86_64-linux-gnu.so"
    for extension, loads in ((matching, True), ("core.cpython-39-x86_64-linux-gnu.so", False)):
        package = site_packages(venv) / "cupy"
        shutil.rmtree(package, ignore_errors=True)
        (package / "_core").mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "_core" / extension).touch()
        assert facts_of(venv).cupy_modules == (CupyModule(str(package / "__init__.py"), loads=loads),)


def test_a_missing_folder_for_temporary_files_is_reported(tmp_path: Path) -> None:
    """Such as in a container with a read-only root; CuPy writes each source to such a folder."""
    (tmp_path / "file").touch()
    scripts = Path(script("start.py")).parent
    program = "import sys, interpreter; print(interpreter.temporary_fault(sys.argv[1:]))"
    for places, fault in (
        ((tmp_path / "file", tmp_path / "none"), "there is no folder for temporary files: none of"),
        ((tmp_path / "none", tmp_path), "None"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, *map(str, places)],
            env={"PYTHONPATH": str(scripts)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.startswith(fault)


def add_kernel(folder: Path, name: str, text: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "kernel.json").write_text(text, encoding="utf-8")


def test_the_jupyter_kernels_of_the_environment_and_of_the_user_are_listed(venv: Path, tmp_path: Path) -> None:
    system, user = venv / "share/jupyter/kernels", tmp_path / "data/jupyter/kernels"
    add_kernel(system, "python3", json.dumps({"argv": ["python", "-m", "ipykernel_launcher"]}))
    add_kernel(system, "Other", json.dumps({"argv": ["/opt/other/bin/python"]}))
    add_kernel(user, "python3", json.dumps({"argv": ["/home/bin/python"]}))
    for name, text in (("a", "{"), ("b", "[]"), ("c", '{"argv": []}'), ("d", '{"argv": [1]}'), ("e", "null")):
        add_kernel(user, name, text)
    assert facts_of(venv, {"XDG_DATA_HOME": str(tmp_path / "data")}).kernels == (
        JupyterKernel("other", "/opt/other/bin/python"),
        JupyterKernel("python3", "/home/bin/python"),
    )
