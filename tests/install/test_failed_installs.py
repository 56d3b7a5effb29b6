"""Failed installs: the reported state of the environment, and the outcome as JSON."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tests.cli.program import gpuenv
from tests.install.sandbox import MACHINE, contents

if TYPE_CHECKING:
    from pathlib import Path

    from tests.install.sandbox import Ground

NOTHING_FITS = ("--assume", "driver=none", "--assume", "gpu=none")


def ended(ground: Ground, *arguments: str | Path, **variables: str) -> tuple[Any, str]:
    """The outcome of a command that ends early, held against its schema, and what stands on standard error."""
    done = ground.gpuenv(*arguments, "--format", "json", "--no-redact", **variables)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert (told["schema"], told["exit_code"]) == ("gpuenv.outcome/1", done.returncode)
    schema = json.loads(gpuenv("schema", "outcome").stdout)
    jsonschema.Draft202012Validator(schema).validate(told)
    said = " ".join(done.stderr.split())
    assert " ".join(told["message"].split()) in said
    assert (told["remedy"] or "") in said
    return told, said


@pytest.fixture
def closed_index() -> str:
    """The address of an index that nobody serves."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}/simple"


@pytest.mark.parametrize("options", [(), ("--dry-run",)], ids=" ".join)
def test_an_index_out_of_reach_changes_nothing_and_says_so(
    ground: Ground, closed_index: str, options: tuple[str, ...]
) -> None:
    target = ground.target("unreached", "numpy==2.1.0")
    before = contents(target)
    told, _ = ended(ground, "install", "--python", target, "--yes", *options, *MACHINE, UV_DEFAULT_INDEX=closed_index)
    assert (told["exit_code"], told["status"], told["transaction"]) == (4, "failed", None)
    assert told["message"].endswith("; nothing was changed")
    assert "network, proxy and index settings" in told["remedy"]
    assert contents(target) == before


def test_an_installer_without_time_changes_nothing_and_says_so(ground: Ground) -> None:
    """The index takes the call and never answers."""
    target = ground.target("hurried", "numpy==2.1.0")
    before = contents(target)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        words = ("--installer", "uv", "--install-timeout", "4")
        told, _ = ended(ground, "install", "--python", target, "--yes", *MACHINE, *words, UV_DEFAULT_INDEX=address)
    assert (told["exit_code"], told["status"]) == (4, "failed")
    assert "timed out after" in told["message"]
    assert told["message"].endswith("; nothing was changed")
    assert contents(target) == before


def test_where_no_wheel_fits_the_outcome_says_why(ground: Ground) -> None:
    target = ground.target("none")
    told, _ = ended(ground, "install", "--python", target, "--yes", *NOTHING_FITS)
    assert (told["exit_code"], told["status"]) == (3, "failed")
    assert "nothing was changed" in told["message"]
    assert "--assume driver=" in told["remedy"]


@pytest.mark.parametrize("command", [("install", "--yes"), ("rollback",)], ids=" ".join)
def test_a_target_that_cannot_be_used_has_an_outcome(ground: Ground, command: tuple[str, ...]) -> None:
    target = ground.target("broken")
    for interpreter in target.glob("bin/python*"):
        interpreter.unlink()
        interpreter.symlink_to("/nonexistent/python")
    (target / "bin/python").unlink()
    (target / "bin/python").write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    (target / "bin/python").chmod(0o755)
    told, _ = ended(ground, *command, "--python", target)
    assert (told["exit_code"], told["status"]) == (7, "failed")


@pytest.mark.parametrize("options", [(), ("0009",), ("--dry-run",)], ids=" ".join)
def test_what_cannot_be_rolled_back_has_an_outcome(ground: Ground, options: tuple[str, ...]) -> None:
    target = ground.target("new")
    told, _ = ended(ground, "rollback", "--python", target, *options)
    assert (told["exit_code"], told["status"]) == (4, "failed")
    assert "no install to roll back" in told["message"]
    assert told["message"].endswith("; nothing was changed")


def test_a_rollback_that_ends_half_way_says_what_it_did(ground: Ground) -> None:
    target = ground.target("half", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    (site,) = target.glob("lib/python*/site-packages")
    assert ground.install(target).returncode == 0
    (site / "cupy/part3.py").unlink()
    assert ground.install(target).returncode == 0
    (mine,) = site.glob("nvidia_cuda_nvrtc_cu12-*.dist-info/METADATA")  # came with the first
    mine.write_text("mine", encoding="utf-8")
    told, _ = ended(ground, "rollback", "--python", target, "0001")
    assert (told["exit_code"], told["status"]) == (4, "not-restored")
    assert "of install 0001 have been changed since" in told["message"]
    assert told["message"].endswith("; before, 0002 was rolled back")


def test_what_the_cache_lacks_is_the_installer_s_failure(ground: Ground) -> None:
    """Without a network nothing can be said of what fits: the code is 4, and the cache and the cure are named."""
    target, cache = ground.target("apart"), ground.folder / "empty"
    told, _ = ended(
        ground,
        "install",
        "--python",
        target,
        "--yes",
        *MACHINE,
        "--installer",
        "uv",
        "--offline",
        UV_CACHE_DIR=str(cache),
    )
    assert (told["exit_code"], told["status"]) == (4, "failed")
    assert f"its cache holds ({cache})" in told["message"]
    assert "cannot be installed with the packages" not in told["message"]
    assert "leave out --offline" in told["remedy"]
    assert "gpuenv bundle" in told["remedy"]


@pytest.mark.parametrize(
    ("options", "variables", "cure"),
    [(("--offline",), {}, "leave out --offline"), ((), {"UV_OFFLINE": "1"}, "unset UV_OFFLINE")],
    ids=["option", "variable"],
)
def test_a_lock_without_files_fails_too(
    ground: Ground, options: tuple[str, ...], variables: dict[str, str], cure: str
) -> None:
    cache = ground.folder / "empty"
    words = ("lock", "--python", str(ground.target("apart")), *MACHINE, "--installer", "uv", *options)
    done = ground.gpuenv(*words, UV_CACHE_DIR=str(cache), **variables)
    assert (done.returncode, done.stdout) == (4, "")
    assert str(cache) in done.stderr
    assert cure in done.stderr


def test_what_cannot_live_together_is_told_as_that_without_a_network_too(ground: Ground) -> None:
    """All that is asked of is in the cache: then it is a conflict, and no want of files."""
    target = ground.target("conflict", "numpy==1.26.4", "old-science==1.0")
    words = ("install", "--python", target, "--yes", *MACHINE, "--assume", "numpy=2.1.0", "--installer", "uv")
    assert ended(ground, *words)[0]["exit_code"] == 3, "which fills the cache"
    told, _ = ended(ground, *words, "--offline")
    assert (told["exit_code"], told["status"]) == (3, "failed")
    assert "cannot be installed with the packages" in told["message"]
    assert told["message"].endswith("; nothing was changed")


def test_pip_asks_no_index_without_a_network(ground: Ground) -> None:
    target = ground.target("pip", pip=True)
    told, _ = ended(ground, "install", "--python", target, "--yes", *MACHINE, "--installer", "pip", "--offline")
    assert told["exit_code"] == 4
    assert not [path for path in ground.index.requests if "cupy" in path]
    assert "leave out --offline" in told["remedy"]
    assert "gpuenv install --python" in told["remedy"], "the bundle, for this target"
    assert "Fill the cache" not in told["remedy"], "pip asks no index, so that a full one helps nobody"
