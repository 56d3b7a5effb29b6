"""Outputs with a fact per line: collect_env, the driver's file, docker info, uname, variables and lspci."""

from __future__ import annotations

import pytest

from gpuenv.matrix.needs import needs_of
from gpuenv.paste import outputs
from gpuenv.paste.fields import LINES
from tests.paste.pasted_facts import MATRIX, snapshot_of, wrong

Facts = dict[str, str | None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "OS                           : CentOS Linux 7 (Core) (x86_64)\nLibc version                 : glibc-2.17\n"
            "Python version               : 3.11.5 (main, Sep 11 2023) [GCC 11.2.0] (64-bit runtime)\n"
            "GPU models and configuration :\nGPU 0: Tesla V100-PCIE-32GB\nNvidia driver version        : 550.54.15\n",
            {"host.distribution": "CentOS Linux 7 (Core)", "host.arch": "x86_64", "host.libc": "glibc-2.17",
             "target.python": "3.11.5", "driver.version": "550.54.15", "gpus": "Tesla V100-PCIE-32GB 7.0 ?"},
            id="collect_env of vLLM",
        ),
        pytest.param(
            "OS: Microsoft Windows 11 Enterprise (10.0.22631 64-bit)\nPython platform: Windows-10-10.0.22631-SP0\n"
            "PyTorch version: 2.8.0+cpu\n",
            {"host.os": "windows", "host.distribution": "Microsoft Windows 11 Enterprise", "package.torch": "2.8.0+cpu"},
            id="collect_env in Windows",
        ),
        pytest.param("PyTorch version: 2.6.0+cu124\n[pip3] torch==2.6.0\n", {"package.torch": "2.6.0+cu124"}, id="the local part"),
        pytest.param(
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build\n",
            {"driver.version": "550.54.14", "driver.module": "loaded", "driver.flavor": "open"}, id="the driver's file",
        ),
        pytest.param(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  384.98  Thu Oct 26 15:16:01 PDT 2017\n",
            {"driver.module_version": "384.98", "driver.flavor": "proprietary"}, id="the driver's file of old",
        ),
        pytest.param(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.x\npython=3.12345=h0_0\n",
            {"driver.version": None, "driver.module_version": None, "target.python": None}, id="damaged numbers",
        ),
        pytest.param(
            " Runtimes: io.containerd.runc.v2 runc\n Default Runtime: runc\n Kernel Version: 6.5.0-1027-oem\n OSType: linux\n",
            {"container_support.default_runtime": "runc", "host.kernel": "6.5.0-1027-oem", "host.os": "linux"}, id="docker info",
        ),
        pytest.param("OS: Windows 11 with WSL2, Ubuntu 22.04\n", {"host.os": None, "host.wsl": "True"}, id="both in one"),
        pytest.param(
            "Darwin Mac.local 22.1.0 Darwin Kernel Version 22.1.0: x; root:xnu-1/RELEASE_ARM64_T6000 arm64\n",
            {"host.os": "darwin", "host.arch": "aarch64"}, id="uname of macOS",
        ),
    ],
)  # fmt: skip
def test_a_report_is_read(text: str, expected: Facts) -> None:
    assert wrong(text, expected) == {}


def test_a_gpu_of_torch_for_rocm_is_from_amd() -> None:
    snapshot = snapshot_of("GPU models and configuration: AMD Instinct MI210 (gfx90a:sramecc+:xnack-)\n")
    assert snapshot.gpus == ()
    assert [gpu.name for gpu in snapshot.amd_gpus] == ["AMD Instinct MI210 (gfx90a:sramecc+:xnack-)"]


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES", ""),
        ('declare -x CUDA_HOME="/usr/local/cuda"', "CUDA_HOME", "/usr/local/cuda"),
        ("$ export CUDA_HOME=/usr/local/cuda", "CUDA_HOME", "/usr/local/cuda"),
        (r"CUDA_PATH=C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v11.8", "CUDA_PATH", r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v11.8"),
        (r"CUDA_PATH                      C:\CUDA\v12.4", "CUDA_PATH", r"C:\CUDA\v12.4"),
        ("NVIDIA_REQUIRE_CUDA=cuda>=12.1 brand=tesla,driver>=470", "NVIDIA_REQUIRE_CUDA", "cuda>=12.1 brand=tesla,driver>=470"),
        ("CUDA_VISIBLE_DEVICES=1,2 python train.py", "CUDA_VISIBLE_DEVICES", None),
        ("LD_LIBRARY_PATH                 :", "LD_LIBRARY_PATH", None),
    ],
)  # fmt: skip
def test_a_variable_is_read(line: str, name: str, value: str | None) -> None:
    assert wrong(line, {f"environment.{name}": value, "host.os": "windows" if "C:\\" in line else None}) == {}


def test_devices_of_lspci_are_read() -> None:
    text = (
        "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GP102 [GeForce GTX 1080 Ti] [10de:1b06] (rev a1)\n"
        "\tKernel driver in use: nouveau\n01:00.1 Audio device: NVIDIA Corporation GP102 HDMI Audio (rev a1)\n"
        "\tKernel driver in use: snd_hda_intel\n0000:02:00.0 3D controller: NVIDIA Corporation Device 1f06 (rev a1)\n"
        "00:04.0 0302: 10de:20b0 (rev a1)\n"
    )
    devices = snapshot_of(text).pci_gpus or ()
    assert [(entry.pci, entry.device, entry.kernel_driver) for entry in devices] == [
        ("01:00.0", "1b06", "nouveau"),
        ("0000:02:00.0", "1f06", None),
        ("00:04.0", "20b0", None),
    ]
    intel = "00:02.0 VGA compatible controller: Intel Corporation UHD Graphics 630 (rev 02)\n"
    assert snapshot_of(intel).pci_gpus is None  # the list may have been searched


def test_a_name_from_lspci_determines_the_capability() -> None:
    text = "01:00.0 VGA compatible controller: NVIDIA Corporation GA104 [GeForce RTX 3070] (rev a1)\n"
    (gpu,) = needs_of(snapshot_of(text), MATRIX).gpus
    assert str(gpu.compute_capability) == "8.6"


def test_every_output_has_a_rank_of_trust() -> None:
    assert {form.output for form in LINES} <= set(outputs.TRUST)
    assert set(outputs.GPU_TRUST) <= set(outputs.TRUST)
