"""A machine that shows nothing of its hardware: nothing is concluded about its GPUs or its container."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.cli.program import answer

if TYPE_CHECKING:
    from pathlib import Path


def test_a_container_with_an_empty_sys_is_not_blamed(tmp_path: Path) -> None:
    for folder in ("sys", "proc", "etc", "dev", "usr/lib"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".dockerenv").touch()
    options = ("doctor", "--no-config", "--python", sys.executable)
    _, report = answer(*options, environment={"GPUENV_DRIVER_ROOT": str(tmp_path)})
    assert report["snapshot"]["host"]["container"]["value"] == "docker"
    assert report["snapshot"]["pci_gpus"] is None
    assert {finding["code"] for finding in report["findings"]} & {"CTR301", "GPU201", "DRV106"} == set()
    unknown = {check["code"] for check in report["checks"] if "neither the PCI bus nor" in (check["reason"] or "")}
    assert unknown == {"CTR301", "DRV106"}
