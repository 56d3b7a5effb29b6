"""Fixes adapted to conda, to pixi and to the interpreter of --python."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from gpuenv.cli import options
from gpuenv.cli.app import make_app
from gpuenv.doctor.diagnose import DiagnosisOptions, diagnose
from gpuenv.doctor.fixes.adaptation import TARGET_COMMANDS, adapt_for_pixi, add_target_option, with_target_option
from gpuenv.ipython_extension import KERNEL_COMMANDS
from gpuenv.matrix.assume import assume
from gpuenv.model.finding import Finding, Fix
from gpuenv.model.reading import known
from gpuenv.model.snapshot import CupyInstallation, Snapshot, Target
from tests.cli.program import answer
from tests.cli.snapshots import FIT, UNFIT, WITHOUT_GPU, write_snapshot
from tests.doctor.installed_target import findings_by_code, healthy, with_target
from tests.support.diagnosis import diagnosis_of
from tests.support.fixes import by_hand
from tests.support.matrix import MATRIX

__all__ = ["healthy"]
HOST = ("os=linux", "arch=x86_64")
CREATE = ("conda", "create", "--name=cupy-env", "--channel=conda-forge")
SEARCH = ("conda", "search", "--channel=conda-forge", "cupy")


def fixes(code: str, *options: str) -> tuple[Fix, ...]:
    """The fixes of a finding in a conda environment, with a CuPy of conda's or without one."""
    snapshot = assume(Snapshot(), [*HOST, "libc=glibc-2.36", *options], MATRIX)
    ours = {entry.distribution: entry.release for entry in snapshot.target.cupy}
    ours |= {"numpy": snapshot.target.numpy.value or "2.1.0", "cuda-version": "12.9"}
    target = snapshot.target._replace(kind=known("conda", "x"), prefix=known("/env", "x"), conda_packages=ours)
    snapshot = snapshot._replace(target=target)
    findings = diagnosis_of(snapshot).findings
    return next(by_hand(finding).fix for finding in findings if finding.code == code)


@pytest.mark.parametrize(
    ("facts", "command"),
    [
        (
            ("driver=580.95.05", "gpu=H100", "python=3.10", "numpy=1.21.6", "cupy=none"),
            (
                "conda",
                "install",
                "--prefix=/env",
                "--channel=conda-forge",
                "cupy=14.1.1",
                "cuda-version=13",
                "numpy>=2.0",
            ),
        ),
        (
            ("driver=580.95.05", "gpu=V100", "python=3.8", "numpy=1.24.4", "cupy=none"),
            (*CREATE, "python=3.12", "cupy=14.1.1", "cuda-version=12"),
        ),
        (
            ("driver=470.82.01", "gpu=K80", "python=3.8", "numpy=1.24.4", "cupy=none"),
            (*CREATE, "python=3.12", "cupy=13.6.0", "cuda-version=11"),
        ),
    ],
)
def test_a_conda_environment_gets_a_conda_command_first(facts: tuple[str, ...], command: tuple[str, ...]) -> None:
    first = fixes("WHL503", *facts)[0]
    assert first.command == command
    assert "mamba" in first.text


def test_a_conda_build_that_fits_is_installed_into_the_environment() -> None:
    (fix, *_) = fixes("WHL503", "driver=470.82.01", "gpu=K80", "python=3.11", "numpy=2.1.0", "cupy=none")
    assert fix.command == (
        *("conda", "install", "--prefix=/env", "--channel=conda-forge"),
        *("cupy=13.6.0", "cuda-version=11"),
    )
    assert fix.safe


def test_an_installation_by_pip_is_offered_as_an_alternative() -> None:
    result = fixes("WHL503", "driver=470.82.01", "gpu=K80", "python=3.8", "numpy=1.24.4", "cupy=none")
    assert result[1].text.startswith("Or, by pip, install: cupy-cuda11x")


def test_a_lack_of_conda_builds_is_reported() -> None:
    """Only CUDA 10.2 still supports a GPU of compute capability 3.0."""
    facts = ("driver=470.82.01", "compute-capability=3.0", "gpu-count=1", "python=3.9", "numpy=1.22.4", "cupy=none")
    result = fixes("WHL503", *facts)
    assert result[0].text.startswith("No conda-forge build of CuPy in the matrix fits here: it needs ")
    assert result[0].command == SEARCH
    assert result[1].text.startswith("Or, by pip, install: cupy-cuda102")


def test_conda_changes_the_version_of_its_own_numpy() -> None:
    """The build that fits the installed NumPy comes first: it is what gpuenv doctor --fix installs."""
    result = fixes("WHL506", "driver=580.95.05", "gpu=H100", "python=3.12", "numpy=1.26.4", "cupy=cupy-cuda12x==14.2.0")
    assert result[0].command is not None
    assert "cupy=13.6.0" in result[0].command
    assert result[-1].command == ("conda", "install", "--prefix=/env", "numpy<2.6,>=2.0")


PREFIX = "/srv/app/.pixi/envs/default"


