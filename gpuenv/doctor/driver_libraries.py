"""The driver's libraries on disk: which ones the loader takes, their versions, and where to find matching ones."""

from __future__ import annotations

from collections.abc import Sequence

from gpuenv.doctor.fixes.distributions import family
from gpuenv.doctor.predicates import COS_DRIVER_ROOT, GPU_OPERATOR_ROOT, libcuda_absent
from gpuenv.model.gpus import is_contained
from gpuenv.model.snapshot import DriverLibrary, LibraryOrigin, Snapshot
from gpuenv.model.versions import DriverVersion

# Never the driver's own libraries: compatibility packages for older drivers, and stubs for linking.
_NOT_THE_DRIVERS = (LibraryOrigin.COMPAT, LibraryOrigin.STUB)
_FOLDERS_64_BIT = (
    *("/usr/lib64", "/usr/lib64-nvidia", "/usr/local/nvidia/lib64", f"{COS_DRIVER_ROOT}/lib64"),
    f"{GPU_OPERATOR_ROOT}/usr/lib64",
)


def mismatched_libraries(snapshot: Snapshot) -> list[DriverLibrary]:
    """Libraries in use that are known to differ in version from the module."""
    module = snapshot.driver.module_version.value
    return [entry for entry in libraries_in_use(snapshot) if module is not None and entry.release not in (None, module)]


def libraries_in_use(snapshot: Snapshot) -> list[DriverLibrary]:
    """Libraries that the loader takes; one outside of the driver's usual folders is identified by its name."""
    driver = snapshot.driver
    loaded = ((driver.cuda_library.value, driver.cuda_origin.value), (driver.nvml_library.value, None))
    found: dict[str, DriverLibrary] = {}
    for path, origin in loaded:
        listed = [entry for entry in driver.libraries if path and path.endswith(entry.path)]
        if listed:
            entry = max(listed, key=lambda entry: len(entry.path))
        elif path:
            entry = DriverLibrary(path, _release_in(path), origin or LibraryOrigin.OTHER)
        else:
            continue
        found[entry.path] = entry
    return list(found.values())


def library_path(snapshot: Snapshot, name: str) -> str | None:
    """Path of a library, ``libcuda`` or ``libnvidia-ml``: the one that the loader takes, else the driver's on disk."""
    on_disk = (entry for entry in snapshot.driver.libraries if entry.origin not in _NOT_THE_DRIVERS)
    every = (*libraries_in_use(snapshot), *on_disk)
    return next((entry.path for entry in every if library_name(entry) == name), None)


def is_in_image(snapshot: Snapshot, path: str | None) -> bool:
    """Whether the driver library that the loader takes or refuses belongs to the container's image.

    Links such as libcuda.so.1 are resolved in the snapshot, so that a file of this name in the same folder counts. /lib
    is a link to /usr/lib.
    """
    if path is None or not is_contained(snapshot):
        return False
    refused = DriverLibrary(path)
    return any(
        entry.mounted is False
        and library_name(entry) == library_name(refused)
        and (folder_of(refused).endswith(folder_of(entry)) or f"/usr{folder_of(refused)}" == folder_of(entry))
        for entry in snapshot.driver.libraries
    )


def _release_in(path: str) -> DriverVersion | None:
    suffix = path.rpartition(".so.")[2]
    try:
        return DriverVersion.parse(suffix) if "." in suffix else None  # libcuda.so.1 is a link
    except ValueError:
        return None


def matching_libraries(snapshot: Snapshot, mismatched: Sequence[DriverLibrary]) -> list[DriverLibrary]:
    """For each library, the one of the module's version; empty if any has none."""
    module = snapshot.driver.module_version.value
    fit = [
        entry
        for entry in snapshot.driver.libraries
        if entry.release == module and entry.origin not in _NOT_THE_DRIVERS and _loadable(snapshot, entry)
    ]
    found = []
    for library in mismatched:
        same = sorted(
            (e for e in fit if library_name(e) == library_name(library)),
            key=lambda e: folder_of(e) != folder_of(library),
        )
        if not same:
            return []
        found.append(same[0])
    return found


def _loadable(snapshot: Snapshot, entry: DriverLibrary) -> bool:
    """Whether it lies in a folder of this architecture; /usr/lib is of 32 bits on many systems."""
    folder, arch = folder_of(entry), snapshot.host.arch.value
    if folder in [folder_of(other) for other in libraries_in_use(snapshot)] or entry.origin is LibraryOrigin.NIXOS:
        return True
    if folder == "/usr/lib":
        return family(snapshot) == "arch"
    return folder in _FOLDERS_64_BIT or (arch is not None and f"/{arch}-linux-gnu" in folder)


def unsearched_libcuda(snapshot: Snapshot) -> DriverLibrary | None:
    """The libcuda of the loaded module, if it lies in a folder that the loader does not search.

    The driver's libraries are linked with glibc: the loader of another C library cannot use them.
    """
    module, libc = snapshot.driver.module_version.value, snapshot.host.libc.value
    foreign = libc is not None and libc.family != "glibc"
    if module is None or foreign or not libcuda_absent(snapshot):
        return None
    fit = (e for e in snapshot.driver.libraries if library_name(e) == "libcuda" and e.release == module)
    return next((e for e in fit if e.origin not in _NOT_THE_DRIVERS and _loadable(snapshot, e)), None)


def is_foreign(snapshot: Snapshot, entry: DriverLibrary) -> bool:
    """Whether it lies where no driver is installed: a variable or the loader's configuration points there."""
    return bool(snapshot.driver.libraries) and entry.origin is LibraryOrigin.OTHER


def is_newer(snapshot: Snapshot, entry: DriverLibrary) -> bool:
    """Whether it is newer than the module, as after an update that needs a restart."""
    module = snapshot.driver.module_version.value
    return entry.release is not None and module is not None and entry.release > module


def folder_of(entry: DriverLibrary) -> str:
    """The folder of a library."""
    return entry.path.rpartition("/")[0]


def library_name(entry: DriverLibrary) -> str:
    """``libcuda`` of /usr/lib64/libcuda.so.550.163.01."""
    return entry.path.rpartition("/")[2].partition(".so")[0]
