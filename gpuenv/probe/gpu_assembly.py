"""Merges the sources' lists of GPUs by UUID, else by PCI address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from gpuenv.model.gpus import CONTROL_GROUP, DEVICE_NODE, PERMISSION, parse_visible
from gpuenv.model.nvidia import Cuda, Nvml, generation_of, pci_key, uuid_key
from gpuenv.model.reading import Answer, Reading, known, missing, settle
from gpuenv.model.snapshot import (
    ComputeMode,
    DeviceNode,
    Fabric,
    Gpu,
    GpuHealth,
    GpuUser,
    MigInstance,
    NvLink,
    PcieLink,
    PeerAccess,
    Virtualization,
)
from gpuenv.model.strings import MAX_INTEGER, pattern
from gpuenv.model.versions import ComputeCapability
from gpuenv.probe.raw import NO_SOURCE, ListedGpu, Raw, RawFacts, answer, parse_answer

T = TypeVar("T")

_NOT_QUERIED = "NVML was not queried"
_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
# The order is that of nvml.h's enumerations.
_COMPUTE_MODES = (
    ComputeMode.DEFAULT,
    ComputeMode.EXCLUSIVE_THREAD,
    ComputeMode.PROHIBITED,
    ComputeMode.EXCLUSIVE_PROCESS,
)
_VIRTUALIZATIONS = tuple(Virtualization)
# Bit by bit, nvmlClocksEventReason* of nvml.h.
REASONS = (
    "gpu-idle",
    "application-clocks",
    "software-power-cap",
    "hardware-slowdown",
    "sync-boost",
    "software-thermal",
    "hardware-thermal",
    "hardware-power-brake",
    "display-clock",
    "board-limit",
    "reliability",
)
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
# nvmlBrandType_t of nvml.h (NVML_BRAND_* of nvidia-ml-py 13.615.71), as NVIDIA_REQUIRE_CUDA of NVIDIA's images spells
# them (nvidia/cuda 11.0.3 to 13.1.0, read November 2026). The first seven are the words of libnvidia-container too
# (src/driver.c, driver_get_device_brand_1_svc, read 2026-11-21: Quadro, Tesla, NVS, GRID, GeForce, TITAN, else Unknown;
# compared without regard to case). It knows the others from container toolkit 1.9.0 on (nvidia-container-toolkit, issue
# 24, on quadrortx) and calls them unknown before, which is why images list that word.
BRANDS = (
    "unknown",
    "quadro",
    "tesla",
    "nvs",
    "grid",
    "geforce",
    "titan",
    "vapps",
    "vpc",
    "vcs",
    "vws",
    "cloudgaming",
    "quadrortx",
    "nvidiartx",
    "nvidia",
    "geforcertx",
    "titanrtx",
)
_MIG_NAME = pattern(r" MIG \d+g\.\d+gb")
_STATE_AND_STATUS, _PEER = 2, 3
_HEALTH: dict[str, type] = {
    **dict.fromkeys(("ecc", "ecc_pending", "pages_pending", "rows_pending", "rows_failed", "inforom_valid"), bool),
    **dict.fromkeys(("ecc_corrected", "ecc_corrected_ever", "ecc_uncorrected", "ecc_uncorrected_ever"), int),
    **dict.fromkeys(("rows_corrected", "rows_uncorrected", "temperature", "clock", "clock_most"), int),
    **dict.fromkeys(("power", "power_limit", "power_limit_default"), float),
}


def assemble_gpus(raw: RawFacts) -> tuple[Gpu, ...]:
    """One record per GPU, in the order of the first source with any: NVML, libcuda, the kernel module, nvidia-smi."""
    listings = (
        _listed(raw.nvml.parts("gpus"), "index"),
        _listed(raw.cuda.parts("devices"), "ordinal"),
        _listed(raw.kernel.parts("driver_gpus"), ""),
        raw.smi.gpus or (),
    )
    found = []
    seen: set[str] = set()
    for entry in next((listing for listing in listings if listing), ()):
        key = pci_key(entry.pci)
        if key is None or key not in seen:  # several MIG instances have the PCI address of their GPU
            found.append(_gpu(raw, entry, *listings))
        seen.add(key or "")
    return tuple(found)


def _listed(entries: Iterable[Raw], number: str) -> tuple[ListedGpu, ...]:
    return tuple(
        ListedGpu(
            gpu.get(number, int),
            gpu.text("uuid"),
            gpu.text("name"),
            gpu.text("pci"),
            gpu.text("compute_capability"),
            gpu.get("memory_total", int),
            gpu,
        )
        for gpu in entries
    )


def _gpu(raw: RawFacts, entry: ListedGpu, *listings: Sequence[ListedGpu]) -> Gpu:
    by_nvml, cuda, kernel, smi = (_find_same(entry, listing) for listing in listings)
    if kernel is None and not (entry.uuid or entry.pci):
        # NVML has no identity of a GPU that it cannot open; the kernel module has, if it is the only one unmatched.
        unmatched = [gpu for gpu in listings[2] if _find_same(gpu, listings[0]) is None]
        kernel = unmatched[0] if len(unmatched) == 1 else None
    nvml = by_nvml.more if by_nvml else None
    mig = _nvml(nvml, "mig", bool)
    # In MIG mode libcuda describes an instance, not the GPU.
    full_gpu = None if mig.value or (cuda and _MIG_NAME.search(cuda.name or "")) else cuda
    fault = None if nvml is None or _refused(nvml) else nvml.get("fault", int)
    sources = (("nvml", by_nvml), ("libcuda", cuda), ("/proc/driver/nvidia/gpus", kernel), ("nvidia-smi", smi))
    full_sources = (sources[0], ("libcuda", full_gpu), *sources[2:])
    capabilities = [
        parse_answer(ComputeCapability.parse, gpu.compute_capability, source) for source, gpu in sources if gpu
    ]
    totals = [answer(source, gpu.memory_total) for source, gpu in full_sources if gpu]
    return Gpu(
        index=settle([answer(source, gpu.number) for source, gpu in (sources[0], sources[3]) if gpu], NO_SOURCE),
        ordinal=known(cuda.number or 0, "libcuda") if cuda else missing("this process does not see the GPU"),
        hidden_by=hidden_by(raw, nvml, cuda),
        uuid=settle(_texts("uuid", full_sources), NO_SOURCE),
        pci=settle(_texts("pci", sources), NO_SOURCE),
        name=settle(_texts("name", full_sources), NO_SOURCE),
        compute_capability=settle(capabilities, "neither NVML nor libcuda reported it"),
        architecture=_architecture(by_nvml, cuda),
        brand=_named(nvml, "brand", BRANDS, "nvmlDeviceGetBrand"),
        memory_total=settle(totals, _missing_reason(nvml, "memory_total")),
        memory_free=_nvml(nvml, "memory_free", int),
        mig=mig,
        mig_pending=_nvml(nvml, "mig_pending", bool),
        mig_instances=nvml.all("mig_instances", MigInstance) if nvml else (),
        fault=missing("NVML opened the GPU") if fault is None else known(fault, "nvml"),
        compute_mode=_named(nvml, "compute_mode", _COMPUTE_MODES, "nvmlDeviceGetComputeMode"),
        persistence=_nvml(nvml, "persistence", bool),
        processes=_nvml(nvml, "processes", int),
        users=nvml.all("users", GpuUser) if nvml else (),
        virtualization=_named(nvml, "virtualization", _VIRTUALIZATIONS, "nvmlDeviceGetVirtualizationMode"),
        licensed=_nvml(nvml, "licensed", bool),
        health=_health(nvml) if nvml else GpuHealth(),
        pcie=_pcie(nvml) if nvml else PcieLink(),
        nvlinks=_nvlinks(nvml),
        nvlink_count=_nvml(nvml, "nvlink_count", int),
        fabric=_fabric(nvml),
        peers=_peers(nvml),
    )


def _find_same(entry: ListedGpu, others: Sequence[ListedGpu]) -> ListedGpu | None:
    """The entry of the same GPU in another source's list."""
    for other in others:
        if other is entry:
            return other
    uuid, pci = uuid_key(entry.uuid), pci_key(entry.pci)
    for other in others:
        if (uuid and uuid_key(other.uuid) == uuid) or (pci and pci_key(other.pci) == pci):
            return other
    return None