def pixi_target(prefix: str = PREFIX) -> Target:
    return Target(prefix=known(prefix, "x"), made_by=known("pixi", "x"))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python -m pip install cupy-cuda12x[ctk]==14.2.0", "pixi add --pypi cupy-cuda12x[ctk]==14.2.0"),
        ("uv pip install --python /x/bin/python numpy<2.6,>=2.0", "pixi add --pypi numpy<2.6,>=2.0"),
        ("python -m pip uninstall -y cupy-cuda11x cupy-cuda12x", "pixi remove --pypi cupy-cuda11x cupy-cuda12x"),
        ("uv pip uninstall --python /x/bin/python cupy-cuda13x", "pixi remove --pypi cupy-cuda13x"),
        ("python -m pip install --force-reinstall --no-deps cupy-cuda12x==14.2.0", "pixi reinstall cupy-cuda12x"),
        (
            "python -m pip install --force-reinstall cupy-cuda12x[ctk]==1 numpy>=2 torch",
            "pixi reinstall cupy-cuda12x numpy torch",
        ),
        ("conda install --force-reinstall --prefix=/x _openmp_mutex>=4 cupy=13.1", "pixi reinstall _openmp_mutex cupy"),
        ("conda install --prefix=/x --channel=conda-forge cupy=14.1.1", "pixi add cupy=14.1.1"),
        ("conda install --force-reinstall --prefix=/x numpy", "pixi reinstall numpy"),
        ("conda remove --prefix=/x cupy", "pixi remove cupy"),
    ],
)
def test_every_installer_command_has_a_pixi_equivalent(command: str, expected: str) -> None:
    (fix,) = adapt_for_pixi((Fix("Do it.", tuple(command.split()), safe=True),), pixi_target())
    assert fix == Fix("Do it, in the pixi project /srv/app.", tuple(expected.split()), safe=False)


@pytest.mark.parametrize(
    "command", [None, ("sudo", "reboot"), ("conda", "search", "cupy"), ("env", "-u", "PYTHONPATH")]
)
def test_commands_that_install_nothing_are_unchanged_for_pixi(command: tuple[str, ...] | None) -> None:
    fixes = (Fix("Do it.", command),)
    assert adapt_for_pixi(fixes, pixi_target()) == fixes


def test_named_and_detached_pixi_environments_are_described() -> None:
    fixes = (Fix("Do it.", ("conda", "install", "cupy")),)
    (named,) = adapt_for_pixi(fixes, pixi_target("/srv/app/.pixi/envs/gpu"))
    assert named.text == "Do it, in the pixi project /srv/app, for a feature of its environment gpu."
    (detached,) = adapt_for_pixi(fixes, pixi_target("/cache/envs/app-123"))
    assert detached.text == "Do it, in the folder of the pixi project."


def test_a_finding_in_a_pixi_environment_names_only_pixi(healthy: Snapshot) -> None:
    snapshot = with_target(
        healthy, cupy=(), made_by=known("pixi", "x"), kind=known("conda", "x"), prefix=known(PREFIX, "x")
    )
    commands = [fix.command for fix in findings_by_code(snapshot)["WHL503"].fix if fix.command]
    assert [command[:2] for command in commands] == [("pixi", "add")]


def test_an_environment_not_created_by_pixi_gets_no_pixi_command(healthy: Snapshot) -> None:
    (first, *_) = findings_by_code(with_target(healthy, cupy=(), prefix=known(PREFIX, "x")))["WHL503"].fix
    assert first.command is not None
    assert "pixi" not in first.command


PYTHON_OPTION = "an env/v12"
EXEMPT_COMMANDS = {
    "explain",
    "run",
    "lock",
    "bundle",
}  # explain a text, run a program, or write files for another machine
HIDDEN = FIT._replace(environment={"CUDA_VISIBLE_DEVICES": "-1"}, visible_count=known(0, "libcuda"))
MISSPELT = FIT._replace(environment={"CUPY_ACCELERATORS": "cubb"})
NO_CUPY = WITHOUT_GPU._replace(target=FIT.target._replace(cupy=(), packages={}), pci_gpus=FIT.pci_gpus)
FROM_PYTHONPATH = FIT._replace(
    target=FIT.target._replace(cupy=(*FIT.target.cupy, CupyInstallation("cupy-cuda13x", "14.2.0", "/elsewhere"))),
    environment={"PYTHONPATH": "/elsewhere"},
)


def _findings(snapshot: Snapshot, python: str | None) -> tuple[Finding, ...]:
    return diagnose(snapshot, MATRIX, lambda: 0.0, DiagnosisOptions(python=python)).findings


def _gpuenv_commands(fixes: tuple[Fix, ...]) -> list[str]:
    """Every gpuenv command with a target, from texts and from argv lists."""
    lines = [fix.text for fix in fixes] + [shlex.join(fix.command) for fix in fixes if fix.command]
    verbs = "|".join(TARGET_COMMANDS)
    return [command for line in lines for command in re.findall(rf"gpuenv (?:{verbs})\b[^.;]*", line)]


