"""Runs one test: imports CuPy, looks whether what it needs is there, holds the GPU's answers against the expected."""

from __future__ import annotations

import importlib
import importlib.util
import os
import tempfile
import time
import traceback
from typing import Any, Callable, Dict, List, Mapping, Optional

from gpuenv.smoke.payload.free import Room, free_and_total, room_here
from gpuenv.smoke.payload.troubles import (
    CONTEXT,
    LIBRARY_ERRORS,
    MEMORY_ALLOCATION,
    RESERVE,
    Trouble,
    above_limit,
    classify,
    found_no_room,
    lack_of_memory,
    refused_beside,
    too_little,
    too_little_beside,
)

Tell = Callable[[str, Any], None]
UNTOLD = 64 << 20  # bytes that a test may take which does not say
HOST = 3  # bytes of the host's memory, input, answers and comparison, for each byte of the GPU's that a test tells of
SMALLEST = 1 / 64.0  # of the size that a level names
PACKAGE = "gpuenv.smoke.payload.tests"
TEMPORARY = "(temporary folder)"
# cudaDevAttrMpsEnabled (driver_types.h from CUDA 12.3 on).
MPS_ENABLED = 133
DAEMON = "/tmp/nvidia-mps"  # noqa: S108 - where MPS has its pipes unless told otherwise


def census(tell: Tell) -> None:
    """Tells what CuPy sees, for machines on which nothing else tells the devices."""
    try:
        import cupy as cp

        for number in range(cp.cuda.runtime.getDeviceCount()):
            tell("device.%d" % number, device_facts(cp, number))
    except Exception as error:  # noqa: BLE001 - someone else's environment: whatever it raises is an answer
        tell("error", first_line(error))


def device_facts(cp: Any, number: int) -> Dict[str, Any]:
    """UUID, name, compute capability and memory of a CUDA device."""
    properties = cp.cuda.runtime.getDeviceProperties(number)
    name, raw = properties["name"], bytes(properties.get("uuid", b""))
    return {
        "uuid": uuid_text(raw),
        "name": name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name),
        "capability": "%d.%d" % (properties["major"], properties["minor"]),
        "memory_total": int(properties["totalGlobalMem"]),
    }


def uuid_text(raw: bytes) -> Optional[str]:
    """GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx."""
    digits = raw[:16].hex()
    if len(digits) != 32 or not digits.strip("0"):
        return None
    return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def run_test(name: str, order: Dict[str, Any], tell: Tell) -> None:
    """Runs a test and tells its verdict."""
    # In the folder of the run: a test that is killed takes nothing away itself, and whoever started it does.
    with tempfile.TemporaryDirectory(prefix="gpuenv-smoke-", dir=order.get("folder")) as folder:
        test = None
        try:
            test = importlib.import_module("%s.%s" % (PACKAGE, name.replace(".", "_")))
            set_variables(test, folder)
            trouble = missing_module(getattr(test, "NEEDS", [])) or _run(test, order, tell)
        except Exception as error:  # noqa: BLE001 - a test may raise anything: that is its answer
            tell("traceback", traceback.format_exc()[-2000:])
            trouble = before_it_began(error)
        tell("verdict", verdict(trouble))


def set_variables(module: Any, folder: str = "") -> None:
    """Sets the variables in its ``ENVIRONMENT``: before CuPy and the driver are loaded, which read them then."""
    for key, value in getattr(module, "ENVIRONMENT", {}).items():
        os.environ[key] = folder if value == TEMPORARY else value


def harm_to_others(module: Any, cp: Any) -> Optional[str]:
    """Why it must not run where it loses its context on purpose.

    A fatal fault of one client of MPS ends all that share the GPU with it (Multi-Process Service, Error Containment).
    """
    if getattr(module, "LOSES_CONTEXT", False) and through_mps(_mps_of(cp), os.environ):
        return "needs a GPU without MPS: the fault that it makes would end the other programs on this GPU too"
    return None


def _mps_of(cp: Any) -> Optional[int]:
    """What CUDA says of MPS; None where it does not know."""
    try:
        return int(cp.cuda.runtime.deviceGetAttribute(MPS_ENABLED, 0))
    except cp.cuda.runtime.CUDARuntimeError:
        return None


