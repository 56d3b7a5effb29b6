"""Queries NVML through nvidia-ml-py.

Run by gpuenv's own interpreter: ``start.py nvml FOLDER``, the folder of nvidia-ml-py. Prints one fact per line, see
``protocol.py``: facts printed before a hang or a crash are kept, and ``calling`` names the call that did not return.

The facts that decisions need are read for every GPU before any others; the links between GPUs come last. Numbers that
no GPU can have are dropped.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable

TYPE_CHECKING = False  # typing takes 4 ms to load
if TYPE_CHECKING:
    from typing import Any

    Quantity = tuple[str, str, tuple[int, ...], Callable[[Any], Any]]

sys.path += sys.argv[1:2]  # the folder of nvidia-ml-py

import pynvml  # type: ignore[import-untyped] # noqa: E402 - found in that folder
from shared import emit, forbid_device_nodes, mapped_file  # noqa: E402

CORRECTED, UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
VOLATILE, AGGREGATE = pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC
SINGLE_BIT, DOUBLE_BIT = 0, 1  # nvmlPageRetirementCause_t
READ = 0  # nvmlGpuP2PCapsIndex_t; nvidia-ml-py defines it as a tuple by mistake
NO_MIG = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
END_OF_LINKS = (pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_SUPPORTED)

# Raised instead of NVML's own error if the driver has only an older version of a function.
MISMATCH = getattr(pynvml, "NVMLLibraryMismatchError", pynvml.NVMLError)

MOST_INSTANCES, MOST_USERS, MOST_PEERS = 64, 64, 16
MOST_PID = 1 << 22  # PID_MAX_LIMIT of include/linux/threads.h
MOST_GPUS = 1024
MOST_BYTES = 1 << 50
MOST_ERRORS = 1 << 62
MOST_ROWS = 1 << 20
MOST_DEGREES, MOST_WATTS, MOST_MEGAHERTZ = 200, 20_000, 20_000
MOST_GENERATION, MOST_LANES = 16, 64
MOST_TEXT = 256
MOST_CAPABILITY = 99
MOST_MEMORY_OF_THIS_PROCESS = 2 << 30  # nvidia-ml-py allocates as many entries as the library reports
FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of include/linux/proc_ns.h


class FabricInfo(ctypes.Structure):
    """``nvmlGpuFabricInfo_t`` of nvml.h.

    nvidia-ml-py declares a longer UUID, up to 13.580 at least, and so reads zeros behind the fields.
    """

    _fields_ = (
        ("cluster", ctypes.c_ubyte * 16),
        ("status", ctypes.c_uint),
        ("clique", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
    )


class FabricInfoV2(ctypes.Structure):
    """``nvmlGpuFabricInfo_v2_t``."""

    _fields_ = (("version", ctypes.c_uint), *FabricInfo._fields_, ("health", ctypes.c_uint))


class OddAnswerError(ValueError):
    """An answer that no GPU can give."""


def text(value: object) -> str:
    """A text; old releases of nvidia-ml-py return bytes."""
    found = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if not isinstance(found, str) or not found or len(found) > MOST_TEXT:
        raise OddAnswerError(repr(found)[:60])
    return found


def within(most: int, least: int = 0) -> Callable[[Any], int]:
    """A converter for whole numbers in a range."""

    def check(value: Any) -> int:  # noqa: ANN401 - any type that NVML returns
        if not least <= int(value) <= most:
            raise OddAnswerError(str(value))
        return int(value)

    return check


def flag(value: Any) -> bool:  # noqa: ANN401 - any type that NVML returns
    """A boolean from 0 or 1."""
    return bool(within(1)(value))


def flags(values: Any) -> list[bool]:  # noqa: ANN401 - any type that NVML returns
    """The current value, and that after the next restart."""
    return [flag(value) for value in values[:2]]


def watts(milliwatts: Any) -> float:  # noqa: ANN401 - any type that NVML returns
    """Converts NVML's milliwatts."""
    return within(MOST_WATTS * 1000)(milliwatts) / 1000


def capability(pair: Any) -> str:  # noqa: ANN401 - any type that NVML returns
    """A compute capability such as ``9.0``."""
    return f"{within(MOST_CAPABILITY, 1)(pair[0])}.{within(MOST_CAPABILITY)(pair[1])}"


def memory(info: Any) -> list[int]:  # noqa: ANN401 - any type that NVML returns
    """Total and free, bytes."""
    total = within(MOST_BYTES, 1)(info.total)
    return [total, within(total)(info.free)]


def rows(values: Any) -> list[int | bool]:  # noqa: ANN401 - any type that NVML returns
    """Remapped for corrected and for uncorrected errors; whether one is pending; whether one failed."""
    corrected, uncorrected, pending, failed = values
    return [within(MOST_ROWS)(corrected), within(MOST_ROWS)(uncorrected), flag(pending), flag(failed)]


