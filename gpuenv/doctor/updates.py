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


def not_by_restart(snapshot: Snapshot) -> tuple[Fix, ...]:
    """What comes before the restart that the library of another version usually waits for."""
    return (*_links(snapshot), *_finishing(snapshot))


def _links(snapshot: Snapshot) -> tuple[Fix, ...]:
    """The libraries of the loaded module are there, and those of another driver are found in their place."""
    driver = snapshot.driver
    module, used = driver.module_version.value, driver.library_version.value
    if module is None or used == module or not any(entry.release == module for entry in driver.libraries):
        return ()
    return (
        Fix(
            f"The libraries of {module} are there too: remove those of {used or 'the other driver'}, "
            "and let the links lead to them.",
            ("sudo", "ldconfig"),
        ),
    )


def _finishing(snapshot: Snapshot) -> tuple[Fix, ...]:
    """The running kernel has the module of the old driver on disk, and none of the libraries' own."""
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