def through_mps(told: Optional[int], environment: Mapping[str, str]) -> bool:
    """Whether this process is a client of MPS: what CUDA told, else whether its control daemon has a pipe here."""
    if told is not None:
        return told != 0
    return os.path.exists(os.path.join(environment.get("CUDA_MPS_PIPE_DIRECTORY") or DAEMON, "control"))


def verdict(trouble: Optional[Trouble]) -> Dict[str, Optional[str]]:
    """As the runner reads it."""
    if trouble is None:
        return {"status": "passed", "trouble": None, "detail": None, "cause": None}
    return dict(trouble._asdict())


def missing_module(needs: List[str]) -> Optional[Trouble]:
    """A module that the test needs and that is not there: looked for without importing it."""
    for need in needs:
        kind, _, wanted = need.partition(":")
        if kind == "module" and importlib.util.find_spec(wanted) is None:
            return Trouble("skipped", "not-applicable", "%s is not installed in the target environment" % wanted)
    return None


def lacking(needs: List[str], cupy: str, capability: str, gpus: int, numpy: str) -> Optional[str]:
    """What of the test's needs is not met; versions are compared by their leading numbers."""
    have = {"cupy": cupy, "numpy": numpy, "capability": capability, "gpus": str(gpus)}
    words = {"cupy": "CuPy", "numpy": "NumPy", "capability": "compute capability", "gpus": "visible GPUs"}
    for need in needs:
        kind, _, wanted = need.partition(":")
        if kind in have and _numbers(have[kind]) < _numbers(wanted):
            return "needs %s %s or more; here: %s" % (words[kind], wanted, have[kind])
    return None


def _numbers(text: str) -> List[int]:
    numbers = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return numbers


def _run(test: Any, order: Dict[str, Any], tell: Tell) -> Optional[Trouble]:
    import cupy as cp
    import numpy as np

    from gpuenv.smoke.payload.gpu import Gpu, Skip

    tell("versions", {"cupy": cp.__version__, "numpy": np.__version__})
    count = cp.cuda.runtime.getDeviceCount()
    device = device_facts(cp, 0)
    tell("device", device)
    needs = getattr(test, "NEEDS", [])
    lack = lacking(needs, cp.__version__, device["capability"], count, np.__version__) or harm_to_others(test, cp)
    if lack:
        return Trouble("skipped", "not-applicable", lack)
    if order.get("uuid") and device["uuid"] and device["uuid"].lower() != order["uuid"].lower():
        return Trouble("failed", "wrong-device", "the first CUDA device is %s" % device["uuid"])
    room = room_here(cp)
    tell("memory", {"free": room.free, "total": room.total})
    size, trouble = fitted(test, order["size"], room)
    if trouble:
        return trouble
    tell("size", size)
    gpu = Gpu(cp, order["level"], order.get("fault"), min(room.free, room.limit or room.free), room.total)
    try:
        return _prove(test, gpu, size, order, tell)
    except Skip as skip:
        return Trouble("skipped", "not-applicable", str(skip))
    except Exception as error:  # noqa: BLE001 - a test may raise anything: that is its answer
        tell("traceback", traceback.format_exc()[-2000:])
        return lost(cp) or _of_memory(error, cp, room.total) or _of_exception(error)


def fitted(test: Any, size: Dict[str, Any], room: Room) -> Any:
    """The sizes, halved until there is room for them on the GPU, in the pool and on the host; or why none fits."""
    shrinks, given = getattr(test, "SHRINKS", None), dict(size)
    least = max(size[shrinks] * SMALLEST, 1) if shrinks else 0
    while _cramped(test, given, room) and shrinks and given[shrinks] > least:
        given[shrinks] //= 2
    return given, _cramped(test, given, room)


def _cramped(test: Any, size: Dict[str, Any], room: Room) -> Optional[Trouble]:
    """What keeps a size from fitting."""
    told = test.memory(size) if hasattr(test, "memory") else 0
    if told and room.limit and told > room.limit:
        return above_limit(told, room.limit)
    needed, beside = (told or UNTOLD) + RESERVE, int(told * getattr(test, "HOST", HOST)) or UNTOLD
    trouble = too_little(needed, room.free, room.total)
    if not room.shared:
        return trouble or too_little_beside(beside, room.host)
    # Others hold what is lacking where the GPU's own part alone has no room, and both would have it without them.
    is_held = trouble and not too_little_beside(needed + beside, room.total - CONTEXT)
    return trouble if is_held else too_little_beside(needed + beside, room.host or room.free)