def count_of(pages: Any) -> int:  # noqa: ANN401 - any type that NVML returns
    """The number of pages in a list."""
    return within(MOST_ROWS)(len(pages))


def licensed(features: Any) -> bool:  # noqa: ANN401 - an NVML structure
    """Whether a feature has a licence (nvmlGridLicensableFeature_t, featureState), if the GPU supports any."""
    count = within(len(features.gridLicensableFeatures), 1)(features.licensableFeaturesCount)
    if not features.isGridLicenseSupported:
        raise OddAnswerError("no support for licences")
    return any(features.gridLicensableFeatures[number].featureState for number in range(count))


def unconverted(value: Any) -> Any:  # noqa: ANN401 - any type that NVML returns
    """Returns the value unchanged."""
    return value


# A GPU's quantities: key, or several keys of a composite answer; function (pynvml uses NVML's names); further
# arguments; converter of the answer.
IDENTITY: tuple[Quantity, ...] = (
    ("uuid", "nvmlDeviceGetUUID", (), text),
    ("name", "nvmlDeviceGetName", (), text),
    ("memory_total memory_free", "nvmlDeviceGetMemoryInfo", (), memory),
)
ESSENTIAL: tuple[Quantity, ...] = (
    *IDENTITY,
    ("pci", "nvmlDeviceGetPciInfo", (), lambda pci: text(pci.busId)),
    ("compute_capability", "nvmlDeviceGetCudaComputeCapability", (), capability),
    ("mig", "nvmlDeviceGetMigMode", (), lambda modes: flag(modes[0])),
    ("compute_mode", "nvmlDeviceGetComputeMode", (), unconverted),
    ("architecture", "nvmlDeviceGetArchitecture", (), unconverted),
    ("minor", "nvmlDeviceGetMinorNumber", (), within(MOST_GPUS)),
)
FURTHER: tuple[Quantity, ...] = (
    ("brand", "nvmlDeviceGetBrand", (), unconverted),
    ("mig_pending", "nvmlDeviceGetMigMode", (), lambda modes: flag(modes[1])),
    ("persistence", "nvmlDeviceGetPersistenceMode", (), flag),
    ("virtualization", "nvmlDeviceGetVirtualizationMode", (), unconverted),
    ("ecc ecc_pending", "nvmlDeviceGetEccMode", (), flags),
    ("ecc_uncorrected", "nvmlDeviceGetTotalEccErrors", (UNCORRECTED, VOLATILE), within(MOST_ERRORS)),
    ("ecc_uncorrected_ever", "nvmlDeviceGetTotalEccErrors", (UNCORRECTED, AGGREGATE), within(MOST_ERRORS)),
    ("ecc_corrected", "nvmlDeviceGetTotalEccErrors", (CORRECTED, VOLATILE), within(MOST_ERRORS)),
    ("ecc_corrected_ever", "nvmlDeviceGetTotalEccErrors", (CORRECTED, AGGREGATE), within(MOST_ERRORS)),
    ("pages_single", "nvmlDeviceGetRetiredPages", (SINGLE_BIT,), count_of),
    ("pages_double", "nvmlDeviceGetRetiredPages", (DOUBLE_BIT,), count_of),
    ("pages_pending", "nvmlDeviceGetRetiredPagesPendingStatus", (), flag),
    ("rows_corrected rows_uncorrected rows_pending rows_failed", "nvmlDeviceGetRemappedRows", (), rows),
    ("temperature", "nvmlDeviceGetTemperature", (pynvml.NVML_TEMPERATURE_GPU,), within(MOST_DEGREES)),
    ("power", "nvmlDeviceGetPowerUsage", (), watts),
    ("power_limit", "nvmlDeviceGetEnforcedPowerLimit", (), watts),
    ("power_limit_default", "nvmlDeviceGetPowerManagementDefaultLimit", (), watts),
    ("clock", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_SM,), within(MOST_MEGAHERTZ)),
    ("clock_most", "nvmlDeviceGetMaxClockInfo", (pynvml.NVML_CLOCK_SM,), within(MOST_MEGAHERTZ)),
    ("throttle_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", (), unconverted),
    ("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", (), within(MOST_GENERATION)),
    ("pcie_generation_most", "nvmlDeviceGetMaxPcieLinkGeneration", (), within(MOST_GENERATION)),
    ("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", (), within(MOST_LANES)),
    ("pcie_width_most", "nvmlDeviceGetMaxPcieLinkWidth", (), within(MOST_LANES)),
    ("licensed", "nvmlDeviceGetGridLicensableFeatures_v4", (), licensed),
)


