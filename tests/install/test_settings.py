"""The user's settings of uv and pip: respected unless they break the plan, and then named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.program import run_gpuenv
from tests.install.standins import LIMIT, MACHINE, contents, versions

if TYPE_CHECKING:
    from pathlib import Path

    from tests.install.standins import Ground


def test_a_day_that_leaves_the_newer_out_is_named(ground: Ground, tmp_path: Path) -> None:
    by_variable = ground.install(ground.target("dated"), UV_EXCLUDE_NEWER="2001-01-01")
    assert by_variable.returncode == 3, by_variable.stderr
    assert "unset UV_EXCLUDE_NEWER" in " ".join(by_variable.stderr.split())
    settings = tmp_path / "uv.toml"
    settings.write_text('exclude-newer = "2001-01-01T00:00:00Z"\n', encoding="utf-8")
    by_file = ground.install(ground.target("dated-too"), UV_CONFIG_FILE=str(settings))
    assert by_file.returncode == 3, by_file.stderr
    assert "Check exclude-newer in uv.toml" in " ".join(by_file.stderr.split())


def test_what_a_setting_leaves_out_is_missed(ground: Ground, tmp_path: Path) -> None:
    left_out = tmp_path / "left-out.txt"
    left_out.write_text("cupy-cuda12x\n", encoding="utf-8")
    target = ground.target("left-out")
    for arguments in (("install",), ("lock", "--output", tmp_path / "pylock.toml")):
        done = ground.gpuenv(*arguments, *MACHINE, "--python", target, UV_EXCLUDE=str(left_out))
        assert done.returncode == 3, done.stderr
        assert "leaves out cupy-cuda12x" in done.stderr


def test_what_a_setting_puts_in_its_place_is_refused(ground: Ground, tmp_path: Path) -> None:
    settings = tmp_path / "uv.toml"
    settings.write_text('override-dependencies = ["cupy-cuda12x==13.6.0"]\n', encoding="utf-8")
    target = ground.target("replaced")
    before = contents(target)
    done = ground.install(target, UV_CONFIG_FILE=str(settings))
    assert done.returncode == 3, done.stderr
    assert "takes cupy-cuda12x 13.6.0 for cupy-cuda12x[ctk]==14.2.0" in " ".join(done.stderr.split())
    assert contents(target) == before


def test_an_override_is_followed_where_it_leaves_what_was_asked_for(ground: Ground, tmp_path: Path) -> None:
    """uv reads it once more when the wheels are put together by their digests, of which it has none."""
    override = tmp_path / "override.txt"
    override.write_text("nvidia-cuda-nvrtc-cu12==12.9.86\nnumpy>=2.1\n", encoding="utf-8")
    target = ground.target("overridden")
    done = ground.install(target, UV_OVERRIDE=str(override))
    assert done.returncode == 0, done.stderr
    assert versions(target)["numpy"] == "2.1.0"


@pytest.mark.parametrize(
    ("variables", "code", "said"),
    [
        ({"UV_OFFLINE": "1"}, 4, "unset UV_OFFLINE"),
        ({"UV_LINK_MODE": "symlink"}, 4, "unset UV_LINK_MODE"),
        ({"UV_CONFIG_FILE": "/nonexistent/uv.toml"}, 7, "/nonexistent/uv.toml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_a_setting_that_forbids_it_is_named(ground: Ground, variables: dict[str, str], code: int, said: str) -> None:
    done = ground.install(ground.target("forbidden"), "--installer", "uv", **variables)
    assert done.returncode == code, done.stderr
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("variables", "said", "not_said"),
    [
        ({"PIP_NO_INDEX": "1"}, "unset PIP_NO_INDEX", "UV_OFFLINE"),
        ({"PIP_NO_INDEX": "yes", "UV_OFFLINE": "1"}, "unset PIP_NO_INDEX", "UV_OFFLINE"),
        ({"UV_OFFLINE": "1", "PIP_INDEX_URL": "http://127.0.0.1:9/"}, "Check the network", "UV_OFFLINE"),
    ],
)
def test_what_keeps_an_installer_from_the_network_is_its_own_variable(
    ground: Ground, variables: dict[str, str], said: str, not_said: str
) -> None:
    target = ground.target("alone", pip=True)
    done = ground.install(target, "--installer", "pip", PIP_RETRIES="0", **variables)
    assert done.returncode == 4, done.stderr
    assert said in done.stderr
    assert not_said not in done.stderr


def test_both_ways_of_being_without_a_network_are_named(ground: Ground) -> None:
    target, cache = ground.target("twice"), str(ground.folder / "empty")
    done = ground.install(target, "--installer", "uv", "--offline", UV_OFFLINE="true", UV_CACHE_DIR=cache)
    assert done.returncode == 4, done.stderr
    assert "leave out --offline and unset UV_OFFLINE" in " ".join(done.stderr.split())


def test_a_setting_that_pip_cannot_read_is_named(ground: Ground) -> None:
    target = ground.target("unread", pip=True)
    done = ground.install(target, "--installer", "pip", PIP_RETRIES="many")
    assert done.returncode == 7, done.stderr
    assert "many" in done.stderr


@pytest.mark.parametrize(
    "settings",
    [
        "[install]\nrequire-hashes = true\n",
        "[install]\ndry-run = true\n",
        "[install]\nno-deps = true\n",
        "[global]\ntarget = {outside}\n",
        "[install]\nroot = {outside}\n",
        "[global]\nuser = true\n",
        "[install]\nprefix = {outside}\n",
        "[install]\nforce-reinstall = true\nignore-installed = true\nupgrade = true\n",
    ],
    ids=lambda text: text.split()[1],
)
def test_what_would_lead_pip_elsewhere_is_taken_back(ground: Ground, tmp_path: Path, settings: str) -> None:
    """As it is for its variables."""
    outside = tmp_path / "outside"
    file = tmp_path / "pip.conf"
    file.write_text(settings.format(outside=outside), encoding="utf-8")
    target = ground.target("away", pip=True)
    done = ground.install(target, "--installer", "pip", PIP_CONFIG_FILE=str(file))
    assert done.returncode == 0, done.stderr
    assert versions(target)["numpy"] == "2.1.0"
    assert not outside.exists()


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ("[global]\nconstraint = {held}\n", 3),
        ("[install]\nrequirement = {held}\n", 3),
        ("[global]\nconstraint = /nonexistent.txt\n", 4),
        ("[global]\nno-index = true\n", 4),
        ("[global]\nplatform = manylinux2014_aarch64\n", 4),
    ],
    ids=lambda value: " ".join(value.split()[1:4:2]) if isinstance(value, str) else "",
)
def test_what_limits_pip_is_named(ground: Ground, tmp_path: Path, settings: str, code: int) -> None:
    held, file = tmp_path / "held.txt", tmp_path / "pip.conf"
    held.write_text("numpy<2\n", encoding="utf-8")
    file.write_text(settings.format(held=held), encoding="utf-8")
    done = ground.install(ground.target("limited", pip=True), "--installer", "pip", PIP_CONFIG_FILE=str(file))
    assert done.returncode == code, done.stderr
    key = settings.split()[1]
    assert f".{key}='{settings.format(held=held).split()[-1]}' in pip's configuration" in done.stderr
    assert "a separate environment" not in done.stderr
    assert ("numpy<2" in done.stderr) is (code == 3), "who is in whose way"


@pytest.mark.parametrize(
    ("settings", "variable", "said"),
    [
        ("[global]\nno-binary = numpy\n", None, "global.no-binary='numpy' in pip's configuration"),
        ("[install]\nno-binary = :all:\n", None, "install.no-binary=':all:' in pip's configuration"),
        ("", "numpy,x", "PIP_NO_BINARY='numpy,x' in the environment"),
        ("[global]\nno-binary = numpy\n[install]\nonly-binary = numpy\n", None, None),
        ("[global]\nno-binary = numpy\n", ":none:", None),
        ("[global]\nno-binary = psycopg2\n", None, None),
    ],
)
def test_a_wheel_that_the_user_has_ruled_out_is_not_installed(
    ground: Ground, tmp_path: Path, settings: str, variable: str | None, said: str | None
) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(settings, encoding="utf-8")
    target = ground.target("built", pip=True)
    variables = {"PIP_NO_BINARY": variable} if variable else {}
    done = ground.install(target, "--installer", "pip", PIP_CONFIG_FILE=str(file), **variables)
    assert done.returncode == (3 if said else 0), done.stderr
    assert (said or "") in " ".join(done.stderr.split())
    assert ("numpy" in versions(target)) is (said is None)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ('constraint-dependencies = ["numpy<2"]\n', 3),
        ('[pip]\nno-binary = [":all:"]\n', 3),
        ("no-index = true\n", 3),
        ('exclude-dependencies = ["numpy"]\n', 4),
        ('[pip]\nno-emit-package = ["numpy"]\n', 4),
        ('[pip]\noutput-file = "list.txt"\n', 4),
        ("[pip]\nno-deps = true\n", 7),
        ('[pip]\ntarget = "{outside}"\n', 7),
    ],
    ids=lambda value: value.removeprefix("[pip]\n").split()[0] if isinstance(value, str) else "",
)
def test_what_limits_uv_is_named_with_its_file(ground: Ground, tmp_path: Path, settings: str, code: int) -> None:
    outside, file = tmp_path / "outside", tmp_path / "uv.toml"
    file.write_text(settings.format(outside=outside), encoding="utf-8")
    target = ground.target("limited")
    before = contents(target)
    done = ground.install(target, "--installer", "uv", UV_CONFIG_FILE=str(file))
    assert done.returncode == code, done.stderr
    key = settings.removeprefix("[pip]\n").split()[0]
    said = " ".join((done.stdout + done.stderr).split())
    assert f"{key} in {file}" in said
    assert "a separate environment" not in said
    assert contents(target) == before
    assert not outside.exists()


def test_the_nearest_project_s_settings_are_those_that_uv_reads(ground: Ground, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "part").mkdir(parents=True)
    table = '[tool.uv]\nconstraint-dependencies = ["numpy<2"]\n'
    (project / "pyproject.toml").write_text(table, encoding="utf-8")
    (project / "part/pyproject.toml").write_text('[project]\nname = "part"\n', encoding="utf-8")
    options = ("--python", ground.target("near"), "--yes", "--installer", "uv", *MACHINE)
    done = run_gpuenv(("install", *options), ground.environment(UV_NO_CONFIG="0"), LIMIT, project / "part")
    assert done.returncode == 3, done.stderr
    assert f"constraint-dependencies in {project}/pyproject.toml" in done.stderr


def test_the_system_s_settings_are_those_that_uv_reads(ground: Ground, tmp_path: Path) -> None:
    file = tmp_path / "second/uv/uv.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[pip]\nno-deps = true\n", encoding="utf-8")
    target, where = ground.target("system"), f"{tmp_path}/first:{tmp_path}/second"
    done = ground.install(target, "--installer", "uv", UV_NO_CONFIG="0", XDG_CONFIG_DIRS=where)
    assert done.returncode == 7, done.stderr
    assert f"no-deps in {file}" in " ".join(done.stderr.split())


def test_what_no_index_has_is_not_for_the_environment_to_mend(ground: Ground) -> None:
    """As a mirror that has not been brought up to date."""
    pages = ground.index.folder / "simple/cupy-cuda12x/index.html"
    lines = pages.read_text(encoding="utf-8").splitlines()
    pages.write_text("\n".join(line for line in lines if "14.2.0" not in line), encoding="utf-8")
    for installer in ("uv", "pip"):
        target = ground.target(f"mirrored-{installer}", "numpy==2.1.0", pip=installer == "pip")
        done = ground.install(target, "--installer", installer)
        assert done.returncode == 3, done.stderr
        assert "it lacks that release" in done.stderr
        assert "a separate environment" not in done.stderr
        assert "with the packages in the environment" not in done.stderr
