"""Runs one test: imports CuPy, checks the requirements and compares the GPU's answers with the expected ones."""

from __future__ import annotations

import importlib
import importlib.util
import os
import tempfile
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from gpuenv.smoke.payload.failures import (
    SmokeVerdict,
    current_memory,
    first_line,
    fit_size,
    verdict_on_exception,
    verdict_on_lost_context,
    verdict_on_memory_error,
    verdict_on_setup_error,
)

Emit = Callable[[str, Any], None]
PACKAGE = "gpuenv.smoke.payload.tests"
TEMPORARY = "(temporary folder)"
# cudaDevAttrMpsEnabled (driver_types.h from CUDA 12.3 on).
MPS_ENABLED = 133
MPS_PIPES = "/tmp/nvidia-mps"  # noqa: S108 - the default folder of MPS for its pipes


def list_devices(emit: Emit) -> None:
    """Reports the devices that CuPy sees, for machines where no other source lists any."""
    try:
        import cupy as cp

        for number in range(cp.cuda.runtime.getDeviceCount()):
            emit("device.%d" % number, device_facts(cp, number))
    except Exception as error:  # noqa: BLE001 - the user's environment: any exception is an answer
        emit("error", first_line(error))


def device_facts(cp: Any, number: int) -> Dict[str, Any]:
    """Returns UUID, name, compute capability and memory of a CUDA device."""
    properties = cp.cuda.runtime.getDeviceProperties(number)
    name, raw = properties["name"], bytes(properties.get("uuid", b""))
    return {
        "uuid": uuid_text(raw),
        "name": name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name),
        "capability": "%d.%d" % (properties["major"], properties["minor"]),
        "memory_total": int(properties["totalGlobalMem"]),
    }


def uuid_text(raw: bytes) -> Optional[str]:
    """Formats a UUID as GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx."""
    digits = raw[:16].hex()
    if len(digits) != 32 or not digits.strip("0"):
        return None
    return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def load_test(name: str) -> Any:
    """Instantiates a test: ``blas.matmul_f32`` is the class ``MatmulF32`` in ``tests/blas.py``."""
    group, _, rest = name.partition(".")
    kind = "".join(part.capitalize() for part in rest.split("_"))
    return getattr(importlib.import_module("%s.%s" % (PACKAGE, group)), kind)()


def run_test(name: str, request: Dict[str, Any], emit: Emit) -> None:
    """Runs a test and reports its verdict."""
    # In the folder of the run, which gpuenv removes: a killed test cannot clean up.
    with tempfile.TemporaryDirectory(prefix="gpuenv-smoke-", dir=request.get("folder")) as folder:
        try:
            test = load_test(name)
            # CuPy and the driver read these when they are loaded.
            for key, value in test.ENVIRONMENT.items():
                os.environ[key] = folder if value == TEMPORARY else value
            verdict = missing_module(test.NEEDS) or _run(test, request, emit)
        except Exception as error:  # noqa: BLE001 - any exception of a test is an answer
            verdict = verdict_on_setup_error(error)
        passed = {"status": "passed", "trouble": None, "detail": None, "cause": None}
        emit("verdict", dict(verdict._asdict()) if verdict else passed)


def missing_module(needs: Sequence[str]) -> Optional[SmokeVerdict]:
    """Returns a verdict if a required module is missing; does not import it."""
    for need in needs:
        kind, _, wanted = need.partition(":")
        if kind == "module" and importlib.util.find_spec(wanted) is None:
            return SmokeVerdict("skipped", "not-applicable", "%s is not installed in the target environment" % wanted)
    return None


def unmet_need(needs: Sequence[str], cupy: str, capability: str, gpus: int, numpy: str) -> Optional[str]:
    """Returns the first unmet requirement; compares the leading numbers of versions."""
    found = {"cupy": cupy, "numpy": numpy, "capability": capability, "gpus": str(gpus)}
    labels = {"cupy": "CuPy", "numpy": "NumPy", "capability": "compute capability", "gpus": "visible GPUs"}
    for need in needs:
        kind, _, wanted = need.partition(":")
        if kind in found and _numbers(found[kind]) < _numbers(wanted):
            return "needs %s >= %s; found: %s" % (labels[kind], wanted, found[kind])
    return None


def _numbers(text: str) -> List[int]:
    numbers = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return numbers


