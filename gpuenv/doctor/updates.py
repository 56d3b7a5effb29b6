"""Updates of the driver that have stopped half-way, so that a restart alone brings the same state back. Pure."""

from __future__ import annotations

from gpuenv.doctor.remedies import family, module_build
from gpuenv.model.finding import Fix
from gpuenv.model.snapshot import Snapshot

_FINISH = {
    **dict.fromkeys(("ubuntu", "debian"), ("sudo", "apt-get", "install", "--fix-broken")),
    **dict.fromkeys(("rhel", "fedora"), ("sudo", "dnf", "distro-sync")),
    "arch": ("sudo", "pacman", "-Syu"),
    "suse": ("sudo", "zypper", "verify"),
}


def to_finish(snapshot: Snapshot) -> tuple[Fix, ...]:
    """What comes before the restart where the disk has the old driver's module for this kernel, and no newer one."""
    driver, kernel = snapshot.driver, snapshot.host.kernel.value
    module, library = driver.module_version.value, driver.library_version.value
    built = {build.release for build in driver.dkms if build.state == "built" and build.kernel in (None, kernel)}
    if module is None or library is None or str(module) not in built or str(library) in built:
        return ()
    return (
        Fix(
            f"A restart alone loads {module} again, for no module of {library} is built: let the update be finished.",
            _FINISH.get(family(snapshot) or "", module_build(snapshot, kernel)),
        ),
        Fix(f"Then build the module of {library} for this kernel.", module_build(snapshot, kernel)),
    )
