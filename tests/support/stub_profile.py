"""The GPUs of a snapshot as a table for the stub driver, to replay the machine on a host without GPUs.

The stub chooses the facts that a snapshot does not hold: serial numbers, minor numbers, the causes of retired pages.
Values that change over time are replayed too; ``stable_facts`` leaves them out of a comparison.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from gpuenv.model.codec import encode
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import ComputeMode, Gpu, Snapshot, SourceState, Virtualization
from gpuenv.model.versions import CudaVersion
from gpuenv.probe.gpu_assembly import ARCHITECTURES, BRANDS, CONNECTIONS, READS, REASONS, STATES

T = TypeVar("T")

_NUMBERS = {name: number for number, name in ARCHITECTURES.items()}
_LEVELS = {name: number for number, name in CONNECTIONS.items()}
_SYMBOLS = {
    "nvmlDeviceGetPciInfo": "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetComputeRunningProcesses": "nvmlDeviceGetComputeRunningProcesses_v3",
}
_CODE = re.compile(r"(nvmlDevice\w+) (?:answered with return|returned) code (\d+)")
_EXIT = re.compile(r"exit code (\d+)")
_NOT_SUPPORTED = "3"
# The stub answers these whether the profile names them or not.
_ALWAYS = (
    "nvmlDeviceGetArchitecture", "nvmlDeviceGetComputeMode", "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetTotalEccErrors",
)  # fmt: skip
# Values that change over time.
_VOLATILE = (
    "memory_free", "processes", "users", "health.temperature", "health.power", "health.clock",
    "health.throttle_reasons", "pcie.generation", "pcie.width",
)  # fmt: skip
_DRIVER_SOURCES = ("nvml", "libcuda", "nvidia-smi", "libcuda's compute capability", "nvml's compute capability")


def stub_profile(snapshot: Snapshot) -> dict[str, str]:
    """The table of the stub driver for the driver and the GPUs of a machine."""
    driver = snapshot.driver
    listed = [gpu for gpu in snapshot.gpus if _value_from(gpu.index, "nvml") is not None]
    table = {
        "gpu.count": str(len(listed)),
        "driver.version": str(_value_from(driver.version, "nvml") or driver.version.value),
    }
    nvml_level, cuda_level = _value_from(driver.cuda, "nvml"), _value_from(driver.cuda, "libcuda")
    table |= _entry("driver.cuda", _number(nvml_level or cuda_level))
    table |= _entry("cuda.driver", _number(cuda_level))
    smi_version, smi_level = _value_from(driver.version, "nvidia-smi"), _value_from(driver.cuda, "nvidia-smi")
    table |= _entry("smi.driver", smi_version) | _entry("smi.cuda", smi_level) | _smi_failure(snapshot)
    if driver.nvml_init.value:
        table |= {f"nvml.return.{name}": str(driver.nvml_init.value) for name in ("nvmlInitWithFlags", "nvmlInit_v2")}
    if driver.cuda_init.value:
        table["cuda.return.cuInit"] = str(driver.cuda_init.value)
    for gpu in listed:
        index = gpu.index.value or 0
        table |= {f"gpu.{index}.{key}": value for key, value in _gpu(gpu)}
        table |= _faults(gpu, index)
        table |= _links(gpu, index)
    return table


def _smi_failure(snapshot: Snapshot) -> dict[str, str]:
    """The exit code and message of a failing nvidia-smi; a missing one is replayed as failing."""
    source = snapshot.source("nvidia-smi")
    if source.state is SourceState.ANSWERED:
        return {}
    code, message = _EXIT.match(source.detail or ""), (source.detail or "it said nothing").partition(": ")[2]
    return {"smi.exit": code[1] if code else "1", "smi.text": message or "it said nothing"}


def replay_environment(snapshot: Snapshot) -> dict[str, str]:
    """The variables that decide which GPUs are seen."""
    names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
    return {name: value for name, value in snapshot.environment.items() if name in names}


def stable_facts(snapshot: Snapshot) -> dict[str, Any]:
    """The facts that a replay must reproduce: those of the driver's own interfaces that do not change over time."""
    gpus = [_stable(encode(gpu)) for gpu in snapshot.gpus]
    driver = snapshot.driver
    return {
        "gpus": gpus,
        "visible_count": snapshot.visible_count.value,
        "gpu_count": _value_from(snapshot.gpu_count, "nvml"),
        "driver.version": str(_value_from(driver.version, "nvml")),
        "driver.cuda": [str(_value_from(driver.cuda, source)) for source in ("nvml", "libcuda", "nvidia-smi")],
        "init": (driver.nvml_init.value, driver.cuda_init.value),
    }


