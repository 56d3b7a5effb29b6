"""Probing a missing driver leaves no device node behind, though its libraries create one for root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuenv.probe.context import script
from tests.cli.program import gpuenv
from tests.cli.test_every_command import OFFLINE, OPTIONS

SCRIPT = """
import os, stat, sys
sys.path.insert(0, sys.argv[1])
from shared import forbid_device_nodes
if len(sys.argv) > 3:
    forbid_device_nodes(sys.argv[3])
os.mknod(sys.argv[2], stat.S_IFCHR | 0o600, os.makedev(195, 255))
"""
# Like NVML and libcuda run by root: creates the missing node, and returns the code for a missing kernel module.
LIBRARY = """
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
static int make(int code) { mknod("%s", S_IFCHR | 0666, makedev(195, 255)); return code; }
int nvmlInit_v2(void) { return make(9); }
int cuInit(unsigned flags) { return make(100); }
"""


def can_create(folder: Path, *root: str) -> bool:
    node = folder / "node"
    command = [sys.executable, "-c", SCRIPT, str(Path(script("nvml.py")).parent), str(node), *root]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    exists = node.exists()
    node.unlink(missing_ok=True)
    assert exists == (done.returncode == 0)
    return exists


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which this process may create device nodes."""
    if not can_create(tmp_path):
        pytest.skip("creating device nodes is not permitted")
    return tmp_path


def add_device(root: Path, vendor: str) -> None:
    device = root / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n", encoding="ascii")


def test_cap_mknod_is_dropped_without_driver_and_gpu(folder: Path) -> None:
    add_device(folder, "0x8086")
    assert not can_create(folder, str(folder))


@pytest.mark.parametrize("path", ["dev/nvidiactl", "proc/driver/nvidia", "sys/module/nvidia", "dev/dxg", "dev/nvmap"])
def test_cap_mknod_is_kept_with_a_driver(folder: Path, path: str) -> None:
    add_device(folder, "0x8086")
    (folder / path).mkdir(parents=True)
    assert can_create(folder, str(folder))


def test_cap_mknod_is_kept_with_a_gpu_whose_module_may_be_loaded(folder: Path) -> None:
    add_device(folder, "0x10de")
    assert can_create(folder, str(folder))


def test_cap_mknod_is_kept_if_the_bus_is_not_visible(folder: Path) -> None:
    assert can_create(folder, str(folder))


# Every command that probes the machine, with what it needs for it.
PROBING = {
    "doctor": (),
    "preflight": ("--no-config",),
    "resolve": (),
    "install": ("--dry-run", "--offline", "--python", sys.executable),
    "lock": ("--offline",),
    "bundle": ("-o", "FOLDER/bundle"),
    "probe": ("--deep",),
    "smoke": (),
    "explain": ("--probe", "FOLDER/driver.c"),
    "run": ("--", "false"),
    "check-image": ("--dockerfile", "FOLDER/Dockerfile"),
    "build-image": ("--print",),
    "fleet node": ("-o", "FOLDER/reports"),
}


def test_the_table_has_every_command_that_probes() -> None:
    assert {name for name, options in OPTIONS.items() if "--driver-root" in options} == set(PROBING)


@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=() if name == "doctor" else pytest.mark.long) for name in PROBING]
)
def test_no_command_creates_a_device_node(folder: Path, command: str) -> None:
    add_device(folder, "0x8086")
    if can_create(folder, "/"):
        pytest.skip("this machine may have a driver")
    node, source = folder / "nvidiactl", folder / "driver.c"
    source.write_text(LIBRARY % node, encoding="ascii")
    for name in ("libnvidia-ml.so.1", "libcuda.so.1"):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(folder / name), str(source)], check=True, timeout=60)
    smi = folder / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\nmknod {node} c 195 255\nexit 9\n", encoding="ascii")
    smi.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    (folder / "Dockerfile").write_text("FROM python:3.12\n", encoding="ascii")
    arguments = [word.replace("FOLDER", str(folder)) for word in PROBING[command]]
    variables = {**os.environ, **OFFLINE, "LD_LIBRARY_PATH": str(folder), "PATH": path}
    done = gpuenv(*command.split(), *arguments, environment=variables)
    assert "No such option" not in done.stderr
    assert command != "doctor" or "GPU201" in done.stdout
    assert not node.exists()