def _texts(field: str, sources: Iterable[tuple[str, ListedGpu | None]]) -> list[Answer[str] | None]:
    """A field of every source, in a common spelling."""
    found = []
    for source, gpu in sources:
        text = getattr(gpu, field) if gpu else None
        if text is not None and field == "pci":
            text = pci_key(text) or text
        if text is not None and field == "uuid" and not text.startswith(("GPU-", "MIG-")):
            text = f"GPU-{text}"
        found.append(answer(source, text))
    return found


def _architecture(nvml: ListedGpu | None, cuda: ListedGpu | None) -> Reading[str]:
    """The generation: by NVML, else by the compute capability."""
    number = nvml.more.get("architecture", int) if nvml else None
    answers = [
        answer("nvml", ARCHITECTURES.get(-1 if number is None else number)),
        answer("libcuda's compute capability", generation_of(cuda.compute_capability if cuda else None)),
        answer("nvml's compute capability", generation_of(nvml.compute_capability if nvml else None)),
    ]
    if number is not None and number not in ARCHITECTURES:
        return settle(answers, f"nvmlDeviceGetArchitecture returned {number}, which has no name")
    return settle(answers, _missing_reason(nvml.more if nvml else None, "architecture"))


# Readings of NVML alone, or the reason why one is missing: its return code, or an invalid answer


