"""Synthetic devices, GPU tests and results."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.model.reading import known, missing
from gpuenv.model.smoke import (
    Quantity,
    SmokeResult,
    TestedGpu,
    TestResult,
    TestStatus,
    overall,
)
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.model.snapshot import Gpu
from gpuenv.model.versions import ComputeCapability
from gpuenv.smoke.device_selection import Device

A, B = "GPU-aaaaaaaa-1111-1111-1111-111111111111", "GPU-bbbbbbbb-2222-2222-2222-222222222222"


M1, M2 = "MIG-cccccccc-3333-3333-3333-333333333333", "MIG-dddddddd-4444-4444-4444-444444444444"


GIB = 1 << 30


def gpu(uuid: str, index: int, *, ordinal: int | None = 0, **fields: object) -> Gpu:
    base = Gpu(
        index=known(index, "nvml"),
        ordinal=known(ordinal, "libcuda") if ordinal is not None else missing("this process does not see the GPU"),
        uuid=known(uuid, "nvml"),
        pci=known(f"00000000:{17 + index}:00.0", "nvml"),
        name=known("NVIDIA H100", "nvml"),
        compute_capability=known(ComputeCapability(9, 0), "nvml"),
        memory_total=known(80 * GIB, "nvml"),
    )
    return base._replace(**fields)  # type: ignore[arg-type]


def device(uuid: str, **fields: object) -> Device:
    return replace(Device(uuid, uuid, "NVIDIA H100", "9.0", 80 * GIB, 0), **fields)  # type: ignore[arg-type]


def test(name: str, uuid: str, **measured: float) -> TestResult:
    group, _, name_in_group = name.partition(".")
    quantities = {key: Quantity(value, {"time": "s", "share": "1"}.get(key, "B/s")) for key, value in measured.items()}
    return TestResult(f"{group}.{name_in_group}", group, uuid, TestStatus.PASSED, 1.0, measured=quantities)


test.__test__ = False  # type: ignore[attr-defined]  # not collected by pytest


def result(*tests: TestResult, **fields: object) -> SmokeResult:
    gpus = tuple(
        TestedGpu(uuid, "NVIDIA H100", "9.0", 80 * GIB) for uuid in dict.fromkeys(t.gpu for t in tests) if uuid
    )
    base = SmokeResult(overall(tests), 0, SmokeLevel.NORMAL, 1, gpus, tests, 12.0, 60.0)
    return base._replace(**fields)  # type: ignore[arg-type]
