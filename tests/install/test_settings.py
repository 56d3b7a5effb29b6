"""The user's own settings of uv and pip: followed unless they spoil what was planned, and named where they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.install.standins import MACHINE, contents, versions

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
    assert "Look at exclude-newer in uv.toml" in " ".join(by_file.stderr.split())


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
        ({"UV_OFFLINE": "1", "PIP_INDEX_URL": "http://127.0.0.1:9/"}, "Look at the network", "UV_OFFLINE"),
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
