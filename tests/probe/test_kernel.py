"""What the kernel's files tell, on made-up driver roots: a real child reads real files that lie below another root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.snapshot import PciGpu
from gpuenv.probe.asking import script
from gpuenv.probe.protocol import parse_facts
from gpuenv.probe.raw_kernel import DriverGpu, KernelModules
from tests.probe.asking import kernel_of

if TYPE_CHECKING:
    from collections.abc import Mapping

RELEASE = os.uname().release
MODULES = f"lib/modules/{RELEASE}"
PROC_VERSION = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
    "GCC version:  gcc version 11.3.0 (Ubuntu 11.3.0-1ubuntu1~22.04)\n"
)
# As published, of an RTX 3090 with 590.48.01.
INFORMATION = (
    "Model: \t\t NVIDIA GeForce RTX 3090\n"
    "IRQ:   \t\t 77\n"
    "GPU UUID: \t GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584\n"
    "Video BIOS: \t 94.02.26.40.81\n"
    "Bus Type: \t PCI\n"
    "DMA Size: \t 47 bits\n"
    "DMA Mask: \t 0x7fffffffffff\n"
    "Bus Location: \t 0000:01:00.0\n"
    "Device Minor: \t 0\n"
    "GPU Firmware: \t 590.48.01\n"
    "GPU Excluded:\t No\n"
)
PCI_IDS = (
    "# A comment\n\n"
    "1002  Advanced Micro Devices, Inc. [AMD/ATI]\n"
    "\t2230  A device of the same number\n"
    "10de  NVIDIA Corporation\n"
    "\t2230  GA102GL [RTX A6000]\n"
    "\t\t10de 1459  RTX A6000\n"
    "\t2330  GH100 [H100 SXM5 80GB]\n"
    "8086  Intel Corporation\n"
    "\t2330  A device of the same number\n"
)


def lay(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Writes files below a root, by path."""
    root.mkdir(exist_ok=True)
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def bus(address: str, device_class: str, vendor: str, device: str) -> dict[str, str]:
    folder = f"sys/bus/pci/devices/{address}"
    return {
        f"{folder}/class": f"{device_class}\n",
        f"{folder}/vendor": f"0x{vendor}\n",
        f"{folder}/device": f"0x{device}\n",
    }


