"""A machine that shows nothing of its hardware: nothing is concluded about its GPUs or its container."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import MINIMAL, PROGRAM, answer

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = ("doctor", "--no-config", "--python", sys.executable)
BLAMING = {"CTR301", "GPU201", "DRV106"}


def codes(report: dict[str, list[dict[str, str]]]) -> set[str]:
    return {finding["code"] for finding in report["findings"]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a container whose /sys is empty."""
    for folder in ("sys", "proc", "etc", "dev", "usr/lib"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".dockerenv").touch()
    return tmp_path


def test_a_container_with_an_empty_sys_is_not_blamed(root: Path) -> None:
    _, report = answer(*OPTIONS, environment={"GPUENV_DRIVER_ROOT": str(root)})
    assert report["snapshot"]["host"]["container"]["value"] == "docker"
    assert report["snapshot"]["pci_gpus"] is None
    assert codes(report) & BLAMING == set()
    unknown = {check["code"] for check in report["checks"] if "neither the PCI bus nor" in (check["reason"] or "")}
    assert unknown == {"CTR301", "DRV106"}


def test_a_container_on_a_host_with_the_module_is_blamed(root: Path) -> None:
    (root / "proc/modules").write_text("nvidia 1 0 - Live 0x0\n")
    _, report = answer(*OPTIONS, environment={"GPUENV_DRIVER_ROOT": str(root)})
    assert codes(report) & BLAMING == {"CTR301"}


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")
def test_the_real_machine_with_an_empty_sys_has_no_claim_about_its_gpus(root: Path) -> None:
    """The kernel's own /sys, covered by an empty file system in a mount namespace of its own."""
    script = 'mount -t tmpfs none /sys && touch "$1/.dockerenv" && shift && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", str(root), *PROGRAM, *OPTIONS]
    result = subprocess.run(command, env=MINIMAL, capture_output=True, text=True, check=False, timeout=60)
    if "mount" in result.stderr:
        pytest.skip("no file system can be mounted here")
    if os.path.exists("/dev/nvidiactl"):  # noqa: PTH110
        pytest.skip("this machine has a driver")
    for text in ("This container was started without", "This machine has no NVIDIA GPU"):
        assert text not in result.stdout
