"""The package commands of the fixes, carried out with ``apt-get --simulate`` in new systems of Debian and Ubuntu.

The repository steps of the distributions are carried out for real. NVIDIA's own repositories are not used: their
packages are checked by test_fix_table.py alone, against the names in NVIDIA's documents. Needs root, debootstrap and
the distributions' archives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpuenv.doctor.driver_requirements import DriverRequirement
from gpuenv.doctor.fixes.distributions import driver_package_fixes, other_kernel_modules_fixes, system_steps
from gpuenv.doctor.fixes.kernel_module import signed_module_fixes
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Driver, Host, Snapshot
from gpuenv.model.versions import DriverVersion
from tests.support.diagnosis import context_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.model.finding import Fix

pytestmark = [
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("debootstrap") is None, reason="needs root and debootstrap"),
]
ANY = DriverRequirement(None, None, frozenset())
DEBIAN, UBUNTU = "http://deb.debian.org/debian", "http://archive.ubuntu.com/ubuntu"
# Suite, mirror, and the branch of the driver that the distribution itself has.
SYSTEMS = {
    "debian 12": ("bookworm", DEBIAN, 535),
    "debian 13": ("trixie", DEBIAN, 550),
    "ubuntu 22.04": ("jammy", UBUNTU, 580),
    "ubuntu 24.04": ("noble", UBUNTU, 580),
}


@pytest.fixture(scope="module", params=SYSTEMS)
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The name of a distribution, and the root of a minimal one."""
    suite, mirror, _ = SYSTEMS[request.param]
    root = tmp_path_factory.mktemp(suite)
    root.chmod(0o755)
    command = ["debootstrap", "--variant=minbase"]
    if mirror == UBUNTU:  # Debian's keyring does not have its key; the system that is made has it
        command += ["--no-check-gpg", "--components=main,restricted,universe,multiverse"]
    scripts = ["gutsy"] if mirror == UBUNTU else []  # newer suites use this script; debootstrap may not know them
    result = subprocess.run([*command, suite, root, mirror, *scripts], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        pytest.skip(f"debootstrap {suite}: {result.stdout[-200:]}{result.stderr[-200:]}")
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    if mirror == UBUNTU:
        lines = [f"deb {mirror} {suite}{part} main restricted universe multiverse" for part in ("", "-updates")]
        (root / "etc/apt/sources.list").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run(root, "apt-get", "update")
    return request.param, root


def run(root: Path, *command: str) -> str:
    """Runs a command in a system, and returns its output."""
    result = subprocess.run(["chroot", root, *command], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command}: {result.stdout[-500:]}{result.stderr[-500:]}"
    return result.stdout


def snapshot_of(name: str, root: Path) -> Snapshot:
    """A machine with the newest kernel and driver that the archive has."""
    _, _, branch = SYSTEMS[name]
    package = f"nvidia-driver-{branch}" if name.startswith("ubuntu") else "nvidia-driver"
    lines = run(root, "apt-cache", "policy", package).splitlines()
    candidate = next((line.split()[1] for line in lines if "Candidate:" in line), "").partition("-")[0]
    packages = run(root, "apt-cache", "pkgnames", "linux-headers-").split()
    flavour = "-generic" if name.startswith("ubuntu") else "-amd64"
    kernels = sorted(p for p in packages if p.endswith(flavour) and p.removeprefix("linux-headers-")[0].isdigit())
    version = DriverVersion.parse(candidate) if candidate[:1].isdigit() else DriverVersion.parse(f"{branch}.1")
    return Snapshot(
        host=Host(
            os=known("linux", "uname"),
            distribution=known(name, "os-release"),
            kernel=known(kernels[-1].removeprefix("linux-headers-"), "uname"),
            arch=known("x86_64", "uname"),
        ),
        driver=Driver(version=known(version, "nvml"), branch=known(branch, "nvml")),
    )


def simulate(root: Path, fixes: tuple[Fix, ...]) -> list[str]:
    """Carries out the steps: those of repositories for real, those of packages simulated; returns the latter."""
    simulated = []
    for fix in fixes:
        command = [word for word in fix.command or () if word != "sudo"]
        if command[:1] == ["sh"]:
            run(root, *command)
        elif command[:1] == ["apt-get"]:
            run(root, "apt-get", "--simulate", "--no-install-recommends", *command[1:])
            simulated.append(" ".join(command))
    return simulated


def test_the_distribution_has_every_package_of_its_fixes(system: tuple[str, Path]) -> None:
    name, root = system
    is_debian = name.startswith("debian")
    repository = driver_package_fixes(snapshot_of(name, root), ANY, exact=is_debian)
    assert bool(simulate(root, repository)) is is_debian, "Ubuntu's own program chooses the package"
    snapshot = snapshot_of(name, root)
    for task in ("libcuda", "firmware", "headers", "kernel-update", "remove-driver"):
        simulate(root, system_steps(snapshot, task))
    simulate(root, system_steps(snapshot, "compiler", compiler="gcc-12"))
    for wants_open in (True, False):
        assert simulate(root, other_kernel_modules_fixes(snapshot, wants_open=wants_open))
    if not is_debian:  # Debian has no signed module and no fabric manager, and neither has NVIDIA's container toolkit
        assert simulate(root, signed_module_fixes(context_of(snapshot)))
        assert simulate(root, system_steps(snapshot, "fabric-manager"))


@pytest.mark.parametrize("kinds", [(), ("open",)])
def test_the_branches_that_the_table_says_a_distribution_has_are_there(
    system: tuple[str, Path], kinds: tuple[str, ...]
) -> None:
    name, root = system
    snapshot = snapshot_of(name, root)
    for branch in (390, 470, 535, 550, 570, 580, 590, 595):
        needed = DriverRequirement(branch, branch, frozenset(kinds))
        fixes = driver_package_fixes(snapshot, needed, exact=True)
        if not any("developer.download.nvidia.com" in word for fix in fixes for word in fix.command or ()):
            simulate(root, fixes)
