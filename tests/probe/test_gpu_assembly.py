"""Merging the GPUs of several sources: identity, precedence and number."""

from __future__ import annotations

from typing import Any

import pytest

from gpuenv.model.snapshot import MigInstance
from gpuenv.probe.assembly import assemble
from gpuenv.probe.raw import ListedGpu, RawFacts, SmiFacts
from tests.probe.raw_facts import (
    MIB,
    MIG,
    ONE,
    TWO,
    CudaDevice,
    CudaFacts,
    DriverGpu,
    KernelFacts,
    NvmlFacts,
    NvmlGpu,
    gpus_of,
    nvml_gpu,
    value_and_source,
)


@pytest.mark.parametrize(
    ("nvml", "others", "canonical"),
    [
        ("00000000:3A:00.0", "0000:3a:00.0", "0000:3a:00.0"),
        ("0000:3a:00.0", "00000000:3A:00.0", "0000:3a:00.0"),
        ("00000008:01:00.0", "0008:01:00.0", "0008:01:00.0"),
        ("000052CE:00:00.0", "52ce:00:00.0", "52ce:00:00.0"),
        ("0000:3A:00.0", "3a:00.0", "0000:3a:00.0"),
    ],
)
def test_spellings_of_an_address_and_a_uuid_denote_one_gpu(nvml: str, others: str, canonical: str) -> None:
    (gpu,) = gpus_of(
        nvml=NvmlFacts(gpus=(nvml_gpu(0, ONE, nvml),)),
        cuda=CudaFacts(devices=(CudaDevice(0, "NVIDIA H200", others, ONE.removeprefix("GPU-"), "9.0"),)),
        kernel=KernelFacts(driver_gpus=(DriverGpu("NVIDIA H200", ONE, others),)),
        smi=SmiFacts(gpus=(ListedGpu(0, ONE, "NVIDIA H200", nvml),)),
    )
    assert gpu.pci.value == canonical
    assert gpu.uuid.value == ONE
    for reading in (gpu.pci, gpu.uuid, gpu.name):
        assert len(reading.others) == 3
        assert reading.dissent == ()
    assert gpu.compute_capability.dissent == ()
    assert len(gpu.compute_capability.others) == 1


def test_addresses_in_different_domains_are_two_gpus() -> None:
    gpus = gpus_of(
        nvml=NvmlFacts(gpus=(nvml_gpu(0, ONE, "00000008:01:00.0"), nvml_gpu(1, TWO, "00000009:01:00.0"))),
        cuda=CudaFacts(devices=(CudaDevice(0, pci="0009:01:00.0"), CudaDevice(1, pci="0008:01:00.0"))),
    )
    assert [gpu.ordinal.value for gpu in gpus] == [1, 0]


def test_the_index_and_the_ordinal_of_a_gpu_are_distinct() -> None:
    """CUDA orders by speed, NVML by address; a third GPU is hidden from this process."""
    gpus = gpus_of(
        nvml=NvmlFacts(
            gpus=(
                nvml_gpu(0, ONE, "00000000:17:00.0"),
                nvml_gpu(1, TWO, "00000000:3A:00.0"),
                nvml_gpu(2, ONE.replace("eaf", "abc"), "00000000:5D:00.0"),
            )
        ),
        cuda=CudaFacts(devices=(CudaDevice(0, uuid=TWO.removeprefix("GPU-")), CudaDevice(1, uuid=ONE[4:].upper()))),
    )
    assert [(gpu.index.value, gpu.ordinal.value) for gpu in gpus] == [(0, 1), (1, 0), (2, None)]
    assert gpus[2].ordinal.reason


def test_a_gpu_keeps_the_differing_names_of_all_sources() -> None:
    (gpu,) = gpus_of(
        nvml=NvmlFacts(gpus=(nvml_gpu(0, ONE, "00000000:3A:00.0"),)),
        smi=SmiFacts(gpus=(ListedGpu(0, ONE, "GeForce GTX 1050", "00000000:3A:00.0"),)),
    )
    assert value_and_source(gpu.name) == ("NVIDIA H200", "nvml")
    assert [(answer.value, answer.source) for answer in gpu.name.dissent] == [("GeForce GTX 1050", "nvidia-smi")]


def test_the_list_of_the_most_trusted_source_counts() -> None:
    lists: dict[str, Any] = {
        "nvml": NvmlFacts(gpus=(NvmlGpu(0, name="by NVML"),)),
        "cuda": CudaFacts(devices=(CudaDevice(0, name="by libcuda"),)),
        "kernel": KernelFacts(driver_gpus=(DriverGpu("by the kernel"),)),
        "smi": SmiFacts(gpus=(ListedGpu(0, name="by nvidia-smi"),)),
    }
    names = []
    while lists:
        names.append([gpu.name.value for gpu in gpus_of(**lists)])
        lists.pop(next(iter(lists)))
    assert names == [["by NVML"], ["by libcuda"], ["by the kernel"], ["by nvidia-smi"]]
    assert gpus_of() == ()


def test_gpus_without_address_and_uuid_are_not_merged() -> None:
    assert len(gpus_of(nvml=NvmlFacts(gpus=(NvmlGpu(0), NvmlGpu(1))))) == 2


