"""Facts that NVML tells, through nvidia-ml-py.

Run by gpuenv's own interpreter: ``start.py nvml FOLDER``, where nvidia-ml-py lies. Prints one fact a line, see
``protocol.py``: what was told before a hang or a crash is kept, and ``asking`` names the call that did not come back.

What a decision needs is asked of every GPU before anything else is asked of the first; the links between GPUs come
last. A number that no GPU can have is no answer.
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
from shared import make_none, mapped_file, tell  # noqa: E402

CORRECTED, UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
VOLATILE, AGGREGATE = pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC
SINGLE_BIT, DOUBLE_BIT = 0, 1  # nvmlPageRetirementCause_t
READ = 0  # nvmlGpuP2PCapsIndex_t; nvidia-ml-py has it as a tuple, by a slip
NO_MIG = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
END_OF_LINKS = (pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_SUPPORTED)

# Raised in place of NVML's own error where the driver has an older version of a function alone.
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
MOST_MEMORY_OF_THIS_PROCESS = 2 << 30  # nvidia-ml-py makes an array of as many entries as the library says
FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of include/linux/proc_ns.h


class FabricInfo(ctypes.Structure):
    """``nvmlGpuFabricInfo_t`` of nvml.h.

    nvidia-ml-py has had a longer UUID in it up to 13.580 at least, and so has read zeros behind the facts.
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
    """An answer that makes no sense."""


def text(value: object) -> str:
    """Old releases of nvidia-ml-py answer bytes where the new ones answer text."""
    found = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if not isinstance(found, str) or not found or len(found) > MOST_TEXT:
        raise OddAnswerError(repr(found)[:60])
    return found


def within(most: int, least: int = 0) -> Callable[[Any], int]:
    """A whole number in a range."""

    def check(value: Any) -> int:  # noqa: ANN401 - what NVML answers
        if not least <= int(value) <= most:
            raise OddAnswerError(str(value))
        return int(value)

    return check


def flag(value: Any) -> bool:  # noqa: ANN401 - what NVML answers
    """Off or on; another number is neither."""
    return bool(within(1)(value))


def flags(values: Any) -> list[bool]:  # noqa: ANN401 - what NVML answers
    """Now, and after the next restart."""
    return [flag(value) for value in values[:2]]


def watts(milliwatts: Any) -> float:  # noqa: ANN401 - what NVML answers
    """NVML counts in milliwatts."""
    return within(MOST_WATTS * 1000)(milliwatts) / 1000


def capability(pair: Any) -> str:  # noqa: ANN401 - what NVML answers
    """``9.0``."""
    return f"{within(MOST_CAPABILITY, 1)(pair[0])}.{within(MOST_CAPABILITY)(pair[1])}"


def memory(info: Any) -> list[int]:  # noqa: ANN401 - what NVML answers
    """Total and free, bytes."""
    total = within(MOST_BYTES, 1)(info.total)
    return [total, within(total)(info.free)]


def rows(values: Any) -> list[int | bool]:  # noqa: ANN401 - what NVML answers
    """Remapped for corrected and for uncorrected errors; whether one is pending; whether one failed."""
    corrected, uncorrected, pending, failed = values
    return [within(MOST_ROWS)(corrected), within(MOST_ROWS)(uncorrected), flag(pending), flag(failed)]


def count_of(pages: Any) -> int:  # noqa: ANN401 - what NVML answers
    """How many pages are in a list."""
    return within(MOST_ROWS)(len(pages))


def same(value: Any) -> Any:  # noqa: ANN401 - what NVML answers
    """As it is."""
    return value


# A GPU's quantities: key, or several of an answer in parts; function (pynvml has NVML's names); further arguments;
# what makes the answer plain.
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
    ("compute_mode", "nvmlDeviceGetComputeMode", (), same),
    ("architecture", "nvmlDeviceGetArchitecture", (), same),
    ("minor", "nvmlDeviceGetMinorNumber", (), within(MOST_GPUS)),
)
FURTHER: tuple[Quantity, ...] = (
    ("brand", "nvmlDeviceGetBrand", (), same),
    ("persistence", "nvmlDeviceGetPersistenceMode", (), flag),
    ("virtualization", "nvmlDeviceGetVirtualizationMode", (), same),
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
    ("clock", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_SM,), within(MOST_MEGAHERTZ)),
    ("clock_most", "nvmlDeviceGetMaxClockInfo", (pynvml.NVML_CLOCK_SM,), within(MOST_MEGAHERTZ)),
    ("throttle_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", (), same),
    ("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", (), within(MOST_GENERATION)),
    ("pcie_generation_most", "nvmlDeviceGetMaxPcieLinkGeneration", (), within(MOST_GENERATION)),
    ("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", (), within(MOST_LANES)),
    ("pcie_width_most", "nvmlDeviceGetMaxPcieLinkWidth", (), within(MOST_LANES)),
)


