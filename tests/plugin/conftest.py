"""Interpreters with pytest, gpuenv and the metadata of CuPy, on simulated machines."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gpuenv
from gpuenv.simulate.layout import SimulatedMachine, materialise
from gpuenv.simulate.profile import load
from tests.support.target import CudaLibraries, Targets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuenv.simulate.profile import TargetSpec
    from gpuenv.simulate.stub_driver import StubDriver

OLDEST = "7.4.0"  # the oldest pytest that the plug-in works with; pyproject.toml names it too
MACHINES = Path(__file__).parents[1] / "machines"
CHECKOUT = Path(gpuenv.__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Lab:
    """A simulated machine, and an interpreter on it that has pytest."""

    machine: SimulatedMachine
    interpreter: Path
    folder: Path

    def pytest(
        self, text: str, *arguments: str, ini: str = "", variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs pytest on a test file; VARIABLES are added to the environment."""
        (self.folder / "test_them.py").write_text(text, encoding="utf-8")
        (self.folder / "pytest.ini").write_text(f"[pytest]\n{ini}", encoding="utf-8")
        return subprocess.run(
            [str(self.interpreter), "-m", "pytest", "-ra", "-p", "no:cacheprovider", *arguments, "test_them.py"],
            cwd=self.folder,
            env={**self.machine.environment, **(variables or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def probe_count(self) -> int:
        """The number of probes of the machine, by the calls of nvidia-smi."""
        log = self.folder / "nvidia-smi-calls"
        counts = Counter(log.read_text(encoding="utf-8").splitlines()) if log.exists() else Counter[str]()
        return max(counts.values(), default=0)


@pytest.fixture(scope="session", params=["installed", OLDEST])
def search_path(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The folders with pytest: the newest release, and the oldest supported one."""
    installed = sysconfig.get_path("purelib")
    if request.param == "installed":
        return (installed,)
    oldest = Path(sys.prefix, f"pytest-{OLDEST}")
    if not oldest.is_dir():
        pytest.skip(f"make test-long installs pytest {OLDEST}")
    return (str(oldest), installed)


@pytest.fixture(scope="session")
def interpreters(
    tmp_path_factory: pytest.TempPathFactory, search_path: tuple[str, ...]
) -> Callable[[TargetSpec], Path]:
    """Target environments that can import the packages of these tests."""
    plugin_targets = Targets(tmp_path_factory.mktemp("plugin-targets"))

    def interpreter(target: TargetSpec) -> Path:
        path = plugin_targets.interpreter(target)
        (site,) = path.parents[1].glob("lib/python*/site-packages")
        # All: a path file's own lines are not searched for further path files.
        (site / "tests.pth").write_text("\n".join([str(CHECKOUT), *search_path, ""]), encoding="utf-8")
        return path

    return interpreter


@pytest.fixture
def lab(
    tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries, interpreters: Callable[[TargetSpec], Path]
) -> Callable[[str], Lab]:
    """Creates a lab from a profile's name."""

    def make(name: str) -> Lab:
        profile = load(MACHINES / f"{name}.yaml")
        machine = materialise(profile, tmp_path / "machine", stub_driver, cuda_libraries.of)
        folder = tmp_path / "project"
        folder.mkdir()
        smi = machine.root / "usr/bin/nvidia-smi"
        if smi.exists():
            smi.rename(smi.with_name("nvidia-smi.real"))
            smi.write_text(
                f'#!/bin/sh\necho "$*" >> {folder}/nvidia-smi-calls\nexec {smi}.real "$@"\n', encoding="utf-8"
            )
            smi.chmod(0o755)
        return Lab(machine, interpreters(profile.target), folder)

    return make