def _nvml(gpu: Raw | None, name: str, kind: type[T]) -> Reading[T]:
    value = gpu.get(name, kind) if gpu else None
    return missing(_missing_reason(gpu, name)) if value is None else known(value, "nvml")


def _named(gpu: Raw | None, name: str, names: Sequence[T], function: str) -> Reading[T]:
    """The name of an enumeration value that NVML returned."""
    number = _nvml(gpu, name, int)
    if number.value is None:
        return missing(number.reason or _NOT_QUERIED)
    if not 0 <= number.value < len(names):
        return missing(f"{function} returned {number.value}, which has no name")
    return known(names[number.value], "nvml")


def _missing_reason(raw: Raw | None, name: str) -> str:
    """Why a fact of NVML's is missing."""
    return (raw and raw.part("why").text(name)) or _NOT_QUERIED


def _refused(gpu: Raw) -> bool:
    """Whether this process may not use a GPU that NVML counts, such as under a job's control group."""
    return gpu.get("fault", int) == Nvml.NO_PERMISSION


def _health(gpu: Raw) -> GpuHealth:
    """Memory errors, heat, power and clock."""
    readings: dict[str, Reading[Any]] = {name: _nvml(gpu, name, kind) for name, kind in _HEALTH.items()}
    # The sum of both causes, if NVML reports both and the sum is plausible.
    single, double = _nvml(gpu, "pages_single", int), _nvml(gpu, "pages_double", int)
    pages: Reading[int] = missing((single.reason if single.value is None else double.reason) or _NOT_QUERIED)
    if single.value is not None and double.value is not None and single.value + double.value <= MAX_INTEGER:
        pages = known(single.value + double.value, "nvml")
    mask = _nvml(gpu, "throttle_reasons", int)
    throttle = missing(mask.reason or _NOT_QUERIED) if mask.value is None else known(clock_reasons(mask.value), "nvml")
    return GpuHealth(**readings, pages_retired=pages, throttle_reasons=throttle)


def clock_reasons(mask: object) -> tuple[str, ...]:
    """The reasons for a lower clock in NVML's mask; one without a name keeps its bit number."""
    number = mask if isinstance(mask, int) else 0
    bits = [bit for bit in range(number.bit_length()) if number >> bit & 1]
    return tuple(REASONS[bit] if bit < len(REASONS) else f"bit-{bit}" for bit in bits)


def _pcie(gpu: Raw) -> PcieLink:
    """The current and the maximum PCIe link."""
    names = ("generation", "generation_most", "width", "width_most")
    return PcieLink(**{name: _nvml(gpu, f"pcie_{name}", int) for name in names})


def _nvlinks(gpu: Raw | None) -> tuple[NvLink, ...]:
    """The state of each NVLink of the GPU."""
    pairs = gpu.all("nvlinks", tuple[int, ...]) if gpu else ()
    return tuple(NvLink(pair[0], bool(pair[1])) for pair in pairs if len(pair) == _STATE_AND_STATUS)


def _fabric(gpu: Raw | None) -> Fabric:
    """The state in an NVSwitch fabric; an incomplete registration has no status."""
    values = gpu.all("fabric", int) if gpu else ()
    if len(values) != _STATE_AND_STATUS:
        reason = _missing_reason(gpu, "fabric")
        return Fabric(missing(reason), missing(reason))
    state, status = values
    if not 0 <= state < len(STATES):
        reason = f"the state of the fabric is {state}, which has no name"
        return Fabric(missing(reason), missing(reason))
    if state != _COMPLETED:
        return Fabric(known(STATES[state], "nvml"), missing("the registration is not complete"))
    return Fabric(known(STATES[state], "nvml"), known(status, "nvml"))


def _peers(gpu: Raw | None) -> tuple[PeerAccess, ...]:
    """Every other GPU to which NVML knows the distance; unknown enumeration values are dropped."""
    found = []
    for entry in gpu.all("peers", tuple[int | None, ...]) if gpu else ():
        index, distance, read = entry if len(entry) == _PEER else (None, None, None)
        if index is not None:
            status = READS[read] if read is not None and 0 <= read < len(READS) else None
            found.append(PeerAccess(index, CONNECTIONS.get(-1 if distance is None else distance), status))
    return tuple(found)


# The number of GPUs, and why this process does not see one


def count_gpus(raw: RawFacts) -> Reading[int]:
    """The number of GPUs that the driver offers this process, by each source."""
    counted = raw.nvml.get("count", int)
    usable = None if counted is None else counted - sum(_refused(gpu) for gpu in raw.nvml.parts("gpus"))
    reason = _missing_reason(raw.nvml, "count")
    return settle(
        [
            answer("nvml", usable),
            answer("/proc/driver/nvidia/gpus", len(raw.kernel.parts("driver_gpus")) or None),
            answer("nvidia-smi", None if raw.smi.gpus is None else len(raw.smi.gpus)),
        ],
        NO_SOURCE if reason == _NOT_QUERIED else reason,
    )


