"""The container and the operating system of a process, by their files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.probe.probe_runs import kernel_of
from tests.probe.roots import make_root

# /proc/1/cgroup and /proc/self/mountinfo of each container engine.
KUBEPODS = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234.slice/cri-containerd-abcd.scope\n"
DOCKER_V1 = "12:pids:/docker/3f1c0e\n1:name=systemd:/docker/3f1c0e\n"
DOCKER_V2 = (
    "680 659 0:55 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/AAAA\n"
    "699 680 8:1 /var/lib/docker/containers/3f1c0e/resolv.conf /etc/resolv.conf rw,relatime - ext4 /dev/sda1 rw\n"
)
DOCKER_HOST = (
    "29 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "431 29 0:52 / /var/lib/docker/overlay2/AAAA/merged rw,relatime shared:220 - overlay overlay rw\n"
    "440 29 0:53 / /var/lib/docker/containers/3f1c0e/mounts/shm rw,nosuid,nodev,noexec shared:230 - tmpfs shm rw\n"
)
ENROOT = (
    "712 640 8:2 /home/user/.local/share/enroot/cuda / ro,nosuid,nodev,relatime master:1 - ext4 /dev/sda2 rw\n"
    "730 712 8:2 /home/user/.local/share/enroot/cuda/.lock /.lock ro,nosuid,nodev,noexec,relatime - ext4 /dev/sda2 rw\n"
)


@pytest.mark.parametrize(
    ("files", "environment", "kind"),
    [
        ({}, {}, "none"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, {}, "none"),
        ({"proc/1/cgroup": "12:pids:/\n11:cpuset:/\n"}, {}, "none"),
        ({".dockerenv": ""}, {}, "docker"),
        ({"proc/1/cgroup": DOCKER_V1}, {}, "docker"),
        ({"proc/1/cgroup": "0::/\n", "proc/self/mountinfo": DOCKER_V2}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({}, {"container": "podman"}, "podman"),
        ({"proc/1/cgroup": KUBEPODS}, {}, "kubernetes"),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, "kubernetes"),
        ({}, {"APPTAINER_CONTAINER": "/images/cuda.sif"}, "apptainer"),
        ({}, {"SINGULARITY_CONTAINER": "/images/cuda.sif"}, "apptainer"),
        ({"proc/1/cgroup": "0::/lxc/web\n"}, {}, "lxc"),
        ({"run/systemd/container": "lxc\n"}, {}, "lxc"),
        ({"run/systemd/container": "systemd-nspawn\n"}, {}, "systemd-nspawn"),
        ({}, {"container": "systemd-nspawn"}, "systemd-nspawn"),
        ({}, {"container": "oci"}, "other"),
        pytest.param(
            {"proc/1/cgroup": "0::/init.scope\n", "proc/self/mountinfo": DOCKER_HOST},
            {},
            "none",
            id="a host on which Docker runs",
        ),
        pytest.param(
            {"proc/1/cgroup": "0::/init.scope\n", "proc/1/comm": "systemd\n", "proc/self/mountinfo": ENROOT},
            {},
            "other",
            id="Enroot, which has the PID namespace of the host",
        ),
        pytest.param({"run/systemd/container": "wsl\n"}, {}, "none", id="WSL with systemd"),
    ],
)
def test_the_kind_of_container_is_recognised_by_marker_files(
    tmp_path: Path, files: dict[str, str], environment: dict[str, str], kind: str
) -> None:
    assert kernel_of(make_root(tmp_path, files), environment).container == kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('NAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n', "ubuntu 24.04"),
        ("ID=debian\nVERSION_ID='12'\n", "debian 12"),
        ("ID=arch\nBUILD_ID=rolling\n", "arch"),
        ('ID="rocky"\r\nVERSION_ID="9.4"\r\n', "rocky 9.4"),
        ("", None),
        ("nonsense\n=\n", None),
    ],
)
def test_the_distribution_is_read_from_os_release(tmp_path: Path, text: str, expected: str | None) -> None:
    assert kernel_of(make_root(tmp_path, {"etc/os-release": text})).distribution == expected


def test_os_release_below_usr_lib_is_read(tmp_path: Path) -> None:
    root = make_root(tmp_path, {"usr/lib/os-release": "ID=alpine\nVERSION_ID=3.20.3\n"})
    assert kernel_of(root).distribution == "alpine 3.20.3"


def test_wsl_is_recognised_by_its_gpu_device(tmp_path: Path) -> None:
    facts = kernel_of(make_root(tmp_path, {"dev/dxg": ""}))
    assert facts.wsl is True
    assert [node.path for node in facts.device_nodes] == ["/dev/dxg"]
    if "microsoft" not in os.uname().release.lower():
        assert kernel_of(make_root(tmp_path / "another", {})).wsl is False


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, BOARD: generic, EABI: aarch64\nX=1\n"},
            "R36 (release), REVISION: 4.3, BOARD: generic, EABI: aarch64",
        ),
        ({"proc/device-tree/compatible": "nvidia,p3768-0000\0nvidia,p3767-0000\0nvidia,tegra234\0"}, "nvidia,tegra234"),
        ({"proc/device-tree/compatible": "raspberrypi,5-model-b\0brcm,bcm2712\0"}, None),
        ({"etc/nv_tegra_release": ""}, None),
    ],
)
def test_a_tegra_board_is_recognised_by_release_file_or_device_tree(
    tmp_path: Path, files: dict[str, str], expected: str | None
) -> None:
    tegra = kernel_of(make_root(tmp_path, files)).tegra
    assert (tegra and tegra.name) == expected
    assert tegra is None or (tmp_path / tegra.source.lstrip("/")).exists()


def test_an_ostree_system_is_recognised(tmp_path: Path) -> None:
    assert kernel_of(make_root(tmp_path / "one", {"run/ostree-booted": ""})).image == "ostree"
    assert kernel_of(make_root(tmp_path / "two", {"run/other": ""})).image is None
