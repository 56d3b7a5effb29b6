"""The kernel script's facts on containers and their toolkit, with made-up driver roots."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.snapshot import CdiFile
from tests.probe.probe_runs import kernel_of
from tests.probe.raw_facts import RawContainerToolkit, RawMps, RawRules
from tests.probe.roots import make_root

if TYPE_CHECKING:
    from pathlib import Path

DOCKER = {".dockerenv": ""}
BPF = "control groups of version 2 keep their rules in a BPF program, which cannot be read"
GENERATED = """cdiVersion: 0.5.0
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- name: all
kind: nvidia.com/gpu
"""
WRITTEN = """kind: 'nvidia.com/gpu'   # GPUs
devices:
    - name: all
      containerEdits: {}
containerEdits:
    hooks:
        - hookName: createContainer
          name: no-device
"""
CTK = {"usr/bin/nvidia-ctk": "", "var/lib/dpkg/info/nvidia-container-toolkit.list": ""}
PACKAGES = """Package: nvidia-container-toolkit-base
Version: 9

Package: nvidia-container-toolkit
Status: install ok installed
Description: a
 b
Version: 1.17.8-1
"""


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n", "gvisor"),
        ("Linux version 5.15.0-gvisor #1 SMP Sun Jan 10 15:06:54 PST 2016\n", "gvisor"),
        ("Linux version 4.4.0-210-generic (buildd@lcy01) #242-Ubuntu SMP Fri Apr 16 09:57:56 UTC 2021\n", None),
        ("", None),
    ],
)
def test_gvisor_is_recognised_by_its_fake_kernel_build(tmp_path: Path, text: str, facts: str | None) -> None:
    assert kernel_of(make_root(tmp_path, {"proc/version": text})).sandbox == facts


@pytest.mark.parametrize(
    ("files", "rules"),
    [
        ({}, RawRules(reason="no control group for devices is visible")),
        ({"proc/self/cgroup": "0::/init.scope\n"}, RawRules(reason=BPF)),
        ({"sys/fs/cgroup/cgroup.controllers": "cpu io\n"}, RawRules(reason=BPF)),
        (
            {
                "proc/self/cgroup": "7:devices:/user.slice\n0::/x\n",
                "sys/fs/cgroup/devices/user.slice/devices.list": "a *:* rwm\n",
            },
            RawRules(rules=("a *:* rwm",)),
        ),
        (
            {
                **DOCKER,
                "proc/self/cgroup": "7:cpu,devices:/docker/3f\n",
                "sys/fs/cgroup/devices/devices.list": "c 195:0 rw\n",
            },
            RawRules(rules=("c 195:0 rw",)),
        ),
        (
            # On a host, this process is not in the root group.
            {"proc/self/cgroup": "7:devices:/docker/3f\n", "sys/fs/cgroup/devices/devices.list": "a *:* rwm\n"},
            RawRules(reason="no control group for devices is visible"),
        ),
        (
            {
                **DOCKER,
                "proc/devices": " 29 fb\n195 nvidia-frontend\n511 nvidia-uvm\n",
                "sys/fs/cgroup/devices/devices.list": "c *:* m\nb *:* m\nc 511:* rw\nb 195:0 r\nc 1955:0 r\n?\n",
            },
            RawRules(rules=("c *:* m", "c 511:* rw")),
        ),
        ({**DOCKER, "sys/fs/cgroup/devices/devices.list": "c 1:3 rwm\n"}, RawRules(rules=())),
    ],
)
def test_the_rules_for_nvidias_devices_are_reported(tmp_path: Path, files: dict[str, str], rules: RawRules) -> None:
    assert kernel_of(make_root(tmp_path, files)).device_rules == rules


@pytest.mark.parametrize(
    ("name", "text", "kind", "devices"),
    [
        ("a.yaml", GENERATED, "nvidia.com/gpu", ("0", "all")),
        ("b.yml", WRITTEN, "nvidia.com/gpu", ("all",)),
        ("c.json", '{"kind": "a.b/c", "devices": [{"name": "0"}, {"name": 1}, 2, {}]}', "a.b/c", ("0",)),
        ("d.json", '{"kind": 7, "devices": {"name": "0"}}', None, ()),
        ("e.json", "[]", None, ()),
        ("f.yaml", "", None, ()),
        ("g.yaml", "devices: []\nkind: x.y/z\n", "x.y/z", ()),
        ("h.yaml", "kind:\n  - nvidia.com/gpu\n", None, ()),
    ],
)
def test_kind_and_devices_of_a_cdi_file_are_reported(
    tmp_path: Path, name: str, text: str, kind: str | None, devices: tuple[str, ...]
) -> None:
    assert kernel_of(make_root(tmp_path, {f"etc/cdi/{name}": text})).cdi_files == (
        CdiFile(f"/etc/cdi/{name}", kind, devices),
    )


def test_other_files_next_to_cdi_files_are_ignored(tmp_path: Path) -> None:
    root = make_root(
        tmp_path, {"etc/cdi/README": "kind: a/b", "etc/cdi/x.yaml.bak": "", "var/run/cdi/y.yaml": "kind: a.b/c\n"}
    )
    assert kernel_of(root).cdi_files == (CdiFile("/var/run/cdi/y.yaml", "a.b/c"),)


@pytest.mark.parametrize(
    ("files", "facts"),
    [
        ({}, RawContainerToolkit()),
        ({"usr/bin/nvidia-ctk": ""}, RawContainerToolkit(installed=True)),
        ({"usr/bin/nvidia-container-runtime-hook": ""}, RawContainerToolkit(installed=True)),
        ({"usr/bin/docker": ""}, RawContainerToolkit()),
        ({**CTK, "var/lib/dpkg/status": PACKAGES}, RawContainerToolkit(installed=True, release="1.17.8-1")),
        (
            {**CTK, "var/lib/dpkg/status": PACKAGES.replace("\nVersion: 1", "\nX: 1")},
            RawContainerToolkit(installed=True),
        ),
    ],
)
def test_the_release_of_the_container_toolkit_is_that_of_its_package(
    tmp_path: Path, files: dict[str, str], facts: RawContainerToolkit
) -> None:
    assert kernel_of(make_root(tmp_path, files)).container_toolkit == facts


def test_the_mps_daemon_is_recognised_by_its_pipe(tmp_path: Path) -> None:
    assert kernel_of(tmp_path).mps == RawMps("/tmp/nvidia-mps")  # noqa: S108 - the documented place
    (tmp_path / "tmp/nvidia-mps").mkdir(parents=True)
    os.mkfifo(tmp_path / "tmp/nvidia-mps/control")
    assert kernel_of(tmp_path).mps == RawMps("/tmp/nvidia-mps", daemon=True)  # noqa: S108
    facts = kernel_of(tmp_path, {"CUDA_MPS_PIPE_DIRECTORY": "/run/mps"}).mps
    assert facts == RawMps("/run/mps", configured=True, daemon=False)


def test_a_flatpak_application_runs_in_another_container(tmp_path: Path) -> None:
    assert kernel_of(make_root(tmp_path, {".flatpak-info": ""})).container == "other"
