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
# The working machine, the failing one, the cause of the explanation, and the first fact; None if there is none.
PAIRS = (
    ("l4-550", "hidden-by-visible-devices", "visible-devices-hide-gpu", "environment.CUDA_VISIBLE_DEVICES"),
    ("slurm-grant-two-of-eight", "slurm-host-numbers", "visible-devices-hide-gpu", "environment.CUDA_VISIBLE_DEVICES"),
    ("l4-550", "mismatch-535", "driver-library-version-mismatch", "driver.version"),
    ("l4-550", "two-cupy", "multiple-cupy-packages", "target.cupy"),
    ("l4-550", "no-cupy", "cupy-not-installed", "target.cupy"),
    ("l4-550", "rocm-on-nvidia", "rocm-mismatch", "target.cupy"),
    ("l4-550", "amd-mi210-rocm", "rocm-mismatch", "gpus"),
    ("l4-550", "numpy1-cupy14", "numpy-incompatible", "target.packages.numpy"),
    ("l4-550", "driver-too-old-wheel", "driver-too-old-for-cuda", "target.cupy"),
    ("l4-550", "library-missing", "cuda-library-missing", "target.libraries.cublas"),
    ("l4-550", "container-utility-only", "container-driver-capabilities", "environment.NVIDIA_DRIVER_CAPABILITIES"),
    ("l4-550", "container-without-gpu", "container-without-gpu", "host.container"),
    ("jetson-orin-540", "orin-plain-docker", "container-without-gpu", "host.container"),
    ("l4-550", "cgroup-lost-gpu", "container-cgroup-lost-gpu", "driver.cuda_init"),
    ("v100-580", "v100-cuda13x-580", "gpu-removed-from-toolkit", "target.cupy"),
    ("v100-580", "v100-prohibited", "compute-mode-exclusive", "gpus[].compute_mode"),
    ("h100-535", "no-driver-h100", "no-driver", "driver.module"),
    ("l4-550", "no-gpu", "no-nvidia-gpu", "gpus"),
    ("gtx1080ti-580", "nouveau-gtx1080ti", "nouveau-loaded", "driver.module"),
    ("a100-mig-535", "a100-mig-wrong-instance", "mig-misconfigured", "environment.CUDA_VISIBLE_DEVICES"),
    ("a100-mig-535", "mig-without-instances", "mig-misconfigured", "driver.cuda_init"),
    ("k80-470", "k80-580", "gpu-removed-from-driver", "driver.version"),
    ("l4-550", "module-not-loaded-a100", "driver-module-not-loaded", "driver.module"),
    ("h200-580", "h200-fabric-in-progress", "fabric-manager-not-running", "driver.cuda_init"),
    # The state that explains these is no compared fact: processes, the kernel log, a licence.
    ("v100-exclusive-idle", "v100-exclusive-in-use", "compute-mode-exclusive", None),
    ("h100x8-550", "one-of-eight-lost", "gpu-hardware-fault", "visible_count"),
    ("vgpu-a10-570", "vgpu-a10-unlicensed", "gpu-throttled", None),
    # The doctor finds nothing wrong.
    ("l4-550", "application-xids", None, None),
    ("h100x8-550", "h100x8-550", None, None),
    ("hidden-by-visible-devices", "hidden-by-visible-devices", None, None),
    ("l4-pair-first-full", "l4-550", None, "gpus"),
    ("l4-550", "gke-l4", None, "driver.cuda_origin"),
    ("l4-550", "fedora-lib64", None, "host.distribution"),
    ("l4-550", "conda-cupy-without-cuda-version", None, "target.cupy"),
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


@pytest.mark.parametrize(("working", "failing", "cause", "first"), PAIRS, ids=[f"{a}-{b}" for a, b, *_ in PAIRS])
def test_the_explanation_and_the_first_difference_are_as_expected(
    working: str, failing: str, cause: str | None, first: str | None, snapshot_files: SnapshotFiles
) -> None:
    files = snapshot_files.of(working), snapshot_files.of(failing)
    code, diff = answer("diff", *files)
    assert code == 0
    explanation, differences = diff["explanation"], diff["differences"]
    details = json.dumps([explanation, differences], indent=1)
    assert (explanation and explanation["cause"], differences[0]["fact"] if differences else None) == (cause, first), (
        details
    )
    if cause:
        _, report = answer("doctor", "--snapshot", files[1])
        (finding, *_) = report["findings"]
        assert (explanation["code"], diff["try_first"]) == (finding["code"], finding["fix"])
    # Each simulated machine has its own temporary folder, UUIDs and addresses.
    assert "environment.LD_LIBRARY_PATH" not in {entry["fact"] for entry in differences}
    assert not any(str(file.parent) in str(entry["there"]) for entry in differences for file in files), details


def test_machines_that_differ_in_the_number_of_gpus_alone_differ_in_nothing_else(snapshot_files: SnapshotFiles) -> None:
    _, diff = answer("diff", snapshot_files.of("l4-pair-first-full"), snapshot_files.of("l4-550"))
    (difference,) = diff["differences"]
    assert (difference["there"], difference["here"]) == ("2 x NVIDIA L4", "1 x NVIDIA L4")
