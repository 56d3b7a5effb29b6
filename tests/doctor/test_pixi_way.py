"""Cures in an environment of pixi's are pixi's own commands. Pure."""

from __future__ import annotations

import pytest

from gpuenv.doctor.fixes.adapt import for_pixi
from gpuenv.matrix.records import Matrix
from gpuenv.model.finding import Fix
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Snapshot, Target
from tests.doctor.installed_target import changed, found, healthy

__all__ = ["healthy"]

PREFIX = "/srv/app/.pixi/envs/default"


def of_pixi(prefix: str = PREFIX) -> Target:
    return Target(prefix=known(prefix, "x"), made_by=known("pixi", "x"))


@pytest.mark.parametrize(
    ("command", "told"),
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
def test_every_installer_s_words_have_their_counterpart(command: str, told: str) -> None:
    (fix,) = for_pixi((Fix("Do it.", tuple(command.split()), safe=True),), of_pixi())
    assert fix == Fix("Do it, in the pixi project /srv/app.", tuple(told.split()), safe=False)


@pytest.mark.parametrize(
    "command", [None, ("sudo", "reboot"), ("conda", "search", "cupy"), ("env", "-u", "PYTHONPATH")]
)
def test_what_is_no_installing_stays(command: tuple[str, ...] | None) -> None:
    fixes = (Fix("Do it.", command),)
    assert for_pixi(fixes, of_pixi()) == fixes


def test_an_environment_with_a_name_and_one_that_lies_elsewhere() -> None:
    fixes = (Fix("Do it.", ("conda", "install", "cupy")),)
    (named,) = for_pixi(fixes, of_pixi("/srv/app/.pixi/envs/gpu"))
    assert named.text == "Do it, in the pixi project /srv/app, for a feature of its environment gpu."
    (detached,) = for_pixi(fixes, of_pixi("/cache/envs/app-123"))
    assert detached.text == "Do it, in the folder of the pixi project."


def test_a_finding_there_names_no_other_installer(matrix: Matrix, healthy: Snapshot) -> None:
    snapshot = changed(
        healthy, cupy=(), made_by=known("pixi", "x"), kind=known("conda", "x"), prefix=known(PREFIX, "x")
    )
    commands = [fix.command for fix in found(matrix, snapshot)["WHL503"].fix if fix.command]
    assert [command[:2] for command in commands] == [("pixi", "add")]


def test_another_environment_has_its_own_installers(matrix: Matrix, healthy: Snapshot) -> None:
    (first, *_) = found(matrix, changed(healthy, cupy=(), prefix=known(PREFIX, "x")))["WHL503"].fix
    assert first.command is not None
    assert "pixi" not in first.command