class Asked:
    """One thing that is asked: the whole library, or one GPU.

    Attributes:
        prefix: what its facts begin with.
        about: how it is named beside the call in hand.
        failures: the return code of each function that failed.
        why: why the last call that gave no answer gave none.
    """

    def __init__(self, prefix: str, about: str) -> None:
        self.prefix = prefix
        self.about = about
        self.failures: dict[str, int] = {}
        self.why = ""

    def tell(self, key: str, value: object) -> None:
        """A fact about it."""
        tell(self.prefix + key, value)

    def ask(self, function: str, *arguments: object, plain: Callable[[Any], Any] = same) -> Any:  # noqa: ANN401
        """One call's plain answer, or None, with the reason in ``why``."""
        tell("asking", function + self.about)
        try:
            return plain(getattr(pynvml, function)(*arguments))
        except (pynvml.NVMLError, MISMATCH) as error:
            code = int(getattr(error, "value", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND))
            self.failures[function] = code
            self.why = f"{function} answered with return code {code}"
        except AttributeError:
            self.why = f"{function} is not known to the nvidia-ml-py there"
        except OddAnswerError as error:
            self.why = f"{function} answered {error}, which makes no sense"
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
            self.why = f"{function} answered what cannot be read ({type(error).__name__})"
        return None


class Gpu(Asked):
    """One GPU, by its index."""

    def __init__(self, index: int) -> None:
        super().__init__(f"gpu.{index}.", f" of GPU {index}")
        self.index = index
        self.tell("index", index)
        self.handle = self.ask("nvmlDeviceGetHandleByIndex", index)
        if self.handle is None:
            self.tell("fault", self.failures.get("nvmlDeviceGetHandleByIndex"))

    def essentials(self) -> None:
        """What a decision needs."""
        if self.quantities(ESSENTIAL)["mig"]:
            self.instances()
        if self.failures.get("nvmlDeviceGetMigMode") in NO_MIG:
            self.tell("why.mig", "the GPU or its driver has no MIG mode")

    def quantities(self, wanted: tuple[Quantity, ...]) -> dict[str, Any]:
        """Each quantity, told as soon as it is known; one that fails leaves the others standing."""
        found = {}
        for key, function, arguments, plain in wanted:
            found[key] = self.ask(function, self.handle, *arguments, plain=plain)
            values = found[key] if " " in key else (found[key],)
            for number, part in enumerate(key.split()):
                if found[key] is None:
                    self.tell(f"why.{part}", self.why)
                else:
                    self.tell(part, values[number])
        return found

    def instances(self) -> None:
        """The MIG instances."""
        limit = within(MOST_INSTANCES)
        most = self.ask("nvmlDeviceGetMaxMigDeviceCount", self.handle, plain=limit) or 0
        found: list[dict[str, object]] = []
        for number in range(most):
            instance = self.ask("nvmlDeviceGetMigDeviceHandleByIndex", self.handle, number)
            if instance is None:
                continue
            uuid, name, sizes = (self.ask(function, instance, plain=plain) for _, function, _, plain in IDENTITY)
            if uuid:
                found.append({"uuid": uuid, "name": name, "memory_total": sizes[0] if sizes else None})
                self.tell("mig_instances", found)

    def links(self) -> None:
        """The state of each NVLink, up to the first number that the GPU does not have."""
        found: list[list[int]] = []
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
            active = self.ask("nvmlDeviceGetNvLinkState", self.handle, link, plain=flag)
            if active is not None:
                found.append([link, int(active)])
            elif self.failures.get("nvmlDeviceGetNvLinkState") in END_OF_LINKS:
                break
        if found:
            self.tell("nvlinks", found)
        if found or self.failures.get("nvmlDeviceGetNvLinkState") in END_OF_LINKS:  # it may have none
            self.tell("nvlink_count", len(found))
        else:
            self.tell("why.nvlink_count", self.why)

    def fabric(self) -> None:
        """The place in an NVSwitch fabric, by the newer call, else by the older."""
        newer = FabricInfoV2(version=ctypes.sizeof(FabricInfoV2) | 2 << 24)  # NVML_STRUCT_VERSION of nvml.h
        if self.ask("nvmlDeviceGetGpuFabricInfoV", self.handle, ctypes.byref(newer)) is not None:
            self.tell("fabric", [int(newer.state), int(newer.status)])
            return
        older = FabricInfo()
        if self.ask("nvmlDeviceGetGpuFabricInfo", self.handle, ctypes.byref(older)) is not None:
            self.tell("fabric", [int(older.state), int(older.status)])
        else:
            self.tell("why.fabric", self.why)

    def users(self) -> None:
        """The compute processes; drivers before R510 know the older call alone."""
        found = self.ask("nvmlDeviceGetComputeRunningProcesses", self.handle, plain=list)
        code, why = self.failures.get("nvmlDeviceGetComputeRunningProcesses"), self.why
        if found is None and code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            found = self.ask("nvmlDeviceGetComputeRunningProcesses_v2", self.handle, plain=list)
        if found is None:
            self.tell("why.processes", why)
            return
        self.tell("processes", len(found))
        self.tell("users", [user(entry) for entry in found[:MOST_USERS] if 0 < entry.pid <= MOST_PID])

    def peers(self, others: list[Gpu]) -> None:
        """How far each other GPU is, and whether its memory can be read directly."""
        found: list[list[int | None]] = []
        for other in others:
            if other is self:
                continue
            distance = self.ask("nvmlDeviceGetTopologyCommonAncestor", self.handle, other.handle)
            read = self.ask("nvmlDeviceGetP2PStatus", self.handle, other.handle, READ)
            if distance is not None or read is not None:
                found.append([other.index, distance, read])
        self.tell("peers", found)


