"""Why this process does not see a GPU that the driver has. Pure."""

from __future__ import annotations

from gpuenv.model.gpus import CONTROL_GROUP, DEVICE_NODE, PERMISSION, listed
from gpuenv.model.nvidia import Cuda, Nvml, uuid_key
from gpuenv.model.reading import Reading, known, missing
from gpuenv.model.snapshot import ComputeMode, DeviceNode
from gpuenv.probe.raw import CudaDevice, NvmlGpu, RawFacts

VARIABLE = "CUDA_VISIBLE_DEVICES"


def hidden_by(raw: RawFacts, nvml: NvmlGpu | None, cuda: CudaDevice | None) -> Reading[str]:
    """The variable, mode or control group that hides a GPU; unknown with the reason where it is seen.

    The most final reason comes first: what the kernel refuses, no variable can give back.
    """
    if cuda is not None:
        return missing("this process sees the GPU")
    if nvml is None:
        return missing("NVML does not list the GPU")
    for question in (_refused, _closed_node, _not_told, _without_instance, _variable, _beside_an_instance, _prohibited):
        answer = question(raw, nvml)
        if answer is not None:
            return answer
    return missing("nothing that was read tells why this process does not see the GPU")


def _refused(_: RawFacts, nvml: NvmlGpu) -> Reading[str] | None:
    if nvml.failures.get("nvmlDeviceGetHandleByIndex") != Nvml.NO_PERMISSION:
        return None
    return known(f"{CONTROL_GROUP}: NVML counts the GPU and has no permission to open it", "nvml")


def _closed_node(raw: RawFacts, nvml: NvmlGpu) -> Reading[str] | None:
    """The GPU's device node, where it is missing beside others, or closed to this user."""
    nodes = {node.path: node for node in raw.kernel.device_nodes}
    if nvml.minor is None or "/dev/nvidiactl" not in nodes:
        return None
    path = f"/dev/nvidia{nvml.minor}"
    node = nodes.get(path)
    if node is None:
        return known(f"{DEVICE_NODE}: {path} is not there", "/dev")
    return None if node.accessible else known(_permission(node), "/dev")


def _not_told(raw: RawFacts, nvml: NvmlGpu) -> Reading[str] | None:
    if raw.cuda.count is None and raw.cuda.init != Cuda.NO_DEVICE:
        return missing("libcuda did not tell which GPUs this process sees")
    if nvml.failures.get("nvmlDeviceGetHandleByIndex") is not None:
        return missing("NVML cannot open the GPU either")
    return None


def _without_instance(_: RawFacts, nvml: NvmlGpu) -> Reading[str] | None:
    return (
        known("MIG mode: it is on, and there is no instance", "nvml") if nvml.mig and not nvml.mig_instances else None
    )


def _beside_an_instance(raw: RawFacts, _: NvmlGpu) -> Reading[str] | None:
    instances = {uuid_key(instance.uuid) for gpu in raw.nvml.gpus for instance in gpu.mig_instances}
    if not any(uuid_key(device.uuid) in instances for device in raw.cuda.devices):
        return None
    return known("MIG mode: a process that sees a MIG instance sees nothing beside it", "libcuda")


def _prohibited(_: RawFacts, nvml: NvmlGpu) -> Reading[str] | None:
    """Not by itself a reason, since libcuda lists such a GPU; with no other reason it is the one left."""
    prohibited = nvml.compute_mode == list(ComputeMode).index(ComputeMode.PROHIBITED)
    return known("compute mode: prohibited", "nvml") if prohibited else None


def _permission(node: DeviceNode) -> str:
    return f"{PERMISSION}: {node.path} has mode {node.mode} and belongs to {node.owner}"


def _variable(raw: RawFacts, nvml: NvmlGpu) -> Reading[str] | None:
    value = raw.environment.get(VARIABLE)
    words = None if value is None else _says(value, raw, nvml)
    return None if words is None else known(words, VARIABLE)


def _says(value: str, raw: RawFacts, nvml: NvmlGpu) -> str | None:
    """What the variable does to a GPU; None where it hides nothing."""
    counted = [gpu for gpu in raw.nvml.gpus if _refused(raw, gpu) is None and _closed_node(raw, gpu) is None]
    uuids = [gpu.uuid or "" for gpu in counted]
    uuids += [instance.uuid for gpu in counted for instance in gpu.mig_instances]
    found = listed(value, len(counted), uuids)
    shown = f"{VARIABLE}={value or '(empty)'}"
    if found.twice is not None:
        return f"{shown} names {found.twice} twice, after which CUDA shows no GPU"
    if found.invalid is not None and value:
        return f"{shown} ends at {found.invalid or '(nothing)'}, which names no GPU or MIG instance"
    named = {uuid_key(entry.removeprefix("MIG-").partition("/")[0]) for entry in found.entries}
    own = {uuid_key(nvml.uuid), *(uuid_key(instance.uuid) for instance in nvml.mig_instances)}
    if len(found.entries) >= len(counted) or own & named:
        return None
    return f"{shown} does not name it"