class NvmlScope:
    """Calls NVML about the library, or about one GPU, and prints the facts."""

    def __init__(self, prefix: str, about: str) -> None:
        self.prefix = prefix  # of the facts' names
        self.about = about  # names the GPU of a call, such as `` of GPU 0``
        self.failures: dict[str, int] = {}  # the return code of each function that failed
        self.why = ""  # why the last call without an answer failed

    def emit(self, key: str, value: object) -> None:
        """Prints a fact."""
        emit(self.prefix + key, value)

    def call(self, function: str, *arguments: object, convert: Callable[[Any], Any] = unconverted) -> Any:  # noqa: ANN401
        """Calls a function and converts its answer; None on failure, with the reason in ``why``."""
        emit("calling", function + self.about)
        try:
            return convert(getattr(pynvml, function)(*arguments))
        except (pynvml.NVMLError, MISMATCH) as error:
            code = int(getattr(error, "value", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND))
            self.failures[function] = code
            self.why = f"{function} returned code {code}"
        except AttributeError:
            self.why = f"{function} is unknown to the installed nvidia-ml-py"
        except OddAnswerError as error:
            self.why = f"{function} returned {error}, which is out of range"
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
            self.why = f"{function} returned an unreadable answer ({type(error).__name__})"
        return None


class NvmlGpu(NvmlScope):
    """One GPU."""

    def __init__(self, index: int) -> None:
        super().__init__(f"gpu.{index}.", f" of GPU {index}")
        self.index = index
        self.emit("index", index)
        self.handle = self.call("nvmlDeviceGetHandleByIndex", index)
        if self.handle is None:
            self.emit("fault", self.failures.get("nvmlDeviceGetHandleByIndex"))

    def emit_essentials(self) -> None:
        """Prints the facts that decisions need."""
        if self.emit_quantities(ESSENTIAL)["mig"]:
            self.emit_instances()
        if self.failures.get("nvmlDeviceGetMigMode") in NO_MIG:
            self.emit("why.mig", "the GPU or its driver has no MIG mode")

    def emit_quantities(self, quantities: tuple[Quantity, ...]) -> dict[str, Any]:
        """Prints each quantity as soon as it is known; a failure does not affect the others."""
        found = {}
        for key, function, arguments, convert in quantities:
            found[key] = self.call(function, self.handle, *arguments, convert=convert)
            values = found[key] if " " in key else (found[key],)
            for number, part in enumerate(key.split()):
                if found[key] is None:
                    self.emit(f"why.{part}", self.why)
                else:
                    self.emit(part, values[number])
        return found

    def emit_instances(self) -> None:
        """Prints the MIG instances."""
        limit = within(MOST_INSTANCES)
        most = self.call("nvmlDeviceGetMaxMigDeviceCount", self.handle, convert=limit) or 0
        found: list[dict[str, object]] = []
        for number in range(most):
            instance = self.call("nvmlDeviceGetMigDeviceHandleByIndex", self.handle, number)
            if instance is None:
                continue
            uuid, name, sizes = (self.call(function, instance, convert=convert) for _, function, _, convert in IDENTITY)
            if uuid:
                found.append({"uuid": uuid, "name": name, "memory_total": sizes[0] if sizes else None})
                self.emit("mig_instances", found)

    def emit_links(self) -> None:
        """Prints the state of each NVLink, up to the first index that the GPU does not have."""
        found: list[list[int]] = []
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
            active = self.call("nvmlDeviceGetNvLinkState", self.handle, link, convert=flag)
            if active is not None:
                found.append([link, int(active)])
            elif self.failures.get("nvmlDeviceGetNvLinkState") in END_OF_LINKS:
                break
        if found:
            self.emit("nvlinks", found)
        if found or self.failures.get("nvmlDeviceGetNvLinkState") in END_OF_LINKS:  # the GPU may have none
            self.emit("nvlink_count", len(found))
        else:
            self.emit("why.nvlink_count", self.why)

    def emit_fabric(self) -> None:
        """Prints the state in an NVSwitch fabric, by the newer call, else by the older."""
        newer = FabricInfoV2(version=ctypes.sizeof(FabricInfoV2) | 2 << 24)  # NVML_STRUCT_VERSION of nvml.h
        if self.call("nvmlDeviceGetGpuFabricInfoV", self.handle, ctypes.byref(newer)) is not None:
            self.emit("fabric", [int(newer.state), int(newer.status)])
            return
        older = FabricInfo()
        if self.call("nvmlDeviceGetGpuFabricInfo", self.handle, ctypes.byref(older)) is not None:
            self.emit("fabric", [int(older.state), int(older.status)])
        else:
            self.emit("why.fabric", self.why)

    def emit_inforom(self) -> None:
        """Prints whether the checksums of the infoROM are right, by the return code."""
        valid = self.call("nvmlDeviceValidateInforom", self.handle, convert=lambda _: True)
        if self.failures.get("nvmlDeviceValidateInforom") == pynvml.NVML_ERROR_CORRUPTED_INFOROM:
            valid = False
        if valid is None:
            self.emit("why.inforom_valid", self.why)
        else:
            self.emit("inforom_valid", valid)

    def emit_users(self) -> None:
        """Prints the compute processes; drivers before R510 have only the older call."""
        found = self.call("nvmlDeviceGetComputeRunningProcesses", self.handle, convert=list)
        code, why = self.failures.get("nvmlDeviceGetComputeRunningProcesses"), self.why
        if found is None and code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            found = self.call("nvmlDeviceGetComputeRunningProcesses_v2", self.handle, convert=list)
        if found is None:
            self.emit("why.processes", why)
            return
        self.emit("processes", len(found))
        self.emit("users", [user(entry) for entry in found[:MOST_USERS] if 0 < entry.pid <= MOST_PID])

    def emit_peers(self, others: list[NvmlGpu]) -> None:
        """Prints the distance to each other GPU, and whether its memory can be read directly."""
        found: list[list[int | None]] = []
        for other in others:
            if other is self:
                continue
            distance = self.call("nvmlDeviceGetTopologyCommonAncestor", self.handle, other.handle)
            read = self.call("nvmlDeviceGetP2PStatus", self.handle, other.handle, READ)
            if distance is not None or read is not None:
                found.append([other.index, distance, read])
        self.emit("peers", found)