def _prove(test: Any, gpu: Any, size: Dict[str, Any], order: Dict[str, Any], tell: Tell) -> Optional[Trouble]:
    """The GPU's answers against the expected ones."""
    import numpy as np

    from gpuenv.smoke.payload.answers import judge

    given = test.inputs(np.random.default_rng(order["seed"]), size)
    tell("stage", "expected answers")
    expected = test.expect(given)
    tell("stage", "the GPU's answers")
    gpu.plant()
    started = time.perf_counter()
    got = test.run(gpu, given)
    if not getattr(test, "LOSES_CONTEXT", False):
        gpu.runtime.deviceSynchronize()
    took = time.perf_counter() - started
    wrong = judge(expected, got)
    if not wrong and order["level"] == "deep" and getattr(test, "EXACT_REPEAT", False):
        wrong = different(got, test.run(gpu, given))
    tell("measured", {name: {"value": value, "unit": unit} for name, (value, unit) in gpu.measured.items()})
    tell("work_seconds", took)
    return Trouble("failed", "wrong-answer", "; ".join(wrong)[:1000]) if wrong else None


def different(first: Dict[str, Any], second: Dict[str, Any]) -> List[str]:
    """Which answers of two runs on the same input differ in any bit."""
    same = "the same input gave other bits the second time"
    return ["%s: %s" % (name, same) for name in first if first[name].tobytes() != second[name].tobytes()]


def lost(cp: Any) -> Optional[Trouble]:
    """Whether the context is lost, whatever the library that failed first says of it."""
    try:
        cp.cuda.runtime.deviceSynchronize()
    except cp.cuda.runtime.CUDARuntimeError as error:
        trouble = _of_exception(error)
        return trouble if trouble.trouble == "context-lost" else None
    return None


def before_it_began(error: Exception) -> Trouble:
    """An error before the test could take any memory: where there is none even for the context, others hold it."""
    if cuda_status(error) == MEMORY_ALLOCATION:
        detail = "there is no room even for this program's context: others hold the GPU's memory"
        return Trouble("busy", "memory-held-by-others", detail, "gpu-busy")
    return _of_exception(error)


def cuda_status(error: Exception) -> Optional[int]:
    """The CUDA error; the libraries (cuBLAS, cuFFT and so on) number theirs in ways of their own."""
    status = getattr(error, "status", None)
    own = type(error).__name__ in ("CUDARuntimeError", "CUDADriverError")
    return status if own and isinstance(status, int) else None


def _of_exception(error: Exception) -> Trouble:
    if isinstance(error, MemoryError):  # the GPU's own lack of memory has been told by then
        return refused_beside(first_line(error))
    return classify(type(error).__name__, cuda_status(error), first_line(error))


def _of_memory(error: Exception, cp: Any, total: int) -> Optional[Trouble]:
    """Whose fault a lack of memory is."""
    kind, text = type(error).__name__, str(error)
    known = isinstance(error, cp.cuda.memory.OutOfMemoryError) or cuda_status(error) == MEMORY_ALLOCATION
    if not known and kind not in LIBRARY_ERRORS and not found_no_room(kind, text):
        return None
    free = free_and_total(cp)[0]
    if not known and not found_no_room(kind, text, free):
        return None
    pool = cp.get_default_memory_pool()
    return lack_of_memory(wanted_bytes(error), pool.total_bytes(), free, total, pool.get_limit())


def wanted_bytes(error: Exception) -> int:
    """CuPy says: Out of memory allocating 1,024 bytes (allocated so far: ...)."""
    words = str(error).replace(",", "").split()
    place = words.index("allocating") + 1 if "allocating" in words else len(words)
    return int(words[place]) if place < len(words) and words[place].isdigit() else 0


def first_line(error: Exception) -> str:
    """CuPy frames some messages with lines of = signs, and tells the original error of a failed import at their end."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" =\t")]
    if "Original error:" in lines[:-1]:
        return lines[lines.index("Original error:") + 1][:500]
    return (lines[0] if lines else type(error).__name__)[:500]
