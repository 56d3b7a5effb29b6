"""What NVML says of a GPU's generation, its links to others, and who uses it. Pure."""

from __future__ import annotations

from gpuenv.model.nvidia import Nvml, generation_of
from gpuenv.model.reading import Reading, known, missing, settle
from gpuenv.model.snapshot import Fabric, GpuUser, NvLink, Peer
from gpuenv.probe.assemble_health import told, why_not
from gpuenv.probe.parse import said
from gpuenv.probe.raw import CudaDevice, NvmlGpu

# nvmlDeviceArchitecture_t, NVML_DEVICE_ARCH_* of nvidia-ml-py 13.615.71.
ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
STATES = ("not-supported", "not-started", "in-progress", "completed")  # nvmlGpuFabricState_t
_COMPLETED = 3
CONNECTIONS = {  # nvmlGpuTopologyLevel_t
    0: "internal",
    10: "single-switch",
    20: "multiple-switches",
    30: "host-bridge",
    40: "node",
    50: "system",
}
READS = (  # nvmlGpuP2PStatus_t
    "ok",
    "chipset-not-supported",
    "gpu-not-supported",
    "topology-not-supported",
    "disabled-by-regkey",
    "not-supported",
    "unknown",
)
_FABRIC = ("nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetGpuFabricInfoV")
_NVLINK = "nvmlDeviceGetNvLinkState"
_STATE_AND_STATUS, _PEER = 2, 3


def architecture(nvml: NvmlGpu | None, cuda: CudaDevice | None) -> Reading[str]:
    """The generation: NVML's own word, else what the compute capability says."""
    number = nvml.architecture if nvml else None
    answers = [
        said("nvml", ARCHITECTURES.get(-1 if number is None else number)),
        said("libcuda's compute capability", generation_of(cuda.compute_capability if cuda else None)),
        said("nvml's compute capability", generation_of(nvml.compute_capability if nvml else None)),
    ]
    if number is not None and number not in ARCHITECTURES:
        return settle(answers, f"nvmlDeviceGetArchitecture answered {number}, which has no name")
    return settle(answers, why_not(nvml, "nvmlDeviceGetArchitecture"))


def users(gpu: NvmlGpu | None) -> tuple[GpuUser, ...]:
    """The compute processes that NVML shows this user."""
    return tuple(GpuUser(entry.pid, entry.name, entry.memory) for entry in gpu.users) if gpu else ()


def nvlinks(gpu: NvmlGpu | None) -> tuple[NvLink, ...]:
    """The state of each NVLink that the GPU has."""
    pairs = gpu.nvlinks if gpu else ()
    return tuple(NvLink(pair[0], bool(pair[1])) for pair in pairs if len(pair) == _STATE_AND_STATUS)


def nvlink_count(gpu: NvmlGpu | None) -> Reading[int]:
    """How many NVLinks the GPU has: none where NVML knows no first one (invalid argument, not supported)."""
    found = len(nvlinks(gpu))
    none = gpu is not None and gpu.failures.get(_NVLINK) in (Nvml.INVALID_ARGUMENT, Nvml.NOT_SUPPORTED)
    return told(gpu, _NVLINK, found if found or none else None)


def fabric(gpu: NvmlGpu | None) -> Fabric:
    """The place in an NVSwitch fabric; a registration that is not complete has no status."""
    told_of = gpu.fabric if gpu and gpu.fabric and len(gpu.fabric) == _STATE_AND_STATUS else None
    if gpu is None or told_of is None:
        asked = next((name for name in _FABRIC if gpu and (name in gpu.failures or name in gpu.remarks)), _FABRIC[0])
        return Fabric(missing(why_not(gpu, asked)), missing(why_not(gpu, asked)))
    state, status = told_of
    if not 0 <= state < len(STATES):
        words = f"the state of the fabric is {state}, which has no name"
        return Fabric(missing(words), missing(words))
    if state != _COMPLETED:
        return Fabric(known(STATES[state], "nvml"), missing("the registration is not complete"))
    return Fabric(told(gpu, _FABRIC[0], STATES[state]), known(status, "nvml"))


def peers(gpu: NvmlGpu | None) -> tuple[Peer, ...]:
    """Every other GPU that NVML can compare this one with; a number without a name is none."""
    found = []
    for entry in gpu.peers if gpu else ():
        if len(entry) != _PEER:
            continue
        index, distance, read = entry
        if index is None:
            continue
        status = READS[read] if read is not None and 0 <= read < len(READS) else None
        found.append(Peer(index, CONNECTIONS.get(-1 if distance is None else distance), status))
    return tuple(found)