@pytest.mark.parametrize(
    "snapshot", [HIDDEN, MISSPELT, NO_CUPY, FROM_PYTHONPATH, UNFIT, WITHOUT_GPU], ids=lambda _: "machine"
)
def test_every_command_in_a_fix_names_the_target(snapshot: Snapshot) -> None:
    before = _findings(snapshot, None)
    after = _findings(snapshot, PYTHON_OPTION)
    assert [finding.code for finding in before] == [finding.code for finding in after]
    for finding in after:
        for command in _gpuenv_commands(finding.fix):
            assert f"--python {shlex.quote(PYTHON_OPTION)}" in command or "--python PATH" in command, finding.fix
    assert not any(PYTHON_OPTION in shlex.join(fix.command or ()) for finding in before for fix in finding.fix)


def test_findings_contain_gpuenv_commands() -> None:
    assert any(
        "gpuenv install" in command
        for finding in _findings(NO_CUPY, PYTHON_OPTION)
        for command in _gpuenv_commands(finding.fix)
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("env", "-u", "X", "gpuenv", "doctor"), ("env", "-u", "X", "gpuenv", "doctor", "--python", PYTHON_OPTION)),
        (
            ("gpuenv", "smoke", "--only", "fft.a", "-v"),
            ("gpuenv", "smoke", "--python", PYTHON_OPTION, "--only", "fft.a", "-v"),
        ),
        (("gpuenv", "explain", "no-driver"), ("gpuenv", "explain", "no-driver")),
        (("gpuenv", "install", "--python", "another"), ("gpuenv", "install", "--python", "another")),
        (("python", "-m", "pip", "install", "gpuenv"), ("python", "-m", "pip", "install", "gpuenv")),
    ],
)
def test_options_are_added_to_argv_lists(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    assert with_target_option((Fix("A fix.", before),), PYTHON_OPTION) == (Fix("A fix.", after),)
    assert with_target_option((Fix("A fix.", before),), None) == (Fix("A fix.", before),)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("install it: gpuenv install", "install it: gpuenv install --python v12"),
        (
            "gpuenv doctor --expect-no-gpu makes this a note.",
            "gpuenv doctor --python v12 --expect-no-gpu makes this a note.",
        ),
        ("name it: gpuenv doctor --python PATH", "name it: gpuenv doctor --python PATH"),
        ("gpuenv rollback --list shows them", "gpuenv rollback --python v12 --list shows them"),
        ("gpuenv doctor --list names the checks", "gpuenv doctor --list names the checks"),
        ("gpuenv smoke --list names them", "gpuenv smoke --list names them"),
        ("gpuenv explain tells of the cause", "gpuenv explain tells of the cause"),
        (
            "python -m venv NAME, then gpuenv install --python NAME.",
            "python -m venv NAME, then gpuenv install --python NAME.",
        ),
        (
            "gpuenv bundle there, gpuenv install --bundle here.",
            "gpuenv bundle there, gpuenv install --python v12 --bundle here.",
        ),
    ],
)
def test_options_are_added_to_commands_in_texts(before: str, after: str) -> None:
    assert add_target_option(before, "v12") == after
    assert add_target_option(before, None) == before


def _has_target_option(hints: Iterable[object]) -> bool:
    """Python 3.10 wraps a hint in Optional if the default is None."""
    return any(options.Python in (hint, *get_args(hint)) for hint in hints)


def test_every_command_with_a_target_option_is_listed() -> None:
    """A new command with --python belongs to TARGET_COMMANDS or to EXEMPT_COMMANDS, and to the notebook's magic."""
    app = make_app([])
    taking = {
        info.callback.__name__.replace("_", "-")
        for info in app.registered_commands
        if info.callback is not None and _has_target_option(get_type_hints(info.callback, include_extras=True).values())
    }
    assert taking == {*TARGET_COMMANDS, *EXEMPT_COMMANDS}
    assert taking - {"explain", "run"} == {*KERNEL_COMMANDS}, "explain a text, run a program"


def test_the_doctor_names_its_target_in_the_commands_of_a_fix(tmp_path: Path) -> None:
    """It is ignored, and not named, for a snapshot, which has a target of its own."""
    assumed = [f"--assume={fact}" for fact in ("gpu=B200", "driver=450", "cupy=none", "python=3.12")]
    _, result = answer("doctor", "--python", sys.executable, "--no-probe", "--no-redact", *assumed)
    fixes = [fix for finding in result["findings"] for fix in finding["fix"]]
    assert any(f"gpuenv install --python {shlex.quote(sys.executable)}" in fix["text"] for fix in fixes), fixes
    recorded = write_snapshot(HIDDEN, tmp_path / "recorded.json")
    _, result = answer("doctor", "--python", sys.executable, "--snapshot", recorded)
    assert "GPU202" in {entry["code"] for entry in result["findings"]}
    assert sys.executable not in str(result["findings"])
