"""Failed installs: the reported state of the environment, and the outcome as JSON."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from gpuenv.cli.commands.schema import schema_of
from gpuenv.install.backends.base import InstallerOptions, TimeBudget
from gpuenv.install.backends.uv import Uv
from gpuenv.install.exceptions import disk_remedy
from gpuenv.install.installer_config import InstallerRun
from gpuenv.install.pip_settings import PipSettings
from gpuenv.install.solver import offline_failure
from gpuenv.probe.children import ChildGroup
from tests.install.sandbox import MACHINE, contents

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox

NOTHING_FITS = ("--assume", "driver=none", "--assume", "gpu=none")


def failed_outcome(shared: Sandbox, *arguments: str | Path, **variables: str) -> tuple[Any, str]:
    """Runs a failing command and returns its outcome, checked against the schema, and its standard error."""
    result = shared.gpuenv(*arguments, "--format", "json", "--no-redact", **variables)
    assert result.stdout, result.stderr
    outcome = json.loads(result.stdout)
    assert (outcome["schema"], outcome["exit_code"]) == ("gpuenv.outcome/1", result.returncode)
    jsonschema.Draft202012Validator(schema_of("outcome")).validate(outcome)
    stderr = " ".join(result.stderr.split())
    assert " ".join(outcome["message"].split()) in stderr
    assert (outcome["remedy"] or "") in stderr
    return outcome, stderr


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.EACCES, "the owner"), (errno.EPERM, "lsattr"), (errno.EXDEV, "mount"), (errno.ENOSPC, "Free space")],
)
def test_a_file_that_cannot_be_moved_has_a_remedy(number: int, remedy: str) -> None:
    assert remedy in str(disk_remedy(OSError(number, os.strerror(number), "cupy/__init__.py")))


@pytest.mark.parametrize(
    ("lines", "is_missing"),
    [
        # uv 0.6.15 to 0.11.0, for a conflict with an installed package, its dependency has bounds at both ends.
        (
            (
                "Because cupy-cuda12x==14.2.0 depends on numpy>=2.0,<2.6 and numpy==1.26.4, we can conclude that",
                "cupy-cuda12x==14.2.0 cannot be used. And because only the following versions of cupy-cuda12x[ctk] are",
                "available: cupy-cuda12x[ctk]<14.0.1 cupy-cuda12x[ctk]>=14.2.0 and you require cupy-cuda12x>=14.0.1,",
            ),
            False,
        ),
        # The same, and the release that does not conflict is not in the cache.
        (
            (
                "Because cupy-cuda12x==14.0.1 needs to be downloaded from a registry and cupy-cuda12x>=14.2.0 depends",
                "on cuda-pathfinder>=1.4 and cuda-pathfinder==1.3.4, we can conclude that cupy-cuda12x cannot be",
                "used. hint: Packages were unavailable because the network was disabled",
            ),
            True,
        ),
        (
            ("Because only the following versions of cupy-cuda12x are available: cupy-cuda12x<=13.4.1 and",),
            True,
        ),
        # Another package whose name begins like the dependency's is no conflict.
        (
            (
                "Because cupy==14 depends on numpy-x>=1 and numpy==1.26.4, we can conclude that it cannot be used. And",
                "because only the following versions of numpy-x are available: numpy-x<1",
            ),
            True,
        ),
    ],
)
def test_an_offline_conflict_is_not_a_missing_file(lines: tuple[str, ...], is_missing: bool) -> None:  # noqa: FBT001
    uv = Uv(str(Path(sys.executable).with_name("uv")), "0.13.9", (), PipSettings((), (), False, ()))
    options = InstallerOptions(sys.executable, offline=True)
    run = InstallerRun(uv, options, dict(os.environ), TimeBudget(60), ChildGroup())
    assert (offline_failure("\n".join(lines), ("cupy-cuda12x",), run) is not None) == is_missing


@pytest.fixture
def closed_index() -> str:
    """Returns the URL of an index that is not served."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}/simple"


def test_an_unreachable_index_is_reported_and_changes_nothing(shared: Sandbox, closed_index: str) -> None:
    target = shared.target("unreached", "numpy==2.1.0")
    before = contents(target)
    outcome, _ = failed_outcome(shared, "install", "--python", target, "--yes", *MACHINE, UV_DEFAULT_INDEX=closed_index)
    assert (outcome["exit_code"], outcome["status"], outcome["transaction"]) == (4, "failed", None)
    assert outcome["message"].endswith("; nothing was changed")
    assert "network, proxy and index settings" in outcome["remedy"]
    assert contents(target) == before


