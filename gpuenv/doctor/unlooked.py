"""A libcuda that is there, and in which the loader does not look: what is said of it, and how it is found. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.doctor.evidence import fact, searched, source
from gpuenv.doctor.machine import OF_CONTAINER_OPTIMIZED_OS, OF_THE_OPERATOR
from gpuenv.doctor.registry import Symptom
from gpuenv.doctor.strays import folder
from gpuenv.model.driver import DriverLibrary, LibraryOrigin
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.presence import contained
from gpuenv.model.snapshot import Snapshot

_OF_NIXOS = "/run/opengl-driver/lib"  # the link that stays, whatever the store names the driver
_USUAL = ("/usr/lib64", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")
# The whole root of the driver's container, with a C library of its own: no folder for LD_LIBRARY_PATH.
_OF_A_NODE = Fix(
    f"Run it in a pod that asks for nvidia.com/gpu: NVIDIA's GPU Operator keeps the driver of this node in "
    f"{OF_THE_OPERATOR}, and gives pods its libraries. Put no driver's packages on the node beside it."
)
_ON_ITSELF = f"{OF_CONTAINER_OPTIMIZED_OS} {OF_CONTAINER_OPTIMIZED_OS}"
_EXECUTABLE = f"mount --bind {_ON_ITSELF} && mount -o remount,exec {OF_CONTAINER_OPTIMIZED_OS}"
_TO_BE_LOADED = Fix(
    "Container-Optimized OS lets nothing of that folder be loaded until it is mounted so, at each start.",
    ("sudo", "sh", "-c", _EXECUTABLE),
)
_OWN_LOADER = Fix(
    "A Python with a loader of its own (Nix, Guix): in LD_LIBRARY_PATH, a folder with links to the driver's libraries "
    "alone; the whole of the system's folder would bring another C library along."
)


def not_looked_in(snapshot: Snapshot, library: DriverLibrary) -> Symptom:
    """The library of the loaded module's own version lies in a folder that the loader was not told of."""
    return Symptom(
        f"The loader does not find the driver's libcuda, which is there: {library.path}",
        source(snapshot, "libcuda")
        + (Evidence("driver.libraries", library.path, "the folders that drivers use"),)
        + fact("driver.module_version", snapshot.driver.module_version)
        + searched(snapshot)[:1],
        tuple(_found(snapshot, library)),
    )


def _found(snapshot: Snapshot, library: DriverLibrary) -> Iterator[Fix]:
    place = _OF_NIXOS if library.origin is LibraryOrigin.NIXOS else folder(library)
    if place.startswith(OF_THE_OPERATOR):
        yield _OF_A_NODE
    elif place in _USUAL:
        anew = ("ldconfig",) if contained(snapshot) else ("sudo", "ldconfig")
        yield Fix("Let the loader's cache and the link libcuda.so.1 be made anew.", anew)
        yield _OWN_LOADER
    else:
        if place.startswith(OF_CONTAINER_OPTIMIZED_OS) and not contained(snapshot):
            yield _TO_BE_LOADED
        yield Fix("Let the loader look there for this program.", ("env", f"LD_LIBRARY_PATH={place}", "python"))
        yield from _for_every_program(snapshot, library, place)


def _for_every_program(snapshot: Snapshot, library: DriverLibrary, place: str) -> Iterator[Fix]:
    if contained(snapshot):
        yield Fix(f"For every program in the container: set LD_LIBRARY_PATH={place} where it is started.")
    elif library.origin is not LibraryOrigin.NIXOS:
        told = f"echo {place} > /etc/ld.so.conf.d/nvidia-driver.conf && ldconfig"
        yield Fix("For every program: name the folder to the loader.", ("sudo", "sh", "-c", told))
