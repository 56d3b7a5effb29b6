"""Are the driver's libraries of the version of its kernel module, and where they are not: whose turn is it?"""

from __future__ import annotations

from gpuenv.doctor.checks.module import ABSENT
from gpuenv.doctor.driver_libraries import counterparts, folder, is_foreign, is_newer, name, strays, used
from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.containers import libraries_of_the_host
from gpuenv.doctor.fixes.distributions import compute_part, family, module_build, restart
from gpuenv.doctor.predicates import baked_libraries, contained, like_a_machine
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.matrix.needs import versions_differ
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.snapshot import DriverLibrary, LibraryOrigin, Snapshot

_OUT_OF_THE_IMAGE = Fix(
    "Take libcuda and libnvidia-ml out of the image: the host's are mounted when the container starts."
)
# A container keeps what was mounted when it was started; a description by CDI names files of one version.
_ANEW = (
    Fix("Start the container again: it has the libraries of the driver that the host had before."),
    Fix(
        "Where it is started by CDI, describe the host's driver anew first, there.",
        ("sudo", "nvidia-ctk", "cdi", "generate", "--output=/etc/cdi/nvidia.yaml"),
    ),
    Fix("Or make the container anew: the libraries that the host has now are mounted into it then."),
)
# Flatpak documentation, Extensions: org.freedesktop.Platform.GL.nvidia-VERSION is chosen by the host's driver.
_OF_FLATPAK = (
    Fix("Let Flatpak fetch the extension of the host's driver, there.", ("flatpak", "update")),
    Fix("Then start the application again."),
)


@check(
    "DRV107",
    Cause.DRIVER_LIBRARY_VERSION_MISMATCH,
    Cause.DRIVER_INSTALL_BROKEN,
    requires=(*ABSENT, "DRV115", "DRV116", "DRV105", "DRV106"),
)
def library_mismatch(facts: Facts) -> Outcome:
    """Kernel module and user-space library are of different versions.

    What it means: the driver was updated on disk while the old module is still loaded, so the two refuse to talk.
    Nothing needs to be reinstalled. Where libcuda alone is of another version, a package was held back, or a second
    libcuda is found first. In a container the library in use may be a part of the image instead of the host's, or one
    that the host had when the container was started.
    How it is seen: NVML answers with a version mismatch, or CUDA with error 803. A library that is a file of the image
    stands in no mount.
    What to do: restart the machine; where that brings the same back, let the package manager finish the update; where
    a library is at fault, install or remove that one. In a container: take the libraries out of the image, so that the
    host's are used, or start it again; in one that is set up like a machine (LXC), install those of exactly the host's
    version.
    """
    snapshot = facts.snapshot
    if not versions_differ(snapshot, facts.matrix):
        return
    yield _in_a_container(snapshot) if contained(snapshot) else _on_a_host(snapshot)


def _on_a_host(snapshot: Snapshot) -> Symptom:
    found = strays(snapshot)
    libcuda = [entry for entry in found if name(entry) == "libcuda"]
    if libcuda and snapshot.driver.nvml_init.value == 0:  # then NVML is of the module's version: no restart helps
        return _of_libcuda_alone(snapshot, libcuda)
    right = counterparts(snapshot, found)
    if right and not any(is_newer(snapshot, entry) and not is_foreign(snapshot, entry) for entry in found):
        return _beside_the_right(snapshot, found, right)
    # Newer ones wait for the restart that follows an update, whatever else lies about.
    return Symptom(
        "The loaded kernel module and the driver's libraries are of different versions",
        _evidence(snapshot),
        (*_to_finish(snapshot), _restarted(snapshot)),
    )


def _of_libcuda_alone(snapshot: Snapshot, libcuda: list[DriverLibrary]) -> Symptom:
    """The rest of the driver is whole: libcuda is another driver's, or its package was held back."""
    module, stray = snapshot.driver.module_version.value, libcuda[0]
    to_finish_first = is_newer(snapshot, stray) and not is_foreign(snapshot, stray)  # an update of some packages
    if not to_finish_first and (right := counterparts(snapshot, libcuda)):
        return _beside_the_right(snapshot, libcuda, right)
    # A package brings the release of its repository: Arch Linux has but the newest, Ubuntu the newest of a branch.
    command = None if family(snapshot) == "arch" else compute_part(snapshot)
    later = "Where its package is of another release by now, update the whole driver and restart."
    install = Fix(f"Install the libcuda of the same driver, of exactly {module}. {later}", command)
    if is_foreign(snapshot, stray):
        words = f"Take {stray.path} off the loader's path (LD_LIBRARY_PATH, /etc/ld.so.conf.d)."
        missing = Fix(f"Where no libcuda is found then, install that of the same driver, of exactly {module}.")
        title = f"The loader finds a libcuda of another driver than {module}, which is loaded: {stray.path}"
        evidence = _evidence(snapshot) + evidence_of(snapshot, "environment.LD_LIBRARY_PATH")
        return Symptom(title, evidence, (Fix(words), missing), cause=Cause.DRIVER_INSTALL_BROKEN)
    title = f"libcuda is of {stray.release}, and the rest of the driver of {module}"
    return Symptom(title, _evidence(snapshot), (install,), cause=Cause.DRIVER_INSTALL_BROKEN)


