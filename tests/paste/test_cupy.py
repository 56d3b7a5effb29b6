"""``cupy.show_config()`` of every release and platform."""

from __future__ import annotations

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.model.causes import Cause
from gpuenv.paste.partial_snapshot import gaps
from gpuenv.paste.reader import read_paste
from tests.paste.pasted_facts import MATRIX, snapshot_of, wrong


def config(**lines: str) -> str:
    return "".join(f"{name.replace('_', ' '):<28} : {value}\n" for name, value in lines.items())


@pytest.mark.parametrize(
    ("release", "cuda", "line"),
    [
        ("6.2.0", "10000", "cupy-cuda100 6.2.0"),
        ("7.0.0rc1", "9020", "cupy-cuda92 7.0.0rc1"),
        ("10.6.0", "11040", "cupy-cuda114 10.6.0"),
        ("11.0.0", "11070", "cupy-cuda11x 11.0.0"),
        ("12.3.0", "11010", "cupy-cuda111 12.3.0"),
        ("12.3.0", "10020", "cupy-cuda102 12.3.0"),
        ("14.2.0", "13000", "cupy-cuda13x 14.2.0"),
        ("8.0.0", "0", ""),
    ],
)
def test_the_wheel_line_follows_from_release_and_cuda_version(release: str, cuda: str, line: str) -> None:
    assert wrong(config(CuPy_Version=release, CUDA_Build_Version=cuda), {"cupy": line}) == {}


@pytest.mark.parametrize(
    ("platform", "python", "expected"),
    [
        ("Linux-4.15.0-112-generic-x86_64-with-debian-buster-sid", None, ("linux", "x86_64", None)),
        ("Linux-3.10.0-1160.el7.x86_64-x86_64-with-centos-7.9.2009-Core", None, ("linux", "x86_64", None)),
        ("Linux-5.4.0-150-generic-x86_64-with-glibc2.10", "3.8.15", ("linux", "x86_64", None)),
        ("Linux-5.4.0-150-generic-x86_64-with-glibc2.31", "3.9.15", ("linux", "x86_64", "glibc-2.31")),
        ("Linux-6.1.0-aarch64-with-glibc2.36", "3.13.1", ("linux", "aarch64", "glibc-2.36")),
        ("Windows-10-10.0.19045-SP0", "3.10.11", ("windows", None, None)),
        ("macOS-14.5-arm64-arm-64bit", "3.12.0", ("darwin", None, None)),
    ],
)
def test_the_platform_of_every_python_is_read(
    platform: str, python: str | None, expected: tuple[str, str | None, str | None]
) -> None:
    """Up to 3.8 the number is that of the C library which the interpreter was linked with: a machine may have more."""
    text = config(OS=platform, CuPy_Version="12.0.0") + (config(Python_Version=python) if python else "")
    assert wrong(text, dict(zip(("host.os", "host.arch", "host.libc"), expected, strict=True))) == {}


def test_no_linux_command_is_suggested_on_windows() -> None:
    pasted = read_paste(config(OS="Windows-10-10.0.19045-SP0", CuPy_Version="12.0.0"))
    commands = {gap.ask for gap in gaps(pasted, snapshot_of(config(OS="Windows-10-10.0.19045-SP0")))}
    assert "python -VV" in commands
    assert not commands & {"uname -a", "ldd --version", "python --version"}
    line = "Python 3.11.4 (tags/v3.11.4:d2340ef, Jun  7 2023, 05:45:37) [MSC v.1934 64 bit (AMD64)] on win32"
    assert wrong(line, {"host.os": "windows", "host.arch": "x86_64", "target.python": "3.11.4"}) == {}


def test_a_missing_device_is_read_from_the_runtime_error() -> None:
    text = config(
        CuPy_Version="10.0.0",
        CUDA_Driver_Version="11040",
        CUDA_Runtime_Version="CUDARuntimeError('cudaErrorNoDevice: no CUDA-capable device is detected')",
    )
    assert wrong(text, {"visible_count": "0", "driver.cuda_init": "100", "driver.cuda": "11.4"}) == {}
    refused = text.replace("cudaErrorNoDevice", "cudaErrorCompatNotSupportedOnDevice")
    snapshot = snapshot_of(refused)
    assert snapshot.driver.cuda_init.value == 804
    findings = diagnose(snapshot, MATRIX, lambda: 0.0).findings
    assert Cause.FORWARD_COMPAT_UNSUPPORTED in {finding.cause for finding in findings}
    late = text.replace("cudaErrorNoDevice", "cudaErrorMemoryAllocation")
    assert wrong(late, {"visible_count": None, "driver.cuda_init": None}) == {}


def test_a_build_for_rocm_lists_no_nvidia_gpus() -> None:
    devices = "Device 0 Name :\nDevice 0 Arch : gfx906:sramecc+:xnack-\nDevice 0 PCI Bus ID : 0000:43:00.0\n"
    new = config(CuPy_Platform="AMD ROCm", CUDA_Root="/opt/rocm-4.5.0/", CUDA_Build_Version="40421401") + devices
    old = config(CUDA_Root="/opt/rocm", CUDA_Driver_Version="313700") + "Device 0 Name : Vega 20\n"
    assert wrong(new, {"gpus": "", "rocm": "4.5.0", "driver.cuda": None, "visible_count": None}) == {}
    assert [gpu.gfx for gpu in snapshot_of(new).amd_gpus] == ["gfx906"]
    assert [gpu.name for gpu in snapshot_of(old).amd_gpus] == ["Vega 20"]
    assert wrong(old, {"gpus": "", "cupy": ""}) == {}
    mixed = snapshot_of(new + "cupy-cuda12x==13.6.0\n")
    findings = diagnose(mixed, MATRIX, lambda: 0.0).findings
    assert [finding.cause for finding in findings if finding.primary] == [Cause.ROCM_MISMATCH]


def test_a_jetson_is_known_by_its_kernel() -> None:
    by_kernel = config(OS="Linux-5.15.148-tegra-aarch64-with-glibc2.35", Python_Version="3.10.12")
    assert wrong(by_kernel, {"host.tegra": "kernel 5.15.148-tegra", "host.arch": "aarch64"}) == {}


def test_the_runtime_that_cupy_found_is_that_of_its_toolkit() -> None:
    text = config(
        CUDA_Root="/usr/local/cuda", CUDA_Runtime_Version="12090 (linked to CuPy) / 12000 (locally installed)"
    )
    (toolkit,) = snapshot_of(text).toolkits
    assert (str(toolkit.toolkit.value), toolkit.path, toolkit.has_nvrtc) == ("12.0", "/usr/local/cuda", False)
    assert snapshot_of(text.replace("/usr/local/cuda", "None")).toolkits == ()  # it is that of a wheel