def held_by(root: Path, address: str, driver: str) -> None:
    (root / "sys/bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
    (root / f"sys/bus/pci/devices/{address}/driver").symlink_to(f"../../drivers/{driver}")


def test_an_empty_root_is_told_as_what_it_is(tmp_path: Path) -> None:
    facts = kernel_of(tmp_path)
    assert (facts.uname.os, facts.uname.kernel, facts.uname.arch) == (
        "linux",
        RELEASE,
        os.uname().machine,
    )
    assert facts.modules == KernelModules(module_installed=None)
    assert facts.pci_gpus is None
    assert facts.container == "none"
    assert (facts.device_nodes, facts.driver_gpus, facts.toolkits) == ((), (), ())
    assert (facts.distribution, facts.tegra, facts.proc_version, facts.sys_version) == (None, None, None, None)


def test_a_loaded_driver_is_told_by_the_files_of_its_module(tmp_path: Path) -> None:
    root = lay(
        tmp_path,
        {
            "proc/modules": "nvidia_uvm 1 0 - Live 0x0\nnvidia 1 1 nvidia_uvm, Live 0x0\nnvidiafb 1 0 - Live 0x0\n",
            "sys/module/nvidia/version": "535.104.05\n",
            "proc/driver/nvidia/version": PROC_VERSION,
            "proc/driver/nvidia/gpus/0000:01:00.0/information": INFORMATION,
        },
    )
    facts = kernel_of(root)
    assert facts.modules == KernelModules(nvidia_loaded=True, nouveau_loaded=False)
    assert facts.sys_version == "535.104.05"
    assert facts.proc_version == PROC_VERSION.strip()
    assert facts.driver_gpus == (
        DriverGpu("NVIDIA GeForce RTX 3090", "GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584", "0000:01:00.0"),
    )


def test_modules_that_only_begin_like_nvidias_are_not_nvidias(tmp_path: Path) -> None:
    root = lay(tmp_path, {"proc/modules": "nvidiafb 1 0 - Live 0x0\nnvidia_wmi_ec_backlight 1 0 - Live 0x0\n"})
    assert kernel_of(root).modules == KernelModules(nvidia_loaded=False, nouveau_loaded=False)


def test_a_module_that_is_built_into_sysfs_alone_counts(tmp_path: Path) -> None:
    """As in a sandbox that shows /sys and hides /proc/modules."""
    modules = kernel_of(lay(tmp_path, {"sys/module/nouveau/x": ""})).modules
    assert modules == KernelModules(nvidia_loaded=False, nouveau_loaded=True)


def test_modules_are_not_said_to_be_absent_where_none_can_be_seen(tmp_path: Path) -> None:
    """As under gVisor."""
    assert kernel_of(lay(tmp_path, {"proc/1/cgroup": ""})).modules == KernelModules()


@pytest.mark.parametrize(
    ("files", "installed"),
    [
        ({f"{MODULES}/modules.dep": "updates/dkms/nvidia.ko: kernel/drivers/video/video.ko\n"}, True),
        ({f"{MODULES}/modules.dep": "kernel/drivers/net/e1000.ko:\nkernel/nvidia-535/nvidia.ko:\n"}, True),
        ({f"{MODULES}/modules.dep": "extra/nvidia.ko.xz: \n"}, True),
        ({f"{MODULES}/modules.dep": "nvidia.ko.zst:\n"}, True),
        ({f"{MODULES}/updates/dkms/nvidia.ko.zst": "", f"{MODULES}/modules.dep": ""}, True),
        ({f"{MODULES}/extra/nvidia/nvidia.ko": ""}, True),
        ({f"{MODULES}/modules.dep": "kernel/drivers/video/fbdev/nvidia/nvidiafb.ko:\nkernel/nvidia-drm.ko:\n"}, False),
        ({f"{MODULES}/modules.dep": ""}, False),
        ({"lib/modules/0.0.0-another/updates/dkms/nvidia.ko": ""}, None),
        ({}, None),
    ],
)
def test_a_module_that_is_installed_for_this_kernel_is_found(
    tmp_path: Path,
    files: dict[str, str],
    installed: bool | None,  # noqa: FBT001 - a table
) -> None:
    modules = kernel_of(lay(tmp_path, files)).modules
    assert modules == KernelModules(module_installed=installed)


def test_a_module_under_debian_s_name_is_found(tmp_path: Path) -> None:
    root = lay(tmp_path, {f"{MODULES}/modules.dep": "updates/dkms/nvidia-current.ko:\n"})
    assert kernel_of(root).modules == KernelModules(module_installed=True)


def test_display_and_3d_controllers_are_found_on_the_bus(tmp_path: Path) -> None:
    root = lay(
        tmp_path,
        {
            **bus("0000:00:00.0", "0x060000", "8086", "1237"),
            **bus("0000:00:02.0", "0x030000", "8086", "2330"),
            **bus("0000:01:00.0", "0x030200", "10de", "2330"),
            **bus("0000:02:00.0", "0x038000", "10de", "2230"),
            **bus("0000:03:00.0", "0x068000", "10de", "22a3"),
            **bus("0000:04:00.0", "0x120000", "1002", "2230"),
            **bus("000052ce:00:00.0", "0x030200", "10de", "ffff"),
            "usr/share/misc/pci.ids": PCI_IDS,
        },
    )
    held_by(root, "0000:01:00.0", "nvidia")
    held_by(root, "0000:02:00.0", "nouveau")
    held_by(root, "0000:04:00.0", "amdgpu")
    assert kernel_of(root).pci_gpus == (
        PciGpu("000052ce:00:00.0", "10de", "ffff", None, None),
        PciGpu("0000:00:02.0", "8086", "2330", "A device of the same number", None),
        PciGpu("0000:01:00.0", "10de", "2330", "GH100 [H100 SXM5 80GB]", "nvidia"),
        PciGpu("0000:02:00.0", "10de", "2230", "GA102GL [RTX A6000]", "nouveau"),
        PciGpu("0000:04:00.0", "1002", "2230", "A device of the same number", "amdgpu"),
    )


def test_a_bus_without_display_controllers_is_not_a_bus_that_cannot_be_seen(tmp_path: Path) -> None:
    assert kernel_of(lay(tmp_path, bus("0000:00:00.0", "0x060000", "8086", "1237"))).pci_gpus == ()


def test_the_table_of_a_red_hat_system_is_read_too(tmp_path: Path) -> None:
    root = lay(tmp_path, {**bus("0000:01:00.0", "0x030200", "10de", "2230"), "usr/share/hwdata/pci.ids": PCI_IDS})
    (gpu,) = kernel_of(root).pci_gpus or ()
    assert gpu.name == "GA102GL [RTX A6000]"


def test_device_files_are_told_with_mode_and_owner(tmp_path: Path) -> None:
    names = ("nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
    root = lay(tmp_path, {f"dev/{name}": "" for name in (*names, "null", "nvme0", "dri/card0")})
    (root / "dev/nvidiactl").chmod(0o640)
    nodes = {node.path: node for node in kernel_of(root).device_nodes}
    assert set(nodes) == {f"/dev/{name}" for name in names if name != "nvidia-uvm-tools"}
    assert nodes["/dev/nvidiactl"].mode == "-rw-r-----"
    assert nodes["/dev/nvidiactl"].owner == f"{os.getuid()}:{os.getgid()}"
    assert nodes["/dev/nvidia0"].accessible


def test_a_device_file_that_may_not_be_opened_is_told_as_such() -> None:
    """Asked as a user without rights: root may open everything."""
    with tempfile.TemporaryDirectory() as folder:
        scripts = Path(script("kernel.py")).parent
        copies = {path.name: path.read_bytes() for path in [scripts / "telling.py", *scripts.glob("kernel*.py")]}
        root = lay(Path(folder), {"dev/nvidia0": "", "dev/nvidiactl": "", **copies})
        for path, mode in ((root, 0o755), (root / "dev/nvidia0", 0o600), (root / "dev/nvidiactl", 0o666)):
            path.chmod(mode)
        command = _as_nobody([*_python_for_all(), "-B", str(root / "kernel.py"), str(root)])
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
        nodes = parse_facts(done.stdout)["device_nodes"]
    assert {node["path"]: node["accessible"] for node in nodes} == {"/dev/nvidia0": False, "/dev/nvidiactl": True}


def _as_nobody(command: list[str]) -> list[str]:
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    if shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv")
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]


def _python_for_all() -> list[str]:
    """An interpreter that any user may run: one below /root is not."""
    check = ["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]
    for path in filter(None, (sys.executable, shutil.which("python3", path=os.defpath))):
        if subprocess.run(_as_nobody([path, *check]), capture_output=True, check=False).returncode == 0:
            return [path]
    pytest.skip("no Python here may be run by another user")


TOOLKIT = {
    "version.json": '{"cuda": {"name": "CUDA SDK", "version": "12.4.20240301"}, "cuda_nvrtc": {"version": "12.4.127"}}',
    "include/cuda.h": "#ifndef cuda_h\n#define CUDA_VERSION 12060\n#endif\n",
    "version.txt": "CUDA Version 10.2.89\n",
}


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (TOOLKIT, ("12.4.20240301", "version.json")),
        ({**TOOLKIT, "version.json": "{"}, ("12.6", "cuda.h")),
        ({**TOOLKIT, "version.json": "[]"}, ("12.6", "cuda.h")),
        ({**TOOLKIT, "version.json": '{"cuda": "12.4"}'}, ("12.6", "cuda.h")),
        ({**TOOLKIT, "version.json": '{"cuda": {"version": 12.4}}'}, ("12.6", "cuda.h")),
        ({**TOOLKIT, "version.json": "\xff\xfe"}, ("12.6", "cuda.h")),
        ({"targets/sbsa-linux/include/cuda.h": "#define CUDA_VERSION 13000\n"}, ("13.0", "cuda.h")),
        ({"include/cuda.h": "#define  CUDA_VERSION\t11080 /* 11.8 */\n"}, ("11.8", "cuda.h")),
        ({"version.txt": "CUDA Version 10.2.89\n"}, ("10.2", "version.txt")),
    ],
)
def test_the_version_of_a_toolkit_is_read_from_what_it_brings(
    tmp_path: Path, files: dict[str, str], told: tuple[str, str]
) -> None:
    root = lay(tmp_path, {f"usr/local/cuda-12.4/{path}": text for path, text in files.items()})
    (kit,) = kernel_of(root).toolkits
    assert (kit.path, kit.found_via) == ("/usr/local/cuda-12.4", "folder")
    assert (kit.toolkit, kit.source) == told


