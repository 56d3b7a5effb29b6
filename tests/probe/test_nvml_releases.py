"""Equal facts from every release of nvidia-ml-py between the lowest in pyproject.toml and the newest."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml  # type: ignore[import-untyped]
import pytest

from gpuenv.probe.context import script
from gpuenv.probe.protocol import nested, parse_facts
from tests.probe.nvidia import OLDER, PAIR, environment_of

if TYPE_CHECKING:
    from gpuenv.simulate.stub_driver import StubDriver

pytestmark = pytest.mark.network

PROJECT = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
(LOWEST,) = re.findall(r'"nvidia-ml-py>=([\d.]+)"', PROJECT)
REQUIREMENTS = (f"=={LOWEST}", "==12.550.*", "==12.570.*", "==13.580.*", "")
LOST = "nvml.return.nvmlDeviceGetHandleByIndex_v2@1"
# Also with an older driver, an implausible number, a failing function, and a lost GPU.
MACHINES = {
    "usual": PAIR,
    "older": PAIR | OLDER,
    "failing": PAIR | {"nvml.return.nvmlDeviceGetMemoryInfo": "999", "gpu.0.temperature": "4000000000"},
    "lost": PAIR | {LOST: "15"},
}


def facts_with(stub: StubDriver, folder: Path, keys: dict[str, str], library: Path) -> tuple[dict[str, Any], list[Any]]:
    """The facts of the driver and of each GPU as read with a release of nvidia-ml-py."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-I", "-S", "-B", script("start.py"), "nvml", str(library)]
    environment = environment_of(stub, folder, keys)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    facts = parse_facts(done.stdout)
    assert facts["done"] is True
    gpus = nested(facts, "gpu")
    for gpu in gpus:
        reasons = gpu.get("why", {}).items()
        gpu["why"] = {key: why for key, why in reasons if not why.endswith("is unknown to the installed nvidia-ml-py")}
    return {key: facts[key] for key in ("init", "driver_version", "cuda", "count")}, gpus


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda text: text or "newest")
def test_every_release_of_nvidia_ml_py_reports_the_same_facts(
    requirement: str, stub_driver: StubDriver, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(library)]
    done = subprocess.run([*install, f"nvidia-ml-py{requirement}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    installed = Path(str(pynvml.__file__)).parent
    for name, keys in MACHINES.items():
        if name == "older" and requirement == f"=={LOWEST}":
            continue  # it cannot query the processes of drivers before R510
        driver, gpus = facts_with(stub_driver, tmp_path / name, keys, library)
        assert (driver, gpus) == facts_with(stub_driver, tmp_path / name, keys, installed), name
        assert driver["driver_version"] == "580.95.05"
        assert [type(gpu["name"]) for gpu in gpus if "name" in gpu] == [str] * (1 if name == "lost" else 2)
