"""Diagnosis of real interpreters that do not start."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.probe.probe_runs import MINIMAL, probe_context, probe_startup, probe_target
from tests.probe.pythons import python
from tests.probe.raw_facts import TargetFacts
from tests.probe.targets import program
from tests.probe.venvs import interpreter_of, make_venv, site_packages


def diagnose(interpreter: Path, environment: dict[str, str] | None = None, limit: float = 20.0) -> TargetFacts:
    """The diagnosis of an interpreter after its first probe."""
    ctx = probe_context(environment, limit=limit)
    return probe_startup(ctx, str(interpreter), *probe_target(ctx, str(interpreter)))


@pytest.mark.parametrize(
    ("name", "hook"),
    [
        ("sitecustomize.py", "import os; os._exit(3)"),
        ("sitecustomize.py", "raise SystemExit('no')"),
        ("hook.pth", "import os; os.abort()"),
        ("hook.pth", "import os; os.close(1)"),
    ],
)
def test_a_failing_startup_hook_is_named(venv: Path, name: str, hook: str) -> None:
    if Path(sysconfig.get_path("stdlib"), name).exists():
        pytest.skip("this Python has a sitecustomize of its own, which comes first")
    (site_packages(venv) / name).write_text(f"{hook}\n", encoding="utf-8")
    facts = diagnose(interpreter_of(venv))
    assert (facts.python, facts.starts_without) == (None, "startup")
    assert facts.startup_files == (str(site_packages(venv) / name),)


def test_a_blocking_startup_hook_is_named_at_the_deadline(venv: Path) -> None:
    (site_packages(venv) / "hold.pth").write_text("import time; time.sleep(60)\n", encoding="utf-8")
    (site_packages(venv) / "folders.pth").write_text("/somewhere\nimportant\n", encoding="utf-8")
    facts = diagnose(interpreter_of(venv), limit=0.5)
    assert facts.startup_files == (str(site_packages(venv) / "hold.pth"),)
    assert (facts.starts_without, facts.unstartable) == (None, None)


@pytest.mark.parametrize("name", ["PYTHONHOME", "PYTHONPATH", "LD_PRELOAD"])
def test_the_variable_that_breaks_the_interpreter_is_named(venv: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "json.py").write_text("raise ImportError('of a project')\n", encoding="utf-8")
    source = "#include <stdlib.h>\n__attribute__((constructor)) static void when_loaded(void) { abort(); }\n"
    (tmp_path / "preload.c").write_text(source, encoding="utf-8")
    library = tmp_path / "preload.so"
    subprocess.run(["cc", "-shared", "-fPIC", str(tmp_path / "preload.c"), "-o", str(library)], check=True)
    values = {"PYTHONHOME": "/nowhere", "PYTHONPATH": str(tmp_path), "LD_PRELOAD": str(library)}
    others = {"LD_LIBRARY_PATH": "/nowhere", "PYTHONNOUSERSITE": "1"}
    facts = diagnose(interpreter_of(venv), {**others, name: values[name]})
    assert (facts.python, facts.starts_without) == (None, name)


def test_another_variable_of_python_is_reported_without_its_name(venv: Path) -> None:
    assert diagnose(interpreter_of(venv), {"PYTHONPLATLIBDIR": "nowhere"}).starts_without == "variables"


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8", "3.13"])
def test_a_failing_wrapper_has_neither_a_variable_nor_a_hook_as_its_cause(tmp_path: Path, version: str) -> None:
    """The interpreter behind it starts, in any version."""
    wrapper = f'#!/bin/sh\ncase "$*" in *start.py*) exit 5;; esac\nexec {python(version)} "$@"\n'
    facts = diagnose(program(tmp_path / "python3", wrapper))
    assert (facts.python, facts.starts_without) == (None, None)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("home = /opt/gone/bin\nversion = 3.9.19\n", "3.9.19"),
        ("home=/opt/gone/bin\nversion_info=3.12.4.final.0\n", "3.12.4"),
        ("uv = 0.9.1\nversion_info = 3.13\n", "3.13"),
        ("version = unknown\n", None),
        (None, None),
    ],
)
def test_the_release_of_a_broken_environment_is_read(tmp_path: Path, text: str | None, release: str | None) -> None:
    interpreter = tmp_path / "venv/bin/python3"
    interpreter.parent.mkdir(parents=True)
    interpreter.symlink_to("/opt/gone/bin/python3")
    if text is not None:
        (tmp_path / "venv/pyvenv.cfg").write_text(text, encoding="utf-8")
    facts = diagnose(interpreter)
    assert (facts.venv_python, facts.unstartable) == (release, "/opt/gone/bin/python3 does not exist")


def test_fifos_in_place_of_startup_files_do_not_block(tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.12/site-packages"
    packages.mkdir(parents=True)
    for path in (tmp_path / "pyvenv.cfg", packages / "hook.pth"):
        os.mkfifo(path)
    (tmp_path / "bin").mkdir()
    facts = diagnose(program(tmp_path / "bin/python3", "#!/bin/sh\nexit 5\n"))
    assert (facts.venv_python, facts.startup_files, facts.starts_without) == (None, (), None)


def test_a_program_not_named_python_is_not_run_again(tmp_path: Path) -> None:
    script = program(tmp_path / "train.sh", f"#!/bin/sh\necho run >> {tmp_path}/runs\n")
    assert diagnose(script) == TargetFacts()
    assert (tmp_path / "runs").read_text(encoding="utf-8").split() == ["run"]


def test_an_interpreter_that_answers_is_not_started_again(venv: Path) -> None:
    facts = diagnose(interpreter_of(venv))
    assert facts.python is not None
    assert (facts.starts_without, facts.startup_files) == (None, None)


def test_a_shadowed_standard_module_does_not_end_the_doctor(tmp_path: Path) -> None:
    """It breaks the target, but not gpuenv, which reports it."""
    target = make_venv(tmp_path / "target")
    for name in ("json", "typing", "dataclasses", "packaging"):  # not enum: pip's own starter imports re
        (tmp_path / f"{name}.py").write_text("raise ImportError('of a project')\n", encoding="utf-8")
    environment = {**MINIMAL, "PYTHONPATH": str(tmp_path), "GPUENV_DRIVER_ROOT": str(target)}
    executable = Path(sys.executable).parent / "gpuenv"
    command = [str(executable), "doctor", "--python", str(target), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
    assert done.returncode == 1, done.stderr
    (finding,) = [entry for entry in json.loads(done.stdout)["findings"] if entry["code"] == "ENV401"]
    assert "PYTHONPATH" in finding["title"]
    assert finding["fix"][0]["shell_line"] == "unset PYTHONPATH"
    line = f"unset PYTHONPATH\nexec {shlex.join(command)}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, env=environment, timeout=60
    )
    assert "ENV401" not in [entry["code"] for entry in json.loads(done.stdout)["findings"]]
