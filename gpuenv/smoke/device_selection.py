"""Which GPUs the tests run on, and how a child is told to use one of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuenv.model.gpus import is_tegra, to_be_opened
from gpuenv.model.nvidia import uuid_key
from gpuenv.model.smoke import TestedGpu
from gpuenv.model.snapshot import ComputeMode, Gpu, Snapshot
from gpuenv.model.strings import parse_integer

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or MIG instance.

    Attributes:
        visible: what CUDA_VISIBLE_DEVICES must be for a child to see it alone.
        uuid: of the GPU or instance, where it is known.
        name: product name.
        compute_capability: such as 9.0.
        memory_total: bytes.
        index: NVML index of the GPU, for those who name it so.
        exclusive: whether it lets in one process at a time.
        instance: whether it is a MIG instance.
        told_alike: whether a test may hold the UUID that CUDA tells against this one.
    """

    visible: str
    uuid: str | None = None
    name: str | None = None
    compute_capability: str | None = None
    memory_total: int | None = None
    index: int | None = None
    exclusive: bool = False
    instance: bool = False
    told_alike: bool = True

    @property
    def record(self) -> TestedGpu:
        """As the result tells it."""
        return TestedGpu(self.uuid, self.name, self.compute_capability, self.memory_total)


def visible_devices(snapshot: Snapshot, environment: Mapping[str, str]) -> tuple[Device, ...]:
    """The GPUs that the caller's own programs see; of a GPU in MIG mode its instances.

    Where the caller's CUDA_VISIBLE_DEVICES names instances, those alone. A Jetson's GPU goes by its number: NVML spells
    its UUID without ``GPU-`` (go-nvlib, nvlib/info, HasAnIntegratedGPU) and does not find it under the UUID that CUDA
    tells (nvbandwidth, issue 55), so that it is no name to rely on.
    """
    named, numbered = environment.get(VISIBLE, ""), is_tegra(snapshot)
    found: list[Device] = []
    for gpu in snapshot.gpus:
        capability = str(gpu.compute_capability.value) if gpu.compute_capability.value else None
        if gpu.mig.value and gpu.mig_instances:
            found += [
                Device(
                    visible=instance.uuid,
                    uuid=instance.uuid,
                    name=f"{gpu.name.value or 'GPU'} {instance.name or 'MIG instance'}",
                    compute_capability=capability,
                    memory_total=instance.memory_total,
                    index=gpu.index.value,
                    instance=True,
                )
                for instance in (() if _is_hidden(gpu) else gpu.mig_instances)
            ]
        elif gpu.ordinal.known and gpu.uuid.value:
            visible = _visible_entry(gpu.ordinal.value or 0, named) if numbered else gpu.uuid.value
            found.append(
                Device(
                    visible=visible,
                    uuid=gpu.uuid.value,
                    name=gpu.name.value,
                    compute_capability=capability,
                    memory_total=gpu.memory_total.value,
                    index=gpu.index.value,
                    exclusive=gpu.compute_mode.value not in (None, ComputeMode.DEFAULT),
                    told_alike=visible == gpu.uuid.value,
                )
            )
    if "MIG-" in named:
        wanted = [uuid_key(entry.strip()) or "" for entry in named.split(",")]
        return tuple(d for d in found if any((uuid_key(d.uuid) or "").startswith(entry) for entry in wanted if entry))
    return tuple(found)


def _is_hidden(gpu: Gpu) -> bool:
    """Whether the variable or the kernel keeps a GPU away; that CUDA shows one instance alone is another thing."""
    return gpu.hidden_by.source == VISIBLE or not to_be_opened([gpu])


def _visible_entry(number: int, named: str) -> str:
    """What stands for a device of CUDA's in the caller's CUDA_VISIBLE_DEVICES; where that is not set, its number."""
    entries = [entry.strip() for entry in named.split(",") if entry.strip()]
    return entries[number] if number < len(entries) else str(number)


def powered_down_gpus(snapshot: Snapshot, devices: Sequence[Device]) -> tuple[str, ...]:
    """The UUIDs of those GPUs that the driver takes down when the last program has left them."""
    used = {device.index for device in devices}
    return tuple(
        gpu.uuid.value
        for gpu in snapshot.gpus
        if gpu.uuid.value and gpu.index.known and gpu.index.value in used and gpu.persistence.value is False
    )


def devices_from_cupy(facts: Sequence[Mapping[str, object]], environment: Mapping[str, str]) -> tuple[Device, ...]:
    """The devices that CuPy itself listed, where nothing else did; by the numbers that CUDA gives them.

    Args:
        facts: one mapping a device, in CUDA's order.
        environment: the caller's, whose CUDA_VISIBLE_DEVICES the numbers count in.
    """
    devices = []
    for number, entry in enumerate(facts):
        uuid = str(entry["uuid"]) if entry.get("uuid") else None
        place = _visible_entry(number, environment.get(VISIBLE, ""))
        total = entry.get("memory_total")
        devices.append(
            Device(
                # An instance's UUID is not that of the GPU which CuPy tells, and a Jetson's is no name to rely on.
                visible=place,
                uuid=uuid,
                name=str(entry.get("name") or "") or None,
                compute_capability=str(entry.get("capability") or "") or None,
                memory_total=total if isinstance(total, int) else None,
                instance=place.startswith("MIG-"),
                told_alike=len(facts) > 1,  # one alone cannot be taken for another
            )
        )
    return tuple(devices)


def select_devices(devices: Sequence[Device], wanted: Sequence[str]) -> tuple[Device, ...]:
    """The devices that the caller named, each by UUID, by the beginning of one, or by NVML index.

    Raises:
        ValueError: when a name fits none, or several; the message lists them.
    """
    found: list[Device] = []
    for name in wanted:
        fitting = [device for device in devices if _matches(device, name)]
        if not fitting:
            known = ", ".join(f"{device.index}: {device.uuid or device.visible}" for device in devices) or "none"
            raise ValueError(f"--gpu {name} is none of the GPUs that are visible here ({known})")
        if len(fitting) > 1:
            alike = ", ".join(device.uuid or device.visible for device in fitting)
            raise ValueError(f"--gpu {name} stands for several GPUs: {alike}")
        found += [device for device in fitting if device not in found]
    return tuple(found) if wanted else tuple(devices)


def _matches(device: Device, name: str) -> bool:
    number = parse_integer(name)
    if number is not None:
        return device.index == number or (device.index is None and device.visible == name)
    key = uuid_key(name.upper())
    return bool(key) and (uuid_key(device.uuid or device.visible) or "").startswith(key or "")