@pytest.mark.parametrize(
    "files",
    [{"bin/nvcc": ""}, {"compat/libcuda.so.550.54.15": ""}, {"include/cuda.h": "no version\n"}, {"version.txt": "?"}],
)
def test_a_folder_without_a_version_is_no_toolkit(tmp_path: Path, files: dict[str, str]) -> None:
    root = lay(tmp_path, {f"usr/local/cuda-12.4/{path}": text for path, text in files.items()})
    assert kernel_of(root).toolkits == ()


def test_the_usual_link_is_no_second_toolkit(tmp_path: Path) -> None:
    root = lay(tmp_path, {"usr/local/cuda-12.4/version.json": TOOLKIT["version.json"]})
    (root / "usr/local/cuda").symlink_to("cuda-12.4")
    (root / "usr/local/cuda-12").symlink_to("cuda-12.4")
    assert [kit.path for kit in kernel_of(root).toolkits] == ["/usr/local/cuda-12.4"]


def test_an_absolute_link_stays_below_the_root(tmp_path: Path) -> None:
    root = lay(tmp_path / "root", {"usr/local/cuda-12.4/version.txt": "CUDA Version 12.4.1\n"})
    (root / "opt").mkdir()
    (root / "opt/cuda").symlink_to("/usr/local/cuda-12.4")
    (root / "usr/local/cuda").symlink_to(lay(tmp_path / "elsewhere", {"version.txt": "CUDA Version 9.0.1\n"}))
    assert [kit.toolkit for kit in kernel_of(root).toolkits] == ["12.4"]