def user(entry: Any) -> dict[str, object]:  # noqa: ANN401 - an NVML structure
    """A compute process: its number, its name where that can be told, and its memory."""
    used = entry.usedGpuMemory
    fits = isinstance(used, int) and 0 <= used <= MOST_BYTES
    return {"pid": int(entry.pid), "name": process_name(int(entry.pid)), "memory": used if fits else None}


def process_name(pid: int) -> str | None:
    """The kernel's short name of a process that NVML names.

    Whether NVML counts as this process does depends on the driver. In the first namespace of processes there is only
    one way to count; in another one, the process of that number must have the driver's device open to be the one meant.
    """
    try:
        if os.readlink("/proc/self/ns/pid") != FIRST_NAMESPACE and not has_device_open(pid):
            return None
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read(MOST_TEXT).strip() or None
    except OSError:
        return None


def has_device_open(pid: int) -> bool:
    """Whether a process has a device of the driver open, as far as this user may see."""
    folder = f"/proc/{pid}/fd"
    return any(os.readlink(f"{folder}/{entry}").startswith("/dev/nvidia") for entry in os.listdir(folder))


def load_error() -> str | None:
    """What the loader says of libnvidia-ml; None where it loads. NVML's own code only says that it did not."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return str(error)
    return None


def bound_memory() -> None:
    """A library that counts to 2**32 must not take the machine's memory; a refused allocation is no answer."""
    try:
        import resource  # noqa: PLC0415 - not there on Windows

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or hard > MOST_MEMORY_OF_THIS_PROCESS:
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY_OF_THIS_PROCESS, hard))
    except (ImportError, OSError, ValueError):
        return


def initialise() -> bool:
    """Initialises NVML; a return code is a fact like any other."""
    tell("asking", "nvmlInit")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        tell("init", int(error.value))
        tell("message", load_error() or str(error))
        tell("library", mapped_file("libnvidia-ml.so"))
        return False
    tell("init", 0)
    tell("library", mapped_file("libnvidia-ml.so"))
    return True


def main() -> None:
    """Tells what NVML knows: what decides first, what may take long last."""
    tell("started", True)
    make_none()
    bound_memory()
    if not initialise():
        return
    whole = Asked("", "")
    tell("driver_version", whole.ask("nvmlSystemGetDriverVersion", plain=text))
    tell("cuda", whole.ask("nvmlSystemGetCudaDriverVersion"))
    count = whole.ask("nvmlDeviceGetCount", plain=within(MOST_GPUS))
    tell("count", count)
    if count is None:
        tell("why", {"count": whole.why})
    opened = []
    for index in range(count or 0):
        gpu = Gpu(index)
        if gpu.handle is not None:
            opened.append(gpu)
            gpu.essentials()
    for gpu in opened:
        gpu.quantities(FURTHER)
        gpu.users()
    for gpu in opened:
        gpu.fabric()
        gpu.links()
    if 1 < len(opened) <= MOST_PEERS:
        started = time.perf_counter()
        for gpu in opened:
            gpu.peers(opened)
        tell("peers_took", round(time.perf_counter() - started, 6))
    tell("done", True)
