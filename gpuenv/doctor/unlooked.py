"""A libcuda that is there, and in which the loader does not look: what is said of it, and how it is found. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.doctor.evidence import fact, searched, source
from gpuenv.doctor.machine import OF_THE_OPERATOR, contained
from gpuenv.doctor.registry import Symptom
from gpuenv.doctor.strays import folder
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.snapshot import DriverLibrary, LibraryOrigin, Snapshot

_OF_NIXOS = "/run/opengl-driver/lib"  # the link that stays, whatever the store names the driver
_USUAL = ("/usr/lib64", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")
_OF_A_NODE = Fix(
    "It is the GPU Operator's: pods are given it by themselves. Put no driver's packages on this node beside it."
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
    here = Fix("Let the loader look there for this program.", ("env", f"LD_LIBRARY_PATH={place}", "python"))
    if contained(snapshot):
        yield here
        yield Fix(f"For every program in the container: set LD_LIBRARY_PATH={place} where it is started.")
    elif library.origin is LibraryOrigin.NIXOS:
        yield here
    elif place in _USUAL:
        yield Fix("Let the loader's cache and the link libcuda.so.1 be made anew.", ("sudo", "ldconfig"))
        yield Fix(f"A Python with a loader of its own (Nix, Guix) is told of {place} by LD_LIBRARY_PATH.")
    elif place.startswith(OF_THE_OPERATOR):
        yield here
        yield _OF_A_NODE
    else:
        yield here
        told = f"echo {place} > /etc/ld.so.conf.d/nvidia-driver.conf && ldconfig"
        yield Fix("For every program: name the folder to the loader.", ("sudo", "sh", "-c", told))
