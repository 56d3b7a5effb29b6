"""Raw facts in, settled readings out: who is believed, what is kept beside it, and what is no answer at all. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuenv.model.codec import decode, encode
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import Gpu, Module, Snapshot, Source, SourceState
from gpuenv.probe.assemble import assemble
from gpuenv.probe.raw import CudaDevice, CudaFacts, NvmlFacts, NvmlGpu, RawFacts, RawMigInstance, SmiFacts, SmiGpu
from gpuenv.probe.raw_kernel import DriverGpu, KernelFacts, KernelModules, RawToolkit, Uname
from gpuenv.probe.raw_target import Distribution, LibraryFact, LibraryFacts, TargetFacts

MIB = 1024 * 1024
ONE, TWO = "GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584", "GPU-48aeb943-9458-4282-da24-e5f49e0db44b"
MIG = ("MIG-fb42055e-9e53-5764-9278-438605a3014c", "MIG-3d4db13e-c42d-5555-98f4-8b50389791bc")

# First lines of /proc/driver/nvidia/version as published: driver version and kind of module.
PROC_VERSIONS = {
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.161.03  Wed Oct 19 00:10:36 UTC 2022": (
        "470.161.03",
        "proprietary",
    ),
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  545.29.06  Thu Nov 16 01:59:08 UTC 2023": (
        "545.29.06",
        "proprietary",
    ),
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  545.36  Mon Nov  6 23:49:37 UTC 2023": ("545.36", "proprietary"),
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  "
    "(dvs-builder@U16-A24-23-2)  Tue Mar  5 22:15:33 UTC 2024": ("550.54.15", "open"),
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.169  Release Build  "
    "(dvs-builder@U22-I3-AE18-31-4)  Thu Jun 12 19:38:21 UTC 2025": ("570.169", "open"),
    "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.126.09  Release Build  "
    "(dvs-builder@U22-I3-AF04-07-5)  Wed Jan  7 22:35:57 UTC 2026": ("580.126.09", "open"),
    "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build  "
    "(buildbrain@mobile-u64-6336-d8000)  Tue Jan  7 17:35:12 PST 2025\n"
    "GCC version:  collect2: error: ld returned 1 exit status": ("540.4.0", "open"),
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.71.05  Release Build  "
    "(daniel@Cafetera)  dom 31 may 2026 19:42:58 CEST\n"
    "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04.1)": ("595.71.05", "open"),
}
PROPRIETARY = next(iter(PROC_VERSIONS))


def gpus_of(**sources: Any) -> tuple[Gpu, ...]:  # noqa: ANN401 - fields of RawFacts
    return assemble(RawFacts(**sources), None).gpus


def said(reading: Reading[Any]) -> tuple[str, str | None]:
    return str(reading.value), reading.source


def everybody() -> RawFacts:
    """A machine on which each source tells another version."""
    return RawFacts(
        kernel=KernelFacts(proc_version=PROPRIETARY, sys_version="470.2"),
        nvml=NvmlFacts(init=0, driver_version="470.3", cuda=11030),
        cuda=CudaFacts(init=0, cuda=11040),
        smi=SmiFacts(driver_version="470.4", cuda="11.2"),
    )


def test_the_driver_version_is_the_kernel_modules_then_nvmls_then_nvidia_smis() -> None:
    raw = everybody()
    seen = []
    for silenced in (
        {},
        {"kernel": KernelFacts(sys_version="470.2")},
        {"kernel": KernelFacts()},
        {"nvml": NvmlFacts()},
        {"smi": SmiFacts()},
    ):
        raw = replace(raw, **silenced)
        seen.append(said(assemble(raw, None).driver.version))
    assert seen == [
        ("470.161.03", "/proc/driver/nvidia/version"),
        ("470.2", "/sys/module/nvidia/version"),
        ("470.3", "nvml"),
        ("470.4", "nvidia-smi"),
        ("None", None),
    ]


def test_the_cuda_level_is_libcudas_then_nvmls_then_nvidia_smis() -> None:
    raw = everybody()
    seen = []
    for silenced in ({}, {"cuda": CudaFacts()}, {"nvml": NvmlFacts()}, {"smi": SmiFacts()}):
        raw = replace(raw, **silenced)
        seen.append(said(assemble(raw, None).driver.cuda))
    assert seen == [("11.4", "libcuda"), ("11.3", "nvml"), ("11.2", "nvidia-smi"), ("None", None)]


def test_what_the_others_said_is_kept_beside_the_value() -> None:
    driver = assemble(everybody(), None).driver
    assert [(str(answer.value), answer.source) for answer in driver.version.others] == [
        ("470.3", "nvml"),
        ("470.4", "nvidia-smi"),
    ]
    assert [str(answer.value) for answer in driver.cuda.dissent] == ["11.3", "11.2"]
    assert [str(answer.value) for answer in driver.module_version.dissent] == ["470.2"]


def test_sources_of_one_opinion_do_not_dissent() -> None:
    raw = RawFacts(
        kernel=KernelFacts(proc_version=PROPRIETARY, sys_version="470.161.03"),
        nvml=NvmlFacts(driver_version="470.161.03", cuda=11040),
        cuda=CudaFacts(cuda=11040),
        smi=SmiFacts(driver_version="470.161.03", cuda="11.4"),
    )
    driver = assemble(raw, None).driver
    for dissent in (driver.version.dissent, driver.cuda.dissent, driver.module_version.dissent):
        assert len(dissent) == 0
    assert len(driver.version.others) == 2


@pytest.mark.parametrize("junk", ["N/A", "", "Unknown", "[N/A]", "5.35", "535.x", "v535.104", "580 (open)", "9" * 40])
def test_a_driver_version_that_makes_no_sense_is_no_answer(junk: str) -> None:
    raw = RawFacts(
        kernel=KernelFacts(sys_version=junk), nvml=NvmlFacts(driver_version=junk), smi=SmiFacts(driver_version="535.1")
    )
    assert said(assemble(raw, None).driver.version) == ("535.1", "nvidia-smi")


@pytest.mark.parametrize("number", [0, -1, 999, 100_000, 2**31 - 1])
def test_a_cuda_number_that_no_driver_has_is_no_answer(number: int) -> None:
    raw = RawFacts(cuda=CudaFacts(cuda=number), nvml=NvmlFacts(cuda=number), smi=SmiFacts(cuda="N/A"))
    level = assemble(raw, None).driver.cuda
    assert level.value is None
    assert level.others == ()


def test_why_there_is_no_driver_is_what_each_source_of_it_said() -> None:
    raw = RawFacts(
        sources=(
            Source("kernel", SourceState.ANSWERED, "not to the point"),
            Source("nvml", SourceState.ABSENT, "libnvidia-ml.so.1: cannot open shared object file"),
            Source("libcuda", SourceState.CRASHED, "ended by SIGSEGV"),
            Source("nvidia-smi", SourceState.ABSENT),
        )
    )
    driver = assemble(raw, None).driver
    for reading in (driver.version, driver.cuda, driver.branch):
        assert reading.reason == (
            "nvml: libnvidia-ml.so.1: cannot open shared object file; libcuda: ended by SIGSEGV; nvidia-smi: absent"
        )


@pytest.mark.parametrize("text", PROC_VERSIONS)
def test_the_kernel_module_tells_its_version_and_its_kind(text: str) -> None:
    driver = assemble(RawFacts(kernel=KernelFacts(proc_version=text, modules=KernelModules())), None).driver
    version, flavor = PROC_VERSIONS[text]
    assert said(driver.module_version) == (version, "/proc/driver/nvidia/version")
    assert driver.flavor.value == flavor
    assert driver.branch.value == int(version.split(".")[0])
    assert driver.module.value is Module.LOADED


@pytest.mark.parametrize(
    ("loaded", "installed", "module"),
    [
        (True, True, Module.LOADED),
        (True, None, Module.LOADED),
        (False, True, Module.NOT_LOADED),
        (False, False, Module.NOT_INSTALLED),
        (False, None, None),
    ],
)
def test_the_state_of_the_module(loaded: bool, installed: bool | None, module: Module | None) -> None:  # noqa: FBT001 - a table
    modules = KernelModules(nvidia_loaded=loaded, module_installed=installed)
    reading = assemble(RawFacts(kernel=KernelFacts(modules=modules)), None).driver.module
    assert reading.value is module
    assert (reading.reason is None) == (module is not None)


@pytest.mark.parametrize(
    ("nvml", "cuda", "version"),
    [
        ("/usr/lib/libnvidia-ml.so.535.183.01", "/usr/lib/libcuda.so.535.183.01", "535.183.01"),
        (None, "/usr/lib/libcuda.so.550.54", "550.54"),
        (None, "/usr/local/cuda-12.4/compat/libcuda.so.550.54.15", None),
        ("/usr/lib/libnvidia-ml.so.535.183.01", None, None),
        (None, "/usr/lib/wsl/lib/libcuda.so.1.1", None),
        (None, "/usr/lib/x86_64-linux-gnu/libcuda.so.1", None),
    ],
)
def test_where_nobody_tells_the_driver_version_the_name_of_its_libcuda_does(
    nvml: str | None, cuda: str | None, version: str | None
) -> None:
    driver = assemble(RawFacts(nvml=NvmlFacts(library=nvml), cuda=CudaFacts(library=cuda)), None).driver
    assert (driver.version.value and str(driver.version.value)) == version


def test_a_told_version_is_believed_before_the_name_of_a_file() -> None:
    raw = RawFacts(
        nvml=NvmlFacts(driver_version="535.104.05", library="/usr/lib/libnvidia-ml.so.535.183.01"),
        cuda=CudaFacts(library="/usr/lib/libcuda.so.535.183.01"),
    )
    driver = assemble(raw, None).driver
    assert said(driver.version) == ("535.104.05", "nvml")
    assert str(driver.library_version.value) == "535.183.01"


def test_under_wsl_the_driver_is_that_of_windows() -> None:
    raw = RawFacts(
        kernel=KernelFacts(
            uname=Uname("linux", "6.6.87.2-microsoft-standard-WSL2", "x86_64"),
            wsl=True,
            container="none",
            modules=KernelModules(),
            pci_gpus=(),
        ),
        nvml=NvmlFacts(0, None, "/usr/lib/wsl/lib/libnvidia-ml.so.1", "560.94", 12060, 1),
        cuda=CudaFacts(library="/usr/lib/wsl/lib/libcuda.so.1.1", cuda=12060, init=0, count=1),
        smi=SmiFacts("/usr/lib/wsl/lib/nvidia-smi", "560.94", "12.6"),
    )
    snapshot = assemble(raw, None)
    assert snapshot.host.wsl.value is True
    assert said(snapshot.driver.version) == ("560.94", "nvml")
    assert snapshot.driver.version.dissent == ()
    assert snapshot.driver.library_version.value is None
    assert snapshot.driver.module_version.value is None


def nvml_gpu(index: int, uuid: str, pci: str, **more: Any) -> NvmlGpu:  # noqa: ANN401 - fields of NvmlGpu
    memory = (143771 * MIB, 143000 * MIB)
    return NvmlGpu(index, uuid, "NVIDIA H200", pci, compute_capability="9.0", memory=memory, **more)


@pytest.mark.parametrize(
    ("nvml", "others", "one_spelling"),
    [
        ("00000000:3A:00.0", "0000:3a:00.0", "0000:3a:00.0"),
        ("0000:3a:00.0", "00000000:3A:00.0", "0000:3a:00.0"),
        ("00000008:01:00.0", "0008:01:00.0", "0008:01:00.0"),
        ("000052CE:00:00.0", "52ce:00:00.0", "52ce:00:00.0"),
        ("0000:3A:00.0", "3a:00.0", "0000:3a:00.0"),
    ],
)
def test_a_gpu_is_one_however_its_address_and_uuid_are_spelt(nvml: str, others: str, one_spelling: str) -> None:
    (gpu,) = gpus_of(
        nvml=NvmlFacts(gpus=(nvml_gpu(0, ONE, nvml),)),
        cuda=CudaFacts(devices=(CudaDevice(0, "NVIDIA H200", others, ONE.removeprefix("GPU-"), "9.0"),)),
        kernel=KernelFacts(driver_gpus=(DriverGpu("NVIDIA H200", ONE, others),)),
        smi=SmiFacts(gpus=(SmiGpu(0, ONE, "NVIDIA H200", nvml),)),
    )
    assert gpu.pci.value == one_spelling
    assert gpu.uuid.value == ONE
    for reading in (gpu.pci, gpu.uuid, gpu.name):
        assert len(reading.others) == 3
        assert reading.dissent == ()
    assert gpu.compute_capability.dissent == ()
    assert len(gpu.compute_capability.others) == 1


def test_addresses_that_differ_in_their_domain_alone_are_two_gpus() -> None:
    gpus = gpus_of(
        nvml=NvmlFacts(gpus=(nvml_gpu(0, ONE, "00000008:01:00.0"), nvml_gpu(1, TWO, "00000009:01:00.0"))),
        cuda=CudaFacts(devices=(CudaDevice(0, pci="0009:01:00.0"), CudaDevice(1, pci="0008:01:00.0"))),
    )
    assert [gpu.ordinal.value for gpu in gpus] == [1, 0]


def test_the_index_and_the_ordinal_of_a_gpu_are_told_apart() -> None:
    """CUDA counts the fastest first, NVML by address; a third GPU is hidden from this process."""
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


def test_a_gpu_that_sources_name_differently_keeps_every_name() -> None:
    (gpu,) = gpus_of(
        nvml=NvmlFacts(gpus=(nvml_gpu(0, ONE, "00000000:3A:00.0"),)),
        smi=SmiFacts(gpus=(SmiGpu(0, ONE, "GeForce GTX 1050", "00000000:3A:00.0"),)),
    )
    assert said(gpu.name) == ("NVIDIA H200", "nvml")
    assert [(answer.value, answer.source) for answer in gpu.name.dissent] == [("GeForce GTX 1050", "nvidia-smi")]


def test_of_several_lists_that_of_the_most_trusted_source_counts() -> None:
    lists: dict[str, Any] = {
        "nvml": NvmlFacts(gpus=(NvmlGpu(0, name="by NVML"),)),
        "cuda": CudaFacts(devices=(CudaDevice(0, name="by libcuda"),)),
        "kernel": KernelFacts(driver_gpus=(DriverGpu("by the kernel"),)),
        "smi": SmiFacts(gpus=(SmiGpu(0, name="by nvidia-smi"),)),
    }
    names = []
    while lists:
        names.append([gpu.name.value for gpu in gpus_of(**lists)])
        lists.pop(next(iter(lists)))
    assert names == [["by NVML"], ["by libcuda"], ["by the kernel"], ["by nvidia-smi"]]
    assert gpus_of() == ()


def test_gpus_without_address_and_uuid_are_kept_apart() -> None:
    assert len(gpus_of(nvml=NvmlFacts(gpus=(NvmlGpu(0), NvmlGpu(1))))) == 2


def test_a_mig_instance_is_no_gpu_and_lends_the_gpu_none_of_its_facts() -> None:
    whole = NvmlGpu(
        0,
        ONE,
        "NVIDIA A100-SXM4-40GB",
        "00000000:41:00.0",
        compute_capability="8.0",
        memory=(40960 * MIB, 40000 * MIB),
        mig=True,
        mig_instances=tuple(RawMigInstance(uuid, "NVIDIA A100 MIG 1g.5gb", 4864 * MIB) for uuid in MIG),
    )
    (gpu,) = gpus_of(
        nvml=NvmlFacts(gpus=(whole,)),
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


def test_mig_instances_that_libcuda_alone_lists_are_one_gpu() -> None:
    gpus = gpus_of(
        cuda=CudaFacts(devices=tuple(CudaDevice(n, pci="0000:41:00.0", uuid=uuid[4:]) for n, uuid in enumerate(MIG)))
    )
    assert len(gpus) == 1


def test_a_mig_instance_that_libcuda_alone_lists_does_not_pass_for_a_gpu_by_its_uuid() -> None:
    """As in a container with the compute capability alone, which has no NVML."""
    device = CudaDevice(0, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "0000:41:00.0", MIG[0][4:], "8.0", 4864 * MIB)
    (gpu,) = gpus_of(cuda=CudaFacts(devices=(device,)))
    assert gpu.uuid.value != f"GPU-{MIG[0][4:]}"


def test_a_gpu_without_a_mig_mode_is_not_said_to_have_it_off() -> None:
    on, off = gpus_of(
        nvml=NvmlFacts(gpus=(nvml_gpu(0, ONE, "0000:17:00.0"), nvml_gpu(1, TWO, "0000:3a:00.0", mig=False)))
    )
    assert on.mig.value is None
    assert on.mig.reason
    assert off.mig.value is False


def test_a_gpu_that_nvml_cannot_open_keeps_its_return_code() -> None:
    well, lost = gpus_of(
        nvml=NvmlFacts(gpus=(nvml_gpu(0, ONE, "0000:17:00.0"), NvmlGpu(1, failures={"nvmlDeviceGetHandleByIndex": 15})))
    )
    assert (lost.fault.value, lost.fault.source) == (15, "nvml")
    assert lost.index.value == 1
    assert well.fault.value is None


def test_a_function_that_fails_is_no_fault_of_the_gpu() -> None:
    (gpu,) = gpus_of(nvml=NvmlFacts(gpus=(NvmlGpu(0, ONE, failures={"nvmlDeviceGetMemoryInfo": 3}),)))
    assert gpu.fault.value is None
    assert gpu.memory_total.value is None


def test_the_number_of_gpus_is_asked_of_each_source() -> None:
    raw = RawFacts(
        nvml=NvmlFacts(count=8),
        kernel=KernelFacts(driver_gpus=(DriverGpu(), DriverGpu())),
        smi=SmiFacts(gpus=(SmiGpu(0),)),
    )
    count = assemble(raw, None).gpu_count
    assert (count.value, count.source) == (8, "nvml")
    assert [answer.value for answer in count.dissent] == [2, 1]


def test_a_source_that_was_not_asked_does_not_count_to_zero() -> None:
    count = assemble(RawFacts(), None).gpu_count
    assert count.value is None
    assert count.others == ()


def test_a_source_that_counts_to_zero_says_so() -> None:
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
        (CudaFacts(), None, "libcuda did not tell"),
    ],
)
def test_how_many_gpus_this_process_sees(cuda: CudaFacts, visible: int | None, reason: str | None) -> None:
    count = assemble(RawFacts(cuda=cuda), None).visible_count
    assert (count.value, count.reason) == (visible, reason)


@pytest.mark.parametrize(
    ("platform", "machine", "arch"),
    [
        ("linux-x86_64", "x86_64", "x86_64"),
        ("linux-aarch64", "x86_64", "aarch64"),
        ("linux-i686", "x86_64", "i686"),
        (None, "aarch64", "aarch64"),
        ("", "x86_64", "x86_64"),
        ("linux-", "x86_64", "x86_64"),
    ],
)
def test_wheels_must_be_built_for_the_target_not_for_the_kernel(platform: str | None, machine: str, arch: str) -> None:
    raw = RawFacts(kernel=KernelFacts(uname=Uname("linux", "6.1", machine)), target=TargetFacts(platform=platform))
    assert assemble(raw, None).host.arch.value == arch


def test_toolkits_tell_their_version_and_where_it_is_written() -> None:
    kits = assemble(
        RawFacts(
            kernel=KernelFacts(
                toolkits=(
                    RawToolkit("/usr/local/cuda-12.4", "CUDA_PATH", "12.4.131", "version.json", has_nvrtc=True),
                    RawToolkit("/opt/cuda", "folder", "seven", "version.txt"),
                )
            )
        ),
        None,
    ).toolkits
    assert [said(kit.toolkit) for kit in kits] == [("12.4", "version.json"), ("None", None)]
    assert [kit.has_nvrtc for kit in kits] == [True, False]


def test_a_distribution_met_twice_is_the_one_that_imports_meet_first() -> None:
    facts = TargetFacts(
        python="3.12.4",
        distributions=(
            Distribution("cupy-cuda12x", "14.2.0", "/venv"),
            Distribution("numpy", "2.3.4", "/venv"),
            Distribution("numpy", "1.26.4", "/usr"),
            Distribution("cupy-xarray", "0.1", "/venv"),
        ),
    )
    target = assemble(RawFacts(target=facts), None).target
    assert target.numpy.value == target.packages["numpy"] == "2.3.4"
    assert [(entry.distribution, entry.location) for entry in target.cupy] == [("cupy-cuda12x", "/venv")]
    assert list(target.packages) == ["cupy-cuda12x", "cupy-xarray", "numpy"]


def test_a_target_that_did_not_answer_tells_why_and_what_was_meant() -> None:
    target = assemble(RawFacts(target_path="/venv/bin/python3", target_reason="ended by SIGSEGV"), None).target
    assert said(target.executable) == ("/venv/bin/python3", "the caller")
    for reading in (target.python, target.prefix, target.kind, target.numpy, target.platform):
        assert (reading.value, reading.reason) == (None, "ended by SIGSEGV")


def test_without_numpy_the_reason_is_not_the_interpreter() -> None:
    assert assemble(RawFacts(target=TargetFacts(python="3.12.4")), None).target.numpy.reason == "NumPy is not there"


def test_libraries_keep_their_order_and_their_way() -> None:
    libraries = (
        LibraryFact("nvrtc", "libnvrtc.so.12", "/venv/libnvrtc.so.12", "site-packages"),
        LibraryFact("cublas", "libcublas.so.12", None, None, "cannot open shared object file"),
    )
    found = assemble(RawFacts(libraries=LibraryFacts(libraries)), None).target.libraries
    assert [(entry.soname, entry.path) for entry in found] == [
        ("libnvrtc.so.12", "/venv/libnvrtc.so.12"),
        ("libcublas.so.12", None),
    ]


TEXT = st.none() | st.text(max_size=12) | st.sampled_from(["535.104.05", "12.4", "0000:3a:00.0", ONE, "9.0", "linux"])
COUNT = st.integers(-(2**40), 2**40)
NUMBER = st.none() | COUNT
RAW = st.builds(
    RawFacts,
    kernel=st.builds(
        KernelFacts,
        uname=st.builds(Uname, TEXT, TEXT, TEXT),
        distribution=TEXT,
        container=TEXT,
        sys_version=TEXT,
        proc_version=TEXT,
        driver_gpus=st.lists(st.builds(DriverGpu, TEXT, TEXT, TEXT), max_size=3).map(tuple),
        toolkits=st.lists(st.builds(RawToolkit, st.text(), st.text(), TEXT, TEXT), max_size=2).map(tuple),
    ),
    nvml=st.builds(
        NvmlFacts,
        driver_version=TEXT,
        library=TEXT,
        cuda=NUMBER,
        count=NUMBER,
        gpus=st.lists(
            st.builds(NvmlGpu, st.integers(0, 3), TEXT, TEXT, TEXT, TEXT, st.none() | st.tuples(COUNT, COUNT)),
            max_size=3,
        ).map(tuple),
    ),
    cuda=st.builds(
        CudaFacts,
        library=TEXT,
        cuda=NUMBER,
        init=NUMBER,
        count=NUMBER,
        devices=st.lists(st.builds(CudaDevice, st.integers(0, 3), TEXT, TEXT, TEXT, TEXT, NUMBER), max_size=3).map(
            tuple
        ),
    ),
    smi=st.builds(SmiFacts, TEXT, TEXT, TEXT),
    target=st.builds(TargetFacts, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT),
)


@given(RAW)
@settings(deadline=None)
def test_whatever_the_sources_say_makes_a_snapshot_that_can_be_recorded(raw: RawFacts) -> None:
    snapshot = assemble(raw, "2026-11-21T12:00:00+00:00")
    assert decode(Snapshot, encode(snapshot)) == snapshot
