"""Pairs of machines, one on which CuPy works and one on which it does not: what is ranked first leads to the cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.simulate.layout import materialise
from gpuenv.simulate.profile import load
from tests.cli.program import answer
from tests.test_machines import Bench, found_on_this_host

if TYPE_CHECKING:
    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

MACHINES = Path(__file__).parent / "machines"
# There, here, the finding that is here alone, and the facts of which one must stand first.
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
    # What leads to the libraries stands before them: there the toolkit's folder is searched.
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
def recorded(
    tmp_path_factory: pytest.TempPathFactory,
    stub_driver: StubDriver,
    cuda_libraries: CudaLibraries,
    targets: Targets,
) -> Recorded:
    return Recorded(tmp_path_factory, stub_driver, cuda_libraries, targets)


class Recorded:
    """Machines as ``gpuenv probe`` records them, each probed once."""

    def __init__(
        self, folders: pytest.TempPathFactory, driver: StubDriver, libraries: CudaLibraries, targets: Targets
    ) -> None:
        self._folders, self._driver, self._libraries, self._targets = folders, driver, libraries, targets
        self._known: dict[str, Path] = {}

    def of(self, name: str) -> Path:
        if name not in self._known:
            profile = load(MACHINES / f"{name}.yaml")
            if lacking := found_on_this_host(profile):
                pytest.skip(f"this host has what {name} lacks: {lacking}")
            folder = self._folders.mktemp(name)
            machine = materialise(profile, folder, self._driver, self._libraries.of)
            path = folder / "snapshot.json"
            Bench(profile, machine, self._targets.interpreter(profile.target)).run("probe", "-o", str(path))
            self._known[name] = path
        return self._known[name]


@pytest.mark.parametrize(("there", "here", "cause", "first"), PAIRS, ids=[f"{pair[0]}-{pair[1]}" for pair in PAIRS])
def test_what_stands_first_leads_to_the_cause(
    there: str, here: str, cause: str, first: set[str], recorded: Recorded
) -> None:
    code, told = answer("diff", recorded.of(there), recorded.of(here))
    assert code == 0
    assert cause in [finding["cause"] for finding in told["findings"]]
    assert told["differences"][0]["fact"] in first, json.dumps(told["differences"][:4], indent=1)
    assert told["try_first"]


@pytest.mark.parametrize("name", ["l4-550", "h100x8-550"])
def test_two_recordings_of_one_kind_of_machine_do_not_differ(name: str, recorded: Recorded) -> None:
    code, told = answer("diff", recorded.of(name), recorded.of(name))
    assert code == 0
    assert told["differences"] == told["findings"] == told["try_first"] == []