def test_an_installer_timeout_is_reported_and_changes_nothing(shared: Sandbox) -> None:
    """The index accepts the connection and never answers."""
    target = shared.target("hurried", "numpy==2.1.0")
    before = contents(target)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        command = ("--installer", "uv", "--install-timeout", "4")
        outcome, _ = failed_outcome(
            shared, "install", "--python", target, "--yes", *MACHINE, *command, UV_DEFAULT_INDEX=address
        )
    assert (outcome["exit_code"], outcome["status"]) == (4, "failed")
    assert "--install-timeout" in outcome["message"]
    assert outcome["message"].endswith("; nothing was changed")
    assert contents(target) == before


def test_an_outcome_says_why_no_wheel_fits(shared: Sandbox) -> None:
    target = shared.target("none")
    outcome, _ = failed_outcome(shared, "install", "--python", target, "--yes", *NOTHING_FITS)
    assert (outcome["exit_code"], outcome["status"]) == (3, "failed")
    assert "nothing was changed" in outcome["message"]
    assert "--assume driver=" in outcome["remedy"]


def test_an_unusable_target_has_an_outcome(shared: Sandbox) -> None:
    target = shared.target("broken")
    for interpreter in target.glob("bin/python*"):
        interpreter.unlink()
        interpreter.symlink_to("/nonexistent/python")
    (target / "bin/python").unlink()
    (target / "bin/python").write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    (target / "bin/python").chmod(0o755)
    for command in ("install", "rollback"):
        outcome, _ = failed_outcome(shared, command, "--yes", "--python", target)
        assert (outcome["exit_code"], outcome["status"]) == (7, "failed")


def test_a_rollback_without_an_install_has_an_outcome(shared: Sandbox) -> None:
    target = shared.target("new")
    for option in ("--yes", "0009", "--dry-run"):
        outcome, _ = failed_outcome(shared, "rollback", "--yes", "--python", target, option)
        assert (outcome["exit_code"], outcome["status"]) == (4, "failed")
        assert "no install to roll back" in outcome["message"]
        assert outcome["message"].endswith("; nothing was changed")


def test_a_wheel_missing_from_the_cache_is_an_installer_failure(shared: Sandbox) -> None:
    """Offline, what fits is unknown: the exit code is 4, and the message names the cache and the fix."""
    target, cache = shared.target("offline-install"), shared.folder / "empty"
    outcome, _ = failed_outcome(
        shared,
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
    assert (outcome["exit_code"], outcome["status"]) == (4, "failed")
    assert f"its cache holds ({cache})" in outcome["message"]
    assert "cannot be installed with the packages" not in outcome["message"]
    assert "leave out --offline" in outcome["remedy"]
    assert "gpuenv bundle" in outcome["remedy"]


def test_an_offline_lock_with_an_empty_cache_fails(shared: Sandbox) -> None:
    cache = shared.folder / "empty"
    command = ("lock", "--python", shared.target("offline-lock"), *MACHINE, "--installer", "uv")
    result = shared.gpuenv(*command, UV_CACHE_DIR=str(cache), UV_OFFLINE="1")
    assert (result.returncode, result.stdout) == (4, "")
    assert str(cache) in result.stderr
    assert "unset UV_OFFLINE" in result.stderr


def test_a_conflict_is_reported_as_a_conflict_when_offline(shared: Sandbox) -> None:
    """All required metadata is in the cache, so the failure is a conflict, not a missing file."""
    target = shared.target("offline-conflict", "numpy==1.26.4", "old-science==1.0")
    command = (
        "install",
        "--python",
        target,
        "--yes",
        *MACHINE,
        "--installer",
        "uv",
        "cupy>=14",
        "--assume=numpy=2.1.0",
    )
    assert failed_outcome(shared, *command)[0]["exit_code"] == 3, "fills the cache"
    outcome, _ = failed_outcome(shared, *command, "--offline")
    assert (outcome["exit_code"], outcome["status"]) == (3, "failed")
    assert "cannot be installed with the packages" in outcome["message"]
    assert outcome["message"].endswith("; nothing was changed")


def test_pip_requests_no_packages_when_offline(shared: Sandbox) -> None:
    target, requests = shared.target("pip", pip=True), [*shared.index.requests]
    outcome, _ = failed_outcome(
        shared, "install", "--python", target, "--yes", *MACHINE, "--installer", "pip", "--offline"
    )
    assert outcome["exit_code"] == 4
    assert shared.index.requests == requests
    assert "leave out --offline" in outcome["remedy"]
    assert "gpuenv install --python" in outcome["remedy"], "the bundle, for this target"
    assert "Fill the cache" not in outcome["remedy"], "pip has no index to fill it from"