def _stable(value: Any, path: str = "") -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, Mapping) and set(value) == {"value", "source", "others", "reason"}:
        answers = [(value["source"], value["value"])] if value["source"] else []
        answers += [(other["source"], other["value"]) for other in value["others"]]
        driver_answers = [answer for answer in answers if answer[0] in _DRIVER_SOURCES or path == "hidden_by"]
        return {"answers": driver_answers, "reason": value["reason"]}
    if isinstance(value, Mapping):
        inner = {name: (f"{path}.{name}".lstrip("."), entry) for name, entry in value.items()}
        return {name: _stable(entry, below) for name, (below, entry) in inner.items() if below not in _VOLATILE}
    return [_stable(entry, path) for entry in value] if isinstance(value, list) else value


def _value_from(reading: Reading[T], source: str) -> T | None:
    """The value that one source reported."""
    if reading.source == source:
        return reading.value
    return next((answer.value for answer in reading.others if answer.source == source), None)


def _entry(key: str, value: object) -> dict[str, str]:
    return {} if value is None else {key: str(value)}


def _number(level: CudaVersion | None) -> int | None:
    """``12.4`` as the driver's number 12040."""
    return None if level is None else level.major * 1000 + level.minor * 10


def _gpu(gpu: Gpu) -> Iterator[tuple[str, str]]:
    for key, value in _quantities(gpu):
        if value is not None:
            yield key, str(int(value)) if isinstance(value, bool) else str(value)
    for number, instance in enumerate(gpu.mig_instances):
        yield f"mig.{number}.uuid", instance.uuid
        if instance.name:
            yield f"mig.{number}.name", instance.name
        if instance.memory_total is not None:
            yield f"mig.{number}.memory.total", str(instance.memory_total)
    for link in gpu.nvlinks:
        yield f"nvlink.{link.link}", str(int(link.active))


def _quantities(gpu: Gpu) -> Iterator[tuple[str, object]]:
    health, pcie = gpu.health, gpu.pcie
    architecture = _value_from(gpu.architecture, "nvml")
    total = _value_from(gpu.memory_total, "nvml")
    yield from (
        ("name", gpu.name.value),
        ("uuid", gpu.uuid.value),
        ("pci", _long_address(gpu.pci.value)),
        ("cc", gpu.compute_capability.value),
        ("architecture", _NUMBERS[architecture] if architecture else None),
        ("brand", _position(BRANDS, gpu.brand.value)),
        ("memory.total", "none" if total is None else total),
        ("memory.free", gpu.memory_free.value),
        ("memory.cuda", _value_from(gpu.memory_total, "libcuda")),
        ("mig", gpu.mig.value),
        ("mig.pending", gpu.mig_pending.value),
        ("mig.count", len(gpu.mig_instances) if gpu.mig.value else None),
        ("compute_mode", _position(tuple(ComputeMode), gpu.compute_mode.value)),
        ("persistence", gpu.persistence.value),
        ("virtualization", _position(tuple(Virtualization), gpu.virtualization.value)),
        ("licensed", gpu.licensed.value),
        ("processes", _processes(gpu)),
        ("fabric.state", _position(STATES, gpu.fabric.state.value)),
        ("fabric.status", gpu.fabric.status.value),
        ("ecc", health.ecc.value),
        ("ecc.pending", health.ecc_pending.value),
        ("ecc.volatile.corrected", health.ecc_corrected.value),
        ("ecc.volatile.uncorrected", health.ecc_uncorrected.value),
        ("ecc.aggregate.corrected", health.ecc_corrected_ever.value),
        ("ecc.aggregate.uncorrected", health.ecc_uncorrected_ever.value),
        ("retired.single", health.pages_retired.value),
        ("retired.double", None if health.pages_retired.value is None else 0),
        ("retired.pending", health.pages_pending.value),
        ("remapped.corrected", health.rows_corrected.value),
        ("remapped.uncorrected", health.rows_uncorrected.value),
        ("remapped.pending", health.rows_pending.value),
        ("remapped.failure", health.rows_failed.value),
        ("temperature", health.temperature.value),
        ("power.usage", _milliwatts(health.power.value)),
        ("power.limit", _milliwatts(health.power_limit.value)),
        ("power.limit.default", _milliwatts(health.power_limit_default.value)),
        ("inforom.valid", health.inforom_valid.value),
        ("clock.sm", health.clock.value),
        ("clock.max.sm", health.clock_most.value),
        ("clock.reasons", _mask(health.throttle_reasons.value)),
        ("pcie.generation", pcie.generation.value),
        ("pcie.generation.max", pcie.generation_most.value),
        ("pcie.width", pcie.width.value),
        ("pcie.width.max", pcie.width_most.value),
    )


