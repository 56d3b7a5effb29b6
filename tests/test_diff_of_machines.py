"""``gpuenv diff`` on pairs of a working and a broken machine: the first difference leads to the cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.simulate.layout import materialise
from gpuenv.simulate.profile import load
from tests.cli.program import answer
from tests.test_machines import MachineRunner, present_on_this_host

if TYPE_CHECKING:
    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

MACHINES = Path(__file__).parent / "machines"
# The working machine, the broken machine, its cause, and the facts of which one must be ranked first.
PAIRS = (
    ("l4-550", "hidden-by-visible-devices", "visible-devices-hide-gpu", {"environment.CUDA_VISIBLE_DEVICES"}),
    (
        "l4-550",
        "mismatch-535",
        "driver-library-version-mismatch",
        {"driver.library_version", "driver.module_version", "driver.version"},
    ),
    ("l4-550", "two-cupy", "multiple-cupy-packages", {"target.cupy"}),
    ("l4-550", "no-cupy", "cupy-not-installed", {"target.cupy"}),
    ("l4-550", "rocm-on-nvidia", "rocm-mismatch", {"target.cupy"}),
    ("l4-550", "numpy1-cupy14", "numpy-incompatible", {"target.packages.numpy"}),
    ("l4-550", "driver-too-old-wheel", "driver-too-old-for-cuda", {"target.cupy", "driver.version", "driver.cuda"}),
    # The search path precedes the libraries: on the working machine it contains the toolkit's folder.
    ("l4-550", "library-missing", "cuda-library-missing", {"environment.LD_LIBRARY_PATH"}),
    ("l4-550", "container-utility-only", "container-driver-capabilities", {"environment.NVIDIA_DRIVER_CAPABILITIES"}),
    ("v100-580", "v100-cuda13x-580", "gpu-removed-from-toolkit", {"target.cupy"}),
    ("v100-580", "v100-prohibited", "compute-mode-exclusive", {"gpus[].compute_mode"}),
    ("h100-535", "no-driver-h100", "no-driver", {"driver.module"}),
    ("gtx1080ti-580", "nouveau-gtx1080ti", "nouveau-loaded", {"driver.module", "driver.nouveau"}),
    ("a100-mig-535", "a100-mig-wrong-instance", "mig-misconfigured", {"environment.CUDA_VISIBLE_DEVICES"}),
    ("k80-470", "k80-580", "gpu-removed-from-driver", {"driver.version"}),
    ("l4-550", "module-not-loaded-a100", "driver-module-not-loaded", {"driver.module"}),
)


@pytest.fixture(scope="module")
def snapshot_files(
    tmp_path_factory: pytest.TempPathFactory,
    stub_driver: StubDriver,
    cuda_libraries: CudaLibraries,
    targets: Targets,
) -> SnapshotFiles:
    return SnapshotFiles(tmp_path_factory, stub_driver, cuda_libraries, targets)


class SnapshotFiles:
    """Snapshots of machines written by ``gpuenv probe``; each machine is probed once."""

    def __init__(
        self, folders: pytest.TempPathFactory, driver: StubDriver, libraries: CudaLibraries, targets: Targets
    ) -> None:
        self._folders, self._driver, self._libraries, self._targets = folders, driver, libraries, targets
        self._paths: dict[str, Path] = {}

    def of(self, name: str) -> Path:
        if name not in self._paths:
            profile = load(MACHINES / f"{name}.yaml")
            if present := present_on_this_host(profile):
                pytest.skip(f"this host has what {name} lacks: {present}")
            folder = self._folders.mktemp(name)
            machine = materialise(profile, folder, self._driver, self._libraries.of)
            path = folder / "snapshot.json"
            MachineRunner(profile, machine, self._targets.interpreter(profile.target)).run("probe", "-o", str(path))
            self._paths[name] = path
        return self._paths[name]


@pytest.mark.parametrize(("working", "broken", "cause", "first"), PAIRS, ids=[f"{pair[0]}-{pair[1]}" for pair in PAIRS])
def test_the_first_difference_leads_to_the_cause(
    working: str, broken: str, cause: str, first: set[str], snapshot_files: SnapshotFiles
) -> None:
    code, diff = answer("diff", snapshot_files.of(working), snapshot_files.of(broken))
    assert code == 0
    assert cause in [finding["cause"] for finding in diff["findings"]]
    assert diff["differences"][0]["fact"] in first, json.dumps(diff["differences"][:4], indent=1)
    assert diff["try_first"]


@pytest.mark.parametrize("name", ["l4-550", "h100x8-550"])
def test_identical_snapshots_have_no_difference(name: str, snapshot_files: SnapshotFiles) -> None:
    code, diff = answer("diff", snapshot_files.of(name), snapshot_files.of(name))
    assert code == 0
    assert diff["differences"] == diff["findings"] == diff["try_first"] == []