def test_a_mig_instance_is_not_a_gpu_and_contributes_no_facts() -> None:
    nvml_entry = NvmlGpu(
        0,
        ONE,
        "NVIDIA A100-SXM4-40GB",
        "00000000:41:00.0",
        compute_capability="8.0",
        memory_total=40960 * MIB,
        mig=True,
        mig_instances=tuple(MigInstance(uuid, "NVIDIA A100 MIG 1g.5gb", 4864 * MIB) for uuid in MIG),
    )
    (gpu,) = gpus_of(
        nvml=NvmlFacts(gpus=(nvml_entry,)),
        cuda=CudaFacts(
            devices=tuple(
                CudaDevice(number, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "0000:41:00.0", uuid[4:], "8.0", 4864 * MIB)
                for number, uuid in enumerate(MIG)
            )
        ),
    )
    assert gpu.mig.value is True
    assert [instance.uuid for instance in gpu.mig_instances] == list(MIG)
    assert gpu.ordinal.value == 0
    for reading in (gpu.uuid, gpu.name, gpu.memory_total):
        assert reading.dissent == ()
    assert gpu.memory_total.value == 40960 * MIB


def test_mig_instances_that_only_libcuda_lists_are_one_gpu() -> None:
    gpus = gpus_of(
        cuda=CudaFacts(devices=tuple(CudaDevice(n, pci="0000:41:00.0", uuid=uuid[4:]) for n, uuid in enumerate(MIG)))
    )
    assert len(gpus) == 1


def test_the_uuid_of_a_mig_instance_is_not_that_of_its_gpu() -> None:
    """Such as in a container with only the compute driver capability, which lacks NVML."""
    device = CudaDevice(0, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "0000:41:00.0", MIG[0][4:], "8.0", 4864 * MIB)
    (gpu,) = gpus_of(cuda=CudaFacts(devices=(device,)))
    assert gpu.uuid.value != f"GPU-{MIG[0][4:]}"


def test_an_unreported_mig_mode_is_unknown_not_off() -> None:
    unknown, off = gpus_of(
        nvml=NvmlFacts(gpus=(nvml_gpu(0, ONE, "0000:17:00.0"), nvml_gpu(1, TWO, "0000:3a:00.0", mig=False)))
    )
    assert unknown.mig.value is None
    assert unknown.mig.reason
    assert off.mig.value is False


def test_a_gpu_that_nvml_cannot_open_keeps_its_return_code() -> None:
    working, lost = gpus_of(nvml=NvmlFacts(gpus=(nvml_gpu(0, ONE, "0000:17:00.0"), NvmlGpu(1, fault=15))))
    assert (lost.fault.value, lost.fault.source) == (15, "nvml")
    assert lost.index.value == 1
    assert working.fault.value is None


def test_a_failed_function_is_not_a_fault_of_the_gpu() -> None:
    why = {"memory_total": "nvmlDeviceGetMemoryInfo returned code 3"}
    (gpu,) = gpus_of(nvml=NvmlFacts(gpus=(NvmlGpu(0, ONE, why=why),)))
    assert gpu.fault.value is None
    assert (gpu.memory_total.value, gpu.memory_total.reason) == (None, why["memory_total"])


def test_every_source_reports_a_number_of_gpus() -> None:
    raw = RawFacts(
        nvml=NvmlFacts(count=8),
        kernel=KernelFacts(driver_gpus=(DriverGpu(), DriverGpu())),
        smi=SmiFacts(gpus=(ListedGpu(0),)),
    )
    count = assemble(raw, None).gpu_count
    assert (count.value, count.source) == (8, "nvml")
    assert [answer.value for answer in count.dissent] == [2, 1]


def test_the_number_of_gpus_is_unknown_without_a_source() -> None:
    count = assemble(RawFacts(), None).gpu_count
    assert count.value is None
    assert count.others == ()


def test_a_source_may_report_zero_gpus() -> None:
    count = assemble(RawFacts(nvml=NvmlFacts(count=0), smi=SmiFacts(gpus=())), None).gpu_count
    assert count.value == 0
    assert [answer.value for answer in count.others] == [0]


@pytest.mark.parametrize(
    ("cuda", "visible", "reason"),
    [
        (CudaFacts(init=0, count=2), 2, None),
        (CudaFacts(init=0, count=0), 0, None),
        (CudaFacts(init=100, init_name="CUDA_ERROR_NO_DEVICE"), 0, None),
        (CudaFacts(init=999, init_name="CUDA_ERROR_UNKNOWN"), None, "CUDA_ERROR_UNKNOWN"),
        (CudaFacts(absent="libcuda.so.1: cannot open"), None, "libcuda.so.1: cannot open"),
        (CudaFacts(), None, "libcuda did not report it"),
    ],
)
def test_the_number_of_visible_gpus_follows_from_libcuda(
    cuda: CudaFacts, visible: int | None, reason: str | None
) -> None:
    count = assemble(RawFacts(cuda=cuda), None).visible_count
    assert (count.value, count.reason) == (visible, reason)