def user(entry: Any) -> dict[str, object]:  # noqa: ANN401 - an NVML structure
    """A compute process: its number, its name if it can be identified, and its memory."""
    used = entry.usedGpuMemory
    fits = isinstance(used, int) and 0 <= used <= MOST_BYTES
    return {"pid": int(entry.pid), "name": process_name(int(entry.pid)), "memory": used if fits else None}


def process_name(pid: int) -> str | None:
    """The kernel's short name of a process that NVML lists.

    Whether NVML's numbers are those of this PID namespace depends on the driver. Outside the initial namespace, a
    process of that number is taken for the one that NVML lists only if it has the driver's device open.
    """
    try:
        if os.readlink("/proc/self/ns/pid") != FIRST_NAMESPACE and not has_device_open(pid):
            return None
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read(MOST_TEXT).strip() or None
    except OSError:
        return None


def has_device_open(pid: int) -> bool:
    """Whether a process has a device of the driver open, as far as this user can see."""
    folder = f"/proc/{pid}/fd"
    return any(os.readlink(f"{folder}/{entry}").startswith("/dev/nvidia") for entry in os.listdir(folder))


def load_error() -> str | None:
    """The loader's error message for libnvidia-ml; None if it loads. NVML reports only a code."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return str(error)
    return None


def bound_memory() -> None:
    """Limits this process's memory, in case the library reports 2**32 entries; a failed allocation is no answer."""
    try:
        import resource  # noqa: PLC0415 - missing on Windows

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or hard > MOST_MEMORY_OF_THIS_PROCESS:
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY_OF_THIS_PROCESS, hard))
    except (ImportError, OSError, ValueError):
        return


def initialise() -> bool:
    """Initialises NVML; a return code is a fact like any other."""
    emit("calling", "nvmlInit")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        emit("init", int(error.value))
        emit("message", load_error() or str(error))
        emit("library", mapped_file("libnvidia-ml.so"))
        return False
    emit("init", 0)
    emit("library", mapped_file("libnvidia-ml.so"))
    return True


def main() -> None:
    """Prints what NVML reports: the decisive facts first, the slow ones last."""
    emit("started", True)
    forbid_device_nodes()
    bound_memory()
    if not initialise():
        return
    library = NvmlScope("", "")
    emit("driver_version", library.call("nvmlSystemGetDriverVersion", convert=text))
    emit("cuda", library.call("nvmlSystemGetCudaDriverVersion"))
    count = library.call("nvmlDeviceGetCount", convert=within(MOST_GPUS))
    emit("count", count)
    if count is None:
        emit("why", {"count": library.why})
    opened = []
    for index in range(count or 0):
        gpu = NvmlGpu(index)
        if gpu.handle is not None:
            opened.append(gpu)
            gpu.emit_essentials()
    for gpu in opened:
        gpu.emit_quantities(FURTHER)
        gpu.emit_inforom()
        gpu.emit_users()
    for gpu in opened:
        gpu.emit_fabric()
        gpu.emit_links()
    if 1 < len(opened) <= MOST_PEERS:
        started = time.perf_counter()
        for gpu in opened:
            gpu.emit_peers(opened)
        emit("peers_took", round(time.perf_counter() - started, 6))
    emit("done", True)