def count_visible(raw: RawFacts) -> Reading[int]:
    """The number of CUDA devices that this process sees."""
    count = raw.cuda.get("count", int)
    if count is None and raw.cuda.get("init", int) == Cuda.NO_DEVICE:
        count = 0
    if count is not None:
        return known(count, "libcuda")
    return missing(raw.cuda.text("absent") or raw.cuda.text("init_name") or "libcuda did not report it")


def hidden_by(raw: RawFacts, nvml: Raw | None, cuda: ListedGpu | None) -> Reading[str]:
    """The variable, mode or control group that hides a GPU; missing, with the reason, if the GPU is visible.

    The kernel's restrictions come first: no variable can lift them.
    """
    if cuda is not None or nvml is None:
        return missing("NVML does not list the GPU" if cuda is None else "this process sees the GPU")
    if _refused(nvml):
        return known(f"{CONTROL_GROUP}: NVML counts the GPU and has no permission to open it", "nvml")
    closed = _closed_node(raw, nvml)
    if closed is not None:
        return known(closed, "/dev")
    if raw.cuda.get("count", int) is None and raw.cuda.get("init", int) != Cuda.NO_DEVICE:
        return missing("libcuda did not report which GPUs this process sees")
    if nvml.get("fault", int) is not None:
        return missing("NVML cannot open the GPU either")
    reason = "no reason was found why this process does not see the GPU"
    return _hidden_by_mode(raw, nvml) or missing(reason)


def _hidden_by_mode(raw: RawFacts, nvml: Raw) -> Reading[str] | None:
    """The variable or mode that hides a GPU which the kernel and NVML allow this process to use."""
    if nvml.get("mig", bool) and not nvml.all("mig_instances", MigInstance):
        return known("MIG mode: it is on, and there is no instance", "nvml")
    value = raw.environment.get(_VISIBLE_DEVICES)
    effect = None if value is None else _effect(value, raw, nvml)
    if effect is not None:
        return known(effect, _VISIBLE_DEVICES)
    instances = {uuid_key(uuid) for gpu in raw.nvml.parts("gpus") for uuid in _instances(gpu)}
    if any(uuid_key(device.text("uuid")) in instances for device in raw.cuda.parts("devices")):
        return known("MIG mode: a process that sees a MIG instance sees no other device", "libcuda")
    # Checked last, since libcuda lists such a GPU.
    if nvml.get("compute_mode", int) == list(ComputeMode).index(ComputeMode.PROHIBITED):
        return known("compute mode: prohibited", "nvml")
    return None


def _closed_node(raw: RawFacts, nvml: Raw) -> str | None:
    """Why the GPU's device node is unusable: missing while others exist, or not accessible to this user."""
    nodes = {node.path: node for node in raw.kernel.all("device_nodes", DeviceNode)}
    minor = nvml.get("minor", int)
    if minor is None or "/dev/nvidiactl" not in nodes:
        return None
    path = f"/dev/nvidia{minor}"
    node = nodes.get(path)
    if node is None:
        return f"{DEVICE_NODE}: {path} does not exist"
    return None if node.accessible else f"{PERMISSION}: {path} has mode {node.mode} and belongs to {node.owner}"


def _instances(gpu: Raw) -> list[str]:
    return [instance.uuid for instance in gpu.all("mig_instances", MigInstance)]


def _effect(value: str, raw: RawFacts, nvml: Raw) -> str | None:
    """How CUDA_VISIBLE_DEVICES hides a GPU; None if it does not."""
    gpus = raw.nvml.parts("gpus")
    counted = [gpu for gpu in gpus if not _refused(gpu) and _closed_node(raw, gpu) is None]
    uuids = [gpu.text("uuid") or "" for gpu in counted]
    uuids += [uuid for gpu in counted for uuid in _instances(gpu)]
    found = parse_visible(value, len(counted), uuids)
    setting = f"{_VISIBLE_DEVICES}={value or '(empty)'}"
    if found.twice is not None:
        return f"{setting} names {found.twice} twice, after which CUDA shows no GPU"
    if found.invalid is not None and value:
        return f"{setting} ends at {found.invalid or '(nothing)'}, which names no GPU or MIG instance"
    selected = {uuid_key(entry.removeprefix("MIG-").partition("/")[0]) for entry in found.entries}
    identities = {uuid_key(nvml.text("uuid")), *map(uuid_key, _instances(nvml))}
    if len(found.entries) >= len(counted) or identities & selected:
        return None
    return f"{setting} does not name it"