def _beside_the_right(snapshot: Snapshot, found: list[DriverLibrary], right: list[DriverLibrary]) -> Symptom:
    """The loader takes those of another driver, and each of the right ones is there too."""
    module, release = snapshot.driver.module_version.value, found[0].release
    named, meant = (" and ".join(dict.fromkeys(entry.path for entry in entries)) for entries in (found, right))
    evidence = _evidence(snapshot) + tuple(Evidence("driver.libraries", e.path, f"of {module}") for e in right)
    if list(map(folder, found)) == list(map(folder, right)):
        words = f"Remove {named}, and let the links lead to {meant}."
        title = f"The loader finds the libraries of {release}, and beside them are those of {module}, which is loaded"
        return Symptom(title, evidence, (Fix(words, ("sudo", "ldconfig")),))
    words = f"Take {named} off the loader's path, or remove it: the one of {module} is {meant}."
    title = f"The loader finds a library of another driver than {module}, which is loaded, first"
    return Symptom(
        title,
        evidence + evidence_of(snapshot, "environment.LD_LIBRARY_PATH"),
        (Fix(words),),
        cause=Cause.DRIVER_INSTALL_BROKEN,
    )


def _in_a_container(snapshot: Snapshot) -> Symptom:
    baked = baked_libraries(snapshot)
    own = tuple(Evidence("driver.libraries", entry.path, "a file of the image, not mounted") for entry in baked)
    if like_a_machine(snapshot):
        return Symptom(
            "The driver's libraries in this container are of another version than the host's kernel module",
            _evidence(snapshot) + own,
            _fixes_like_a_machine(snapshot, of_its_own=bool(baked)),
        )
    if baked:
        return Symptom(
            "The image has libraries of a driver in it that are of another version than the host's kernel module",
            _evidence(snapshot) + own,
            (_OUT_OF_THE_IMAGE,),
            cause=Cause.DRIVER_INSTALL_BROKEN,
        )
    if snapshot.driver.cuda_origin.value is LibraryOrigin.FLATPAK:
        return Symptom(
            "Flatpak's extension is of another version of the driver than the host's kernel module",
            _evidence(snapshot),
            _OF_FLATPAK if _is_older(snapshot) else (_restarted(snapshot), *_OF_FLATPAK),
        )
    mounts_seen = any(entry.mounted is not None for entry in snapshot.driver.libraries)
    return Symptom(
        "The loaded kernel module and the driver's libraries are of different versions",
        _evidence(snapshot),
        (*(_ANEW if _is_older(snapshot) else (_restarted(snapshot),)), *(() if mounts_seen else (_OUT_OF_THE_IMAGE,))),
    )


def _fixes_like_a_machine(snapshot: Snapshot, *, of_its_own: bool) -> tuple[Fix, ...]:
    """Its libraries are packages of its own; where they may be the host's, newer ones wait for the host's restart."""
    install = libraries_of_the_host(snapshot)
    return (install,) if of_its_own or _is_older(snapshot) else (install, _restarted(snapshot))


def _is_older(snapshot: Snapshot) -> bool:
    """Whether the libraries are older than the module: they are of the driver that the host had before."""
    module, library = snapshot.driver.module_version.value, snapshot.driver.library_version.value
    return module is not None and library is not None and library < module


def _restarted(snapshot: Snapshot) -> Fix:
    return restart(snapshot, "so that the new kernel module is loaded; nothing needs to be installed")


def _evidence(snapshot: Snapshot) -> tuple[Evidence, ...]:
    return (
        evidence_of(snapshot, "driver.module_version", "driver.library_version")
        + tuple(Evidence("driver.libraries", entry.path, "the loader takes it") for entry in used(snapshot))
        + evidence_of(snapshot, "nvml", "libcuda")
    )


_FINISH = {
    **dict.fromkeys(("ubuntu", "debian"), ("sudo", "apt-get", "install", "--fix-broken")),
    **dict.fromkeys(("rhel", "fedora"), ("sudo", "dnf", "distro-sync")),
    "arch": ("sudo", "pacman", "-Syu"),
    "suse": ("sudo", "zypper", "verify"),
}


def _to_finish(snapshot: Snapshot) -> tuple[Fix, ...]:
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
