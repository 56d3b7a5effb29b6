"""Assembling readings from raw facts: which source wins, which answers are kept, and which are invalid."""

from __future__ import annotations

import pytest

from gpuenv.model.snapshot import Module, Source, SourceState
from gpuenv.probe.assembly import assemble
from gpuenv.probe.raw import RawFacts, SmiFacts
from tests.probe.raw_facts import (
    CudaFacts,
    Distribution,
    KernelFacts,
    KernelModules,
    LibraryFact,
    LibraryFacts,
    NvmlFacts,
    RawToolkit,
    TargetFacts,
    Uname,
    value_and_source,
)

# Published first lines of /proc/driver/nvidia/version: driver version and kind of module.
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


def conflicting_sources() -> RawFacts:
    """A machine on which all sources disagree."""
    return RawFacts(
        kernel=KernelFacts(proc_version=PROPRIETARY, sys_version="470.2"),
        nvml=NvmlFacts(init=0, driver_version="470.3", cuda=11030),
        cuda=CudaFacts(init=0, cuda=11040),
        smi=SmiFacts(driver_version="470.4", cuda="11.2"),
    )


def test_the_driver_version_is_read_from_the_kernel_then_nvml_then_nvidia_smi() -> None:
    raw = conflicting_sources()
    readings = []
    for changes in (
        {},
        {"kernel": KernelFacts(sys_version="470.2")},
        {"kernel": KernelFacts()},
        {"nvml": NvmlFacts()},
        {"smi": SmiFacts()},
    ):
        raw = raw._replace(**changes)
        readings.append(value_and_source(assemble(raw, None).driver.version))
    assert readings == [
        ("470.161.03", "/proc/driver/nvidia/version"),
        ("470.2", "/sys/module/nvidia/version"),
        ("470.3", "nvml"),
        ("470.4", "nvidia-smi"),
        ("None", None),
    ]


def test_the_cuda_level_is_read_from_libcuda_then_nvml_then_nvidia_smi() -> None:
    raw = conflicting_sources()
    readings = []
    for changes in ({}, {"cuda": CudaFacts()}, {"nvml": NvmlFacts()}, {"smi": SmiFacts()}):
        raw = raw._replace(**changes)
        readings.append(value_and_source(assemble(raw, None).driver.cuda))
    assert readings == [("11.4", "libcuda"), ("11.3", "nvml"), ("11.2", "nvidia-smi"), ("None", None)]


def test_differing_answers_are_kept_with_the_value() -> None:
    driver = assemble(conflicting_sources(), None).driver
    assert [(str(answer.value), answer.source) for answer in driver.version.others] == [
        ("470.3", "nvml"),
        ("470.4", "nvidia-smi"),
    ]
    assert [str(answer.value) for answer in driver.cuda.dissent] == ["11.3", "11.2"]
    assert [str(answer.value) for answer in driver.module_version.dissent] == ["470.2"]


def test_equal_answers_are_not_dissent() -> None:
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
def test_an_invalid_driver_version_is_dropped(junk: str) -> None:
    raw = RawFacts(
        kernel=KernelFacts(sys_version=junk), nvml=NvmlFacts(driver_version=junk), smi=SmiFacts(driver_version="535.1")
    )
    assert value_and_source(assemble(raw, None).driver.version) == ("535.1", "nvidia-smi")


@pytest.mark.parametrize("number", [0, -1, 999, 100_000, 2**31 - 1])
def test_an_implausible_cuda_level_is_not_an_answer(number: int) -> None:
    raw = RawFacts(cuda=CudaFacts(cuda=number), nvml=NvmlFacts(cuda=number), smi=SmiFacts(cuda="N/A"))
    level = assemble(raw, None).driver.cuda
    assert level.value is None
    assert level.others == ()


def test_the_reason_for_a_missing_driver_quotes_each_source() -> None:
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
def test_the_kernel_modules_version_and_flavor_are_parsed(text: str) -> None:
    driver = assemble(RawFacts(kernel=KernelFacts(proc_version=text, modules=KernelModules())), None).driver
    version, flavor = PROC_VERSIONS[text]
    assert value_and_source(driver.module_version) == (version, "/proc/driver/nvidia/version")
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
def test_the_state_of_the_module_follows_from_loading_and_installation(
    *, loaded: bool, installed: bool | None, module: Module | None
) -> None:
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
def test_the_driver_version_falls_back_to_libcudas_file_name(
    nvml: str | None, cuda: str | None, version: str | None
) -> None:
    driver = assemble(RawFacts(nvml=NvmlFacts(library=nvml), cuda=CudaFacts(library=cuda)), None).driver
    assert (driver.version.value and str(driver.version.value)) == version


def test_a_reported_version_takes_precedence_over_a_file_name() -> None:
    raw = RawFacts(
        nvml=NvmlFacts(driver_version="535.104.05", library="/usr/lib/libnvidia-ml.so.535.183.01"),
        cuda=CudaFacts(library="/usr/lib/libcuda.so.535.183.01"),
    )
    driver = assemble(raw, None).driver
    assert value_and_source(driver.version) == ("535.104.05", "nvml")
    assert str(driver.library_version.value) == "535.183.01"


def test_under_wsl_the_driver_version_is_that_of_windows() -> None:
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
        smi=SmiFacts("560.94", "12.6"),
    )
    snapshot = assemble(raw, None)
    assert snapshot.host.wsl.value is True
    assert value_and_source(snapshot.driver.version) == ("560.94", "nvml")
    assert snapshot.driver.version.dissent == ()
    assert snapshot.driver.library_version.value is None
    assert snapshot.driver.module_version.value is None


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
def test_the_architecture_is_that_of_the_target_not_of_the_kernel(
    platform: str | None, machine: str, arch: str
) -> None:
    raw = RawFacts(kernel=KernelFacts(uname=Uname("linux", "6.1", machine)), target=TargetFacts(platform=platform))
    assert assemble(raw, None).host.arch.value == arch


def test_toolkits_have_a_version_and_its_source() -> None:
    toolkits = assemble(
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
    assert [value_and_source(kit.toolkit) for kit in toolkits] == [("12.4", "version.json"), ("None", None)]
    assert [kit.has_nvrtc for kit in toolkits] == [True, False]


def test_the_first_distribution_of_a_name_on_the_path_counts() -> None:
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


def test_a_target_without_an_answer_has_a_path_and_a_reason() -> None:
    target = assemble(RawFacts(target_path="/venv/bin/python3", target_reason="ended by SIGSEGV"), None).target
    assert value_and_source(target.executable) == ("/venv/bin/python3", "the caller")
    for reading in (target.python, target.prefix, target.kind, target.numpy, target.platform):
        assert (reading.value, reading.reason) == (None, "ended by SIGSEGV")


def test_a_missing_numpy_has_its_own_reason() -> None:
    assert assemble(RawFacts(target=TargetFacts(python="3.12.4")), None).target.numpy.reason == "NumPy is not installed"


def test_libraries_keep_their_order() -> None:
    libraries = (
        LibraryFact("nvrtc", "libnvrtc.so.12", "/venv/libnvrtc.so.12", "site-packages"),
        LibraryFact("cublas", "libcublas.so.12", None, None, "cannot open shared object file"),
    )
    assembled = assemble(RawFacts(libraries=LibraryFacts(libraries)), None).target.libraries
    assert [(entry.soname, entry.path) for entry in assembled] == [
        ("libnvrtc.so.12", "/venv/libnvrtc.so.12"),
        ("libcublas.so.12", None),
    ]