def _position(names: tuple[Any, ...], value: object) -> int | None:
    return None if value is None else names.index(value)


def _long_address(address: str | None) -> str | None:
    """``0000:3a:00.0`` as NVML writes it, ``00000000:3A:00.0``."""
    if address is None:
        return None
    domain, _, rest = address.partition(":")
    return f"{int(domain, 16):08X}:{rest.upper()}"


def _milliwatts(watts: float | None) -> int | None:
    return None if watts is None else round(watts * 1000)


def _mask(names: tuple[str, ...] | None) -> int | None:
    """The bits of the names; one without a name goes by its number, ``bit-11``."""
    if names is None:
        return None
    bits = [int(name[4:]) if name.startswith("bit-") else REASONS.index(name) for name in names]
    return sum(1 << bit for bit in bits)


def _processes(gpu: Gpu) -> str | None:
    if gpu.processes.value is None:
        return None
    return ",".join(f"{user.pid}:{'none' if user.memory is None else user.memory}" for user in gpu.users)


def _faults(gpu: Gpu, index: int) -> dict[str, str]:
    """The return codes of failed NVML calls; without an entry the stub returns 3."""
    table = {}
    for reason in _reasons(encode(gpu)):
        match = _CODE.match(reason)
        if match and (match[2] != _NOT_SUPPORTED or match[1] in _ALWAYS):
            table[f"nvml.return.{_SYMBOLS.get(match[1], match[1])}@{index}"] = match[2]
    identity: tuple[tuple[Reading[Any], str], ...] = (
        (gpu.name, "nvmlDeviceGetName"),
        (gpu.uuid, "nvmlDeviceGetUUID"),
        (gpu.pci, "nvmlDeviceGetPciInfo_v3"),
        (gpu.compute_capability, "nvmlDeviceGetCudaComputeCapability"),
    )
    for reading, symbol in identity:
        # The code is not in the snapshot if another source answered.
        if gpu.fault.value is None and _unanswered(reading):
            table[f"nvml.return.{symbol}@{index}"] = _NOT_SUPPORTED
    opening = f"nvml.return.nvmlDeviceGetHandleByIndex_v2@{index}"
    if gpu.fault.value is not None:
        table[opening] = str(gpu.fault.value)
    elif (gpu.hidden_by.value or "").startswith("control group"):
        table[opening] = "4"
    return table


def _unanswered(reading: Reading[Any]) -> bool:
    return reading.known and _value_from(reading, "nvml") is None


def _reasons(value: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    if isinstance(value, Mapping):
        if isinstance(value.get("reason"), str):
            yield value["reason"]
        for entry in value.values():
            yield from _reasons(entry)


def _links(gpu: Gpu, index: int) -> dict[str, str]:
    table = {}
    for peer in gpu.peers:
        if peer.connection is not None:
            table[f"topology.{index}.{peer.index}"] = str(_LEVELS[peer.connection])
        if peer.read is not None:
            table[f"p2p.{index}.{peer.index}"] = str(READS.index(peer.read))
    return table