def test_every_toolkit_is_told_and_that_of_the_variable_first(tmp_path: Path) -> None:
    root = lay(
        tmp_path,
        {
            "usr/local/cuda-11.8/version.json": '{"cuda": {"version": "11.8.0"}}',
            "usr/local/cuda-12.4/version.json": TOOLKIT["version.json"],
            "opt/cuda/version.json": '{"cuda": {"version": "13.0.1"}}',
            "home/me/cuda/version.txt": "CUDA Version 12.1.0\n",
            "apps/cuda/12.6/version.txt": "CUDA Version 12.6.0\n",
            "apps/cuda/12.6/bin/nvcc": "",
        },
    )
    (root / "apps/cuda/12.6/bin/nvcc").chmod(0o755)
    environment = {
        "CUDA_PATH": "/home/me/cuda",
        "CUDA_HOME": "/usr/local/cuda-11.8/",
        "PATH": f"/apps/cuda/12.6/bin:{os.defpath}",
    }
    assert [(kit.path, kit.found_via) for kit in kernel_of(root, environment).toolkits] == [
        ("/home/me/cuda", "CUDA_PATH"),
        ("/usr/local/cuda-11.8", "CUDA_HOME"),
        ("/apps/cuda/12.6", "PATH"),
        ("/usr/local/cuda-12.4", "folder"),
        ("/opt/cuda", "folder"),
    ]


def test_a_variable_that_points_to_nothing_brings_no_toolkit(tmp_path: Path) -> None:
    environment = {"CUDA_PATH": "/nowhere", "CUDA_HOME": ""}
    assert kernel_of(lay(tmp_path, {"etc/os-release": ""}), environment).toolkits == ()


def test_the_parts_that_compiling_needs_are_looked_for(tmp_path: Path) -> None:
    whole = {"lib64/libnvrtc.so.12": "", "include/cuda_runtime.h": "", "version.txt": "CUDA Version 12.4.1\n"}
    arm = {
        "targets/sbsa-linux/lib/libnvrtc.so.12.4.127": "",
        "targets/sbsa-linux/include/cuda_runtime.h": "",
        "version.txt": "CUDA Version 12.6.0\n",
    }
    bare = {"version.txt": "CUDA Version 12.8.0\n"}
    kits = {"12.4": whole, "12.6": arm, "12.8": bare}
    files = {f"usr/local/cuda-{n}/{path}": text for n, kit in kits.items() for path, text in kit.items()}
    told = {kit.toolkit: (kit.has_nvrtc, kit.has_headers) for kit in kernel_of(lay(tmp_path, files)).toolkits}
    assert told == {"12.4": (True, True), "12.6": (True, True), "12.8": (False, False)}


# /proc/1/cgroup and /proc/self/mountinfo as each engine leaves them.
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
        pytest.param({"run/systemd/container": "wsl\n"}, {}, "none", id="WSL with systemd"),
    ],
)
def test_the_kind_of_container_is_told_by_the_marks_of_its_engine(
    tmp_path: Path, files: dict[str, str], environment: dict[str, str], kind: str
) -> None:
    assert kernel_of(lay(tmp_path, files), environment).container == kind


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('NAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n', "ubuntu 24.04"),
        ("ID=debian\nVERSION_ID='12'\n", "debian 12"),
        ("ID=arch\nBUILD_ID=rolling\n", "arch"),
        ('ID="rocky"\r\nVERSION_ID="9.4"\r\n', "rocky 9.4"),
        ("", None),
        ("nonsense\n=\n", None),
    ],
)
def test_the_distribution_is_read_from_os_release(tmp_path: Path, text: str, told: str | None) -> None:
    assert kernel_of(lay(tmp_path, {"etc/os-release": text})).distribution == told


def test_os_release_of_an_image_without_etc_is_found(tmp_path: Path) -> None:
    root = lay(tmp_path, {"usr/lib/os-release": "ID=alpine\nVERSION_ID=3.20.3\n"})
    assert kernel_of(root).distribution == "alpine 3.20.3"


