"""Probing a missing driver leaves no device node behind, though its libraries create one for root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuenv.probe.context import script
from tests.cli.program import gpuenv

MAKE = """
import os, stat, sys
sys.path.insert(0, sys.argv[1])
from shared import forbid_device_nodes
if len(sys.argv) > 3:
    forbid_device_nodes(sys.argv[3])
os.mknod(sys.argv[2], stat.S_IFCHR | 0o600, os.makedev(195, 255))
"""
# As NVML and libcuda do for root where the node is missing, and what each then says without a kernel module.
LIBRARY = """
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
static int made(int code) { mknod("%s", S_IFCHR | 0666, makedev(195, 255)); return code; }
int nvmlInit_v2(void) { return made(9); }
int cuInit(unsigned flags) { return made(100); }
"""


def may_make(folder: Path, *root: str) -> bool:
    node = folder / "node"
    command = [sys.executable, "-c", MAKE, str(Path(script("nvml.py")).parent), str(node), *root]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    made = node.exists()
    node.unlink(missing_ok=True)
    assert made == (done.returncode == 0)
    return made


@pytest.fixture
def maker(tmp_path: Path) -> Path:
    """A folder in which this process may create device nodes."""
    if not may_make(tmp_path):
        pytest.skip("needs the right to make device nodes")
    return tmp_path


def on_bus(root: Path, vendor: str) -> None:
    device = root / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n", encoding="ascii")


def test_cap_mknod_is_dropped_without_driver_and_gpu(maker: Path) -> None:
    on_bus(maker, "0x8086")
    assert not may_make(maker, str(maker))


@pytest.mark.parametrize("path", ["dev/nvidiactl", "proc/driver/nvidia", "sys/module/nvidia", "dev/dxg", "dev/nvmap"])
def test_cap_mknod_is_kept_with_a_driver(maker: Path, path: str) -> None:
    on_bus(maker, "0x8086")
    (maker / path).mkdir(parents=True)
    assert may_make(maker, str(maker))


def test_cap_mknod_is_kept_with_a_gpu_whose_module_may_be_loaded(maker: Path) -> None:
    on_bus(maker, "0x10de")
    assert may_make(maker, str(maker))


def test_cap_mknod_is_kept_if_the_bus_is_not_visible(maker: Path) -> None:
    assert may_make(maker, str(maker))


def test_the_doctor_creates_no_device_node(maker: Path) -> None:
    on_bus(maker, "0x8086")
    if may_make(maker, "/"):
        pytest.skip("this machine may have a driver")
    node, source = maker / "nvidiactl", maker / "driver.c"
    source.write_text(LIBRARY % node, encoding="ascii")
    for name in ("libnvidia-ml.so.1", "libcuda.so.1"):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(maker / name), str(source)], check=True, timeout=60)
    smi = maker / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\nmknod {node} c 195 255\nexit 9\n", encoding="ascii")
    smi.chmod(0o755)
    path = f"{maker}:{os.environ['PATH']}"
    done = gpuenv("doctor", environment={**os.environ, "LD_LIBRARY_PATH": str(maker), "PATH": path})
    assert "GPU201" in done.stdout
    assert not node.exists()
