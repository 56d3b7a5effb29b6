"""Selects the GPUs that the tests run on, and the CUDA_VISIBLE_DEVICES entry that shows a child one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuenv.model.gpus import accessible_gpus, is_tegra
from gpuenv.model.nvidia import uuid_key
from gpuenv.model.smoke import TestedGpu
from gpuenv.model.snapshot import ComputeMode, Gpu, Snapshot
from gpuenv.model.strings import parse_integer

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or MIG instance.

    Attributes:
        visible: value of CUDA_VISIBLE_DEVICES that shows a child this device only.
        uuid: of the GPU or instance, if known.
        memory_total: bytes.
        index: NVML index of the GPU, which --gpu accepts.
        exclusive: whether only one process at a time can use it.
        instance: whether it is a MIG instance.
        uuid_is_checked: whether a test compares the UUID that CUDA reports with this one.
    """

    visible: str
    uuid: str | None = None
    name: str | None = None
    compute_capability: str | None = None
    memory_total: int | None = None
    index: int | None = None
    pci: str | None = None
    exclusive: bool = False
    instance: bool = False
    uuid_is_checked: bool = True

    @property
    def record(self) -> TestedGpu:
        """The record of the device in the result."""
        return TestedGpu(self.uuid, self.name, self.compute_capability, self.memory_total, self.index, self.pci)


def visible_devices(snapshot: Snapshot, environment: Mapping[str, str]) -> tuple[Device, ...]:
    """Returns the GPUs that the caller's programs see; for a GPU in MIG mode, its instances.

    If the caller's CUDA_VISIBLE_DEVICES names instances, only those count. A Jetson's GPU is identified by its number:
    NVML spells its UUID without ``GPU-`` (go-nvlib, nvlib/info, HasAnIntegratedGPU) and does not find it under the UUID
    that CUDA reports (nvbandwidth, issue 55).
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
                    pci=gpu.pci.value,
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
                    pci=gpu.pci.value,
                    exclusive=gpu.compute_mode.value not in (None, ComputeMode.DEFAULT),
                    uuid_is_checked=visible == gpu.uuid.value,
                )
            )
    if "MIG-" in named:
        wanted = [uuid_key(entry.strip()) or "" for entry in named.split(",")]
        return tuple(d for d in found if any((uuid_key(d.uuid) or "").startswith(entry) for entry in wanted if entry))
    return tuple(found)


def _is_hidden(gpu: Gpu) -> bool:
    """Whether CUDA_VISIBLE_DEVICES or the kernel hides the GPU (CUDA itself may show one of its instances only)."""
    return gpu.hidden_by.source == VISIBLE or not accessible_gpus([gpu])


def _visible_entry(number: int, named: str) -> str:
    """Returns the entry of the caller's CUDA_VISIBLE_DEVICES for a CUDA device number; without one, the number."""
    entries = [entry.strip() for entry in named.split(",") if entry.strip()]
    return entries[number] if number < len(entries) else str(number)


def powered_down_gpus(snapshot: Snapshot, devices: Sequence[Device]) -> tuple[str, ...]:
    """Returns the UUIDs of the GPUs without persistence mode, which the driver shuts down when no program uses them."""
    used = {device.index for device in devices}
    return tuple(
        gpu.uuid.value
        for gpu in snapshot.gpus
        if gpu.uuid.value and gpu.index.known and gpu.index.value in used and gpu.persistence.value is False
    )


def devices_from_cupy(facts: Sequence[Mapping[str, object]], environment: Mapping[str, str]) -> tuple[Device, ...]:
    """Returns the devices that CuPy listed, for machines where no other source lists any.

    ``facts`` has one mapping per device, in CUDA's order; the caller's CUDA_VISIBLE_DEVICES maps CUDA's numbers to
    entries.
    """
    devices = []
    for number, entry in enumerate(facts):
        uuid = str(entry["uuid"]) if entry.get("uuid") else None
        visible = _visible_entry(number, environment.get(VISIBLE, ""))
        total = entry.get("memory_total")
        devices.append(
            Device(
                # CuPy reports the UUID of the GPU instead of its instance's, and a Jetson's UUID is unreliable.
                visible=visible,
                uuid=uuid,
                name=str(entry.get("name") or "") or None,
                compute_capability=str(entry.get("capability") or "") or None,
                memory_total=total if isinstance(total, int) else None,
                instance=visible.startswith("MIG-"),
                uuid_is_checked=len(facts) > 1,  # a single device cannot be confused with another
            )
        )
    return tuple(devices)


def select_devices(devices: Sequence[Device], wanted: Sequence[str]) -> tuple[Device, ...]:
    """Returns the devices that the caller named by UUID, by a prefix of one, or by NVML index.

    Raises:
        ValueError: a name matches no device or several; the message lists them.
    """
    found: list[Device] = []
    for name in wanted:
        matching = [device for device in devices if _matches(device, name)]
        if not matching:
            known = ", ".join(f"{device.index}: {device.uuid or device.visible}" for device in devices) or "none"
            raise ValueError(f"--gpu {name} matches none of the visible GPUs ({known})")
        if len(matching) > 1:
            matches = ", ".join(device.uuid or device.visible for device in matching)
            raise ValueError(f"--gpu {name} matches several GPUs: {matches}")
        found += [device for device in matching if device not in found]
    return tuple(found) if wanted else tuple(devices)


def _matches(device: Device, name: str) -> bool:
    number = parse_integer(name)
    if number is not None:
        return device.index == number or (device.index is None and device.visible == name)
    key = uuid_key(name.upper())
    return bool(key) and (uuid_key(device.uuid or device.visible) or "").startswith(key or "")