def test_wsl_is_told_by_its_gpu_device(tmp_path: Path) -> None:
    facts = kernel_of(lay(tmp_path, {"dev/dxg": ""}))
    assert facts.wsl is True
    assert [node.path for node in facts.device_nodes] == ["/dev/dxg"]
    if "microsoft" not in RELEASE.lower():
        assert kernel_of(lay(tmp_path / "another", {})).wsl is False


@pytest.mark.parametrize(
    ("files", "told"),
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
def test_a_tegra_board_is_told_by_its_release_file_or_its_device_tree(
    tmp_path: Path, files: dict[str, str], told: str | None
) -> None:
    assert kernel_of(lay(tmp_path, files)).tegra == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Model: \t\t Tesla K80\nIRQ:   \t\t 34\nGPU UUID: \t GPU-????????-????-????-????-????????????\n", "Tesla K80"),
        ("Model: \t\t Unknown\n", "Unknown"),
        ("", None),
        ("\x00\x01\xff", None),
    ],
)
def test_a_gpu_that_was_not_initialised_has_no_uuid_yet(tmp_path: Path, text: str, told: str | None) -> None:
    root = lay(tmp_path, {"proc/driver/nvidia/gpus/0000:06:00.0/information": text})
    assert kernel_of(root).driver_gpus == (DriverGpu(told, None, "0000:06:00.0"),)


EVERY_FILE = (
    "etc/os-release",
    "usr/lib/os-release",
    "etc/nv_tegra_release",
    "proc/1/cgroup",
    "proc/self/mountinfo",
    "proc/modules",
    "proc/device-tree/compatible",
    "proc/driver/nvidia/version",
    "proc/driver/nvidia/gpus/0000:01:00.0/information",
    "run/systemd/container",
    "sys/module/nvidia/version",
    "sys/bus/pci/devices/0000:01:00.0/class",
    "usr/share/misc/pci.ids",
    "usr/local/cuda-12.4/version.json",
    "usr/local/cuda-12.4/include/cuda.h",
    "usr/local/cuda-12.4/version.txt",
    f"{MODULES}/modules.dep",
)


@pytest.mark.parametrize("odd", ["folder", "loop", "dangling", "empty", "bytes", "one endless line"])
def test_files_that_cannot_be_read_or_hold_rubbish_end_nothing(tmp_path: Path, odd: str) -> None:
    """Root may read everything: folders, loops and dangling links stand for what a user may not read."""
    for name in EVERY_FILE:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if odd == "folder":
            path.mkdir()
        elif odd in ("loop", "dangling"):
            path.symlink_to(path.name if odd == "loop" else "nothing")
        else:
            path.write_bytes({"empty": b"", "bytes": os.urandom(5000), "one endless line": b"x" * 300_000}[odd])
    facts = kernel_of(tmp_path)
    assert facts.uname.os == "linux"
    assert facts.toolkits == ()
    assert facts.driver_gpus == (DriverGpu(None, None, "0000:01:00.0"),)


@pytest.mark.parametrize("content", ["", "\n", "garbage (", "0x\n"])
def test_a_device_on_the_bus_with_an_odd_number_does_not_hide_the_others(tmp_path: Path, content: str) -> None:
    root = lay(
        tmp_path,
        {
            **bus("0000:01:00.0", "0x030200", "10de", "2330"),
            "sys/bus/pci/devices/0000:01:00.0/vendor": content,
            "sys/bus/pci/devices/0000:01:00.0/device": content,
            **bus("0000:02:00.0", "0x030200", "10de", "2230"),
            "usr/share/misc/pci.ids": PCI_IDS,
        },
    )
    assert PciGpu("0000:02:00.0", "10de", "2230", "GA102GL [RTX A6000]") in (kernel_of(root).pci_gpus or ())


def test_the_files_of_a_root_are_all_that_is_read(tmp_path: Path) -> None:
    """Two roots, two machines: nothing of this one shows through but what uname says."""
    one = kernel_of(lay(tmp_path / "one", {"etc/os-release": "ID=one\n"}))
    two = kernel_of(lay(tmp_path / "two", {"etc/os-release": "ID=two\n"}))
    assert (one.distribution, two.distribution) == ("one", "two")
    assert one.toolkits == two.toolkits == ()
    assert one.device_nodes == two.device_nodes == ()


def test_this_machine_answers_too() -> None:
    facts = kernel_of(Path("/"))
    assert facts.uname.kernel == RELEASE
    assert facts.modules is not None