def _mps_conflict(cp: Any) -> Optional[str]:
    """Returns why a test that loses its context on purpose must not run here, or None.

    A fatal fault of one MPS client ends all clients that share its GPU (Multi-Process Service, Error Containment).
    """
    try:
        enabled = int(cp.cuda.runtime.deviceGetAttribute(MPS_ENABLED, 0))
    except cp.cuda.runtime.CUDARuntimeError:
        enabled = None
    if uses_mps(enabled, os.environ):
        return "needs a GPU without MPS: the deliberate fault would also end other programs on this GPU"
    return None


def uses_mps(enabled: Optional[int], environment: Mapping[str, str]) -> bool:
    """Whether this process is an MPS client, by the device attribute, else by the pipe of the control daemon."""
    if enabled is not None:
        return enabled != 0
    return os.path.exists(os.path.join(environment.get("CUDA_MPS_PIPE_DIRECTORY") or MPS_PIPES, "control"))


def _run(test: Any, request: Dict[str, Any], emit: Emit) -> Optional[SmokeVerdict]:
    import cupy as cp
    import numpy as np

    emit("versions", {"cupy": cp.__version__, "numpy": np.__version__})
    count = cp.cuda.runtime.getDeviceCount()
    device = device_facts(cp, 0)
    emit("device", device)
    reason = unmet_need(test.NEEDS, cp.__version__, device["capability"], count, np.__version__)
    reason = reason or (_mps_conflict(cp) if test.LEAVES else None)
    if reason:
        return SmokeVerdict("skipped", "not-applicable", reason)
    if request.get("uuid") and device["uuid"] and device["uuid"].lower() != request["uuid"].lower():
        return SmokeVerdict("failed", "wrong-device", "the first CUDA device is %s" % device["uuid"])
    # Those of the lower levels, too: what a lower level rejects, a deeper one rejects as well.
    for sizes in [*request.get("smaller", ()), request["size"]]:
        verdict = _run_size(test, cp, sizes, request, emit)
        if verdict:
            return verdict
        cp.get_default_memory_pool().free_all_blocks()
    return None


def _run_size(test: Any, cp: Any, sizes: Dict[str, Any], request: Dict[str, Any], emit: Emit) -> Optional[SmokeVerdict]:
    from gpuenv.smoke.payload.cupy_device import Busy, CupyDevice, Skip

    memory = current_memory(cp)
    emit("memory", {"free": memory.free, "total": memory.total})
    size, verdict = fit_size(test, sizes, memory)
    if verdict:
        return verdict
    emit("size", size)
    gpu = CupyDevice(
        cp, request["level"], request.get("fault"), min(memory.free, memory.limit or memory.free), memory.total
    )
    try:
        wrong = _wrong_answers(test, gpu, size, request["seed"], emit)
    except Skip as skip:
        return SmokeVerdict("skipped", "not-applicable", str(skip))
    except Busy as busy:
        return SmokeVerdict("busy", "memory-held-by-others", str(busy), "gpu-busy")
    except Exception as error:  # noqa: BLE001 - any exception of a test is an answer
        return (
            verdict_on_lost_context(cp)
            or verdict_on_memory_error(error, cp, memory.total)
            or verdict_on_exception(error)
        )
    return SmokeVerdict("failed", "wrong-answer", "; ".join(wrong)[:1000]) if wrong else None


def _wrong_answers(test: Any, gpu: Any, size: Dict[str, Any], seed: int, emit: Emit) -> List[str]:
    """Describes the answers of the GPU that differ from the expected ones."""
    import numpy as np

    from gpuenv.smoke.payload.expected import find_wrong

    data = test.inputs(np.random.default_rng(seed), size)
    emit("stage", "expected answers")
    expected = test.expect(data)
    emit("stage", "the GPU's answers")
    gpu.inject_fault()
    started = time.perf_counter()
    got = test.run(gpu, data)
    if not test.LEAVES:
        gpu.runtime.deviceSynchronize()
    took = time.perf_counter() - started
    wrong = find_wrong(expected, got)
    if not wrong and gpu.level == "deep" and test.EXACT_REPEAT:
        wrong = differing_answers(got, test.run(gpu, data))
    emit("measured", {name: {"value": value, "unit": unit} for name, (value, unit) in gpu.measured.items()})
    emit("work_seconds", took)
    return wrong


def differing_answers(first: Dict[str, Any], second: Dict[str, Any]) -> List[str]:
    """Describes the answers that differ in any bit between two runs on the same input."""
    message = "the same input gave different bits in a second run"
    return ["%s: %s" % (name, message) for name in first if first[name].tobytes() != second[name].tobytes()]
