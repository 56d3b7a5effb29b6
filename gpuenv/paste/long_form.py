"""What ``nvidia-smi -q`` says of a GPU, at length or as XML: which line or element has which fact. Pure.

A value stands in a section and has a name there: in the text the heading above it and what stands before the colon, in
XML the element around it and its own. The manual page of nvidia-smi has the words; those of each age were read in
outputs of 340 to 610.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuenv.model.gpu import GpuUser, Virtualization
from gpuenv.model.numbers import whole_number
from gpuenv.model.pattern import pattern
from gpuenv.paste.records import PastedGpu
from gpuenv.paste.tables import mebibytes

Key = tuple[str, str]

LINE = pattern(r"([A-Z][\w .()/-]*?)\s+: (.+)$")
HEADING = pattern(r"[A-Za-z][\w /()-]*$")
_PARTS = ("Volatile", "Aggregate")
_KINDS = ("Single Bit", "Double Bit")  # of errors, up to R440: headings in one of those parts
_NOTHING = ("", "N/A", "ERR!", "Unknown Error", "GPU is lost", "GPU requires reset", "Not Found")
_UNSAID = ("[", "Requested functionality")

_NAMES = {
    "Product Name": "name",
    "product_name": "name",
    "GPU UUID": "uuid",
    "uuid": "uuid",
    "Compute Mode": "compute_mode",
    "compute_mode": "compute_mode",
}
_MIG = {("MIG Mode", "Current"), ("mig_mode", "current_mig")}
_MEMORY = {
    ("FB Memory Usage", "Total"): "memory_total",
    ("FB Memory Usage", "Used"): "memory_used",
    ("fb_memory_usage", "total"): "memory_total",
    ("fb_memory_usage", "used"): "memory_used",
}
_PERSISTENCE = ("Persistence Mode", "persistence_mode")
_VIRTUALIZATION = ("Virtualization Mode", "Virtualization mode", "virtualization_mode")
_VIRTUALIZATIONS = {
    "None": Virtualization.NONE,
    "Pass-Through": Virtualization.PASSTHROUGH,
    "VGPU": Virtualization.VGPU,
    "Host VGPU": Virtualization.HOST_VGPU,
    "Host VSGA": Virtualization.HOST_VSGA,
}
_FABRIC = {("Fabric", "State"), ("fabric", "state")}
_FABRICS = {"Not Supported": "not-supported", "Not Started": "not-started", "In Progress": "in-progress"}
_FABRICS["Completed"] = "completed"
# Health: whether something is so.
_TRUTHS = {
    ("ECC Mode", "Current"): "ecc",
    ("Ecc Mode", "Current"): "ecc",
    ("ecc_mode", "current_ecc"): "ecc",
    ("ECC Mode", "Pending"): "ecc_pending",
    ("Ecc Mode", "Pending"): "ecc_pending",
    ("ecc_mode", "pending_ecc"): "ecc_pending",
    ("Retired Pages", "Pending Page Blacklist"): "pages_pending",
    ("Retired Pages", "Pending"): "pages_pending",
    ("retired_pages", "pending_blacklist"): "pages_pending",
    ("retired_pages", "pending_retirement"): "pages_pending",
    ("Remapped Rows", "Pending"): "rows_pending",
    ("remapped_rows", "remapped_row_pending"): "rows_pending",
    ("Remapped Rows", "Remapping Failure Occurred"): "rows_failed",
    ("remapped_rows", "remapped_row_failure"): "rows_failed",
}
_IS = {"Enabled": True, "Yes": True, "Disabled": False, "No": False}
# Health: a number, with its unit or without.
_NUMBERS = {
    ("Remapped Rows", "Correctable Error"): "rows_corrected",
    ("remapped_rows", "remapped_row_corr"): "rows_corrected",
    ("Remapped Rows", "Uncorrectable Error"): "rows_uncorrected",
    ("remapped_rows", "remapped_row_unc"): "rows_uncorrected",
    ("Temperature", "GPU Current Temp"): "temperature",
    ("temperature", "gpu_temp"): "temperature",
    ("Clocks", "SM"): "clock",
    ("clocks", "sm_clock"): "clock",
    ("Max Clocks", "SM"): "clock_most",
    ("max_clocks", "sm_clock"): "clock_most",
}
# Uncorrected errors since the driver was loaded: the parts of the sum, of which the last tells that it is whole.
_UNCORRECTED = {
    ("Volatile", "SRAM Uncorrectable"): False,
    ("Volatile", "SRAM Uncorrectable Parity"): False,
    ("Volatile", "SRAM Uncorrectable SEC-DED"): False,
    ("Volatile", "DRAM Uncorrectable"): True,
    ("Volatile/Double Bit", "Total"): True,
    ("volatile", "sram_uncorrectable"): False,
    ("volatile", "sram_uncorrectable_parity"): False,
    ("volatile", "sram_uncorrectable_secded"): False,
    ("volatile", "dram_uncorrectable"): True,
    ("volatile/double_bit", "total"): True,
}
_REASONS = {
    **dict.fromkeys(("Idle", "gpu_idle"), "gpu-idle"),
    **dict.fromkeys(("Applications Clocks Setting", "applications_clocks_setting"), "application-clocks"),
    **dict.fromkeys(("SW Power Cap", "sw_power_cap"), "software-power-cap"),
    **dict.fromkeys(("HW Slowdown", "hw_slowdown"), "hardware-slowdown"),
    **dict.fromkeys(("Sync Boost", "sync_boost"), "sync-boost"),
    **dict.fromkeys(("SW Thermal Slowdown", "sw_thermal_slowdown"), "software-thermal"),
    **dict.fromkeys(("HW Thermal Slowdown", "hw_thermal_slowdown"), "hardware-thermal"),
    **dict.fromkeys(("HW Power Brake Slowdown", "hw_power_brake_slowdown"), "hardware-power-brake"),
    **dict.fromkeys(("Display Clock Setting", "display_clocks_setting"), "display-clock"),
}
_OF_REASONS = (
    *("Clocks Throttle Reasons", "clocks_throttle_reasons", "Clocks Event Reasons", "clocks_event_reasons"),
    "HW Slowdown",  # the two below it are indented by it
)
_REASON = pattern(r"clocks_(?:throttle|event)_reason_(\w+)$")
_PID, _KIND = ("Process ID", "pid"), ("Type", "type")
_PROGRAM, _HELD = ("Name", "process_name"), ("Used GPU Memory", "used_memory")
_LONGEST = 40  # of a program's name
_MOST = 500  # processes of a GPU


def section_of(path: tuple[str, ...]) -> str:
    """The section of an element, which a part of memory errors has in common with its neighbour."""
    return "/".join(path[-3:-1]) if path[-3:-2] == ("volatile",) else (path[-2:-1] or ("",))[0]


def section_below(former: str, heading: str) -> str:
    """The section that a heading begins; single and double bits belong to the part of the errors above them."""
    part = former.partition("/")[0]
    return f"{part}/{heading}" if heading in _KINDS and part in _PARTS else heading


def values_of(gpu: PastedGpu, key: Key, value: str) -> dict[str, object]:
    """What a line or an element adds to what is known of its GPU; nothing where it says nothing."""
    section = key[0]
    # A vGPU's licence has a product's name too.
    if value in _NOTHING or value.startswith(_UNSAID) or section.endswith(("Licensed Product", "licensed_product")):
        return {}
    return _of_itself(key, value) or _of_state(gpu, key, value) or _of_processes(gpu, key, value)


def _of_itself(key: Key, value: str) -> dict[str, object]:
    if key[1] in _NAMES:
        return {_NAMES[key[1]]: value}
    if key in _MIG:
        return {"mig": _IS.get(value)}
    return {_MEMORY[key]: mebibytes(value)} if key in _MEMORY else {}


def _of_state(gpu: PastedGpu, key: Key, value: str) -> dict[str, object]:
    name = key[1]
    if name in _PERSISTENCE:
        return {"persistence": _IS.get(value)}
    if name in _VIRTUALIZATION:
        return {"virtualization": _VIRTUALIZATIONS.get(value)}
    if key in _FABRIC:
        return {"fabric": _FABRICS.get(value)}
    told = _of_health(gpu.health, key, value)
    return {"health": {**gpu.health, **told}} if told else {}


def _of_health(health: Mapping[str, object], key: Key, value: str) -> dict[str, object]:
    section, name = key
    if key in _TRUTHS and value in _IS:
        return {_TRUTHS[key]: _IS[value] or (_TRUTHS[key] == "pages_pending" and bool(health.get("pages_pending")))}
    number = whole_number(value.split(maxsplit=1)[0])
    if key in _NUMBERS and number is not None:
        return {_NUMBERS[key]: number}
    if key in _UNCORRECTED and number is not None:
        return _sum(health, number, whole=_UNCORRECTED[key])
    if section in _OF_REASONS and value == "Active":
        told = _REASON.match(name)
        reason = _REASONS.get(told[1] if told else name)
        former = health.get("throttle_reasons") or ()
        return (
            {"throttle_reasons": (*former, reason)}
            if reason and isinstance(former, tuple) and reason not in former
            else {}
        )
    return {}


def _sum(health: Mapping[str, object], number: int, *, whole: bool) -> dict[str, object]:
    """The errors up to here; none at all is only said where every part of the memory has told its number."""
    former = health.get("ecc_uncorrected")
    total = number + (former if isinstance(former, int) else 0)
    return {"ecc_uncorrected": total} if total or whole else {}


def _of_processes(gpu: PastedGpu, key: Key, value: str) -> dict[str, object]:
    """The processes that compute; those that draw are not counted."""
    name, users = key[1], gpu.users or ()
    pid = whole_number(value) if name in _PID else None
    if pid is not None:
        return {"process": pid, "users": users}
    if name in ("Processes", "processes") and value == "None":
        return {"users": ()}
    if gpu.process is not None and name in _KIND and "C" in value and len(users) < _MOST:
        return {"users": (*users, GpuUser(gpu.process))}
    more = _of_a_user(name, value) if users and users[-1].pid == gpu.process else {}
    return {"users": (*users[:-1], replace(users[-1], **more))} if more else {}  # type: ignore[arg-type]


def _of_a_user(name: str, value: str) -> dict[str, object]:
    if name in _PROGRAM:
        return {"name": _program(value)}
    return {"memory": mebibytes(value)} if name in _HELD else {}


def _program(told: str) -> str | None:
    """The program's file, without its folders and its arguments, which may name anybody."""
    if told.startswith("[") or "Insufficient Permissions" in told:
        return None
    first = told if "\\" in told else told.split(maxsplit=1)[0]
    return first.replace("\\", "/").rpartition("/")[2][:_LONGEST]
