"""The kernel script on made-up driver roots: a real child reads real files below another root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpuenv.model.snapshot import PciGpu
from gpuenv.probe.context import script
from gpuenv.probe.protocol import parse_facts
from tests.probe.probe_runs import kernel_of
from tests.probe.raw_facts import DriverGpu, KernelModules
from tests.probe.roots import bind_driver, make_root, pci_device

RELEASE = os.uname().release
MODULES = f"lib/modules/{RELEASE}"
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


def test_an_empty_root_has_only_the_facts_of_uname(tmp_path: Path) -> None:
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


def test_display_and_3d_controllers_are_found_on_the_bus(tmp_path: Path) -> None:
    root = make_root(
        tmp_path,
        {
            **pci_device("0000:00:00.0", "0x060000", "8086", "1237"),
            **pci_device("0000:00:02.0", "0x030000", "8086", "2330"),
            **pci_device("0000:01:00.0", "0x030200", "10de", "2330"),
            **pci_device("0000:02:00.0", "0x038000", "10de", "2230"),
            **pci_device("0000:03:00.0", "0x068000", "10de", "22a3"),
            **pci_device("0000:04:00.0", "0x120000", "1002", "2230"),
            **pci_device("000052ce:00:00.0", "0x030200", "10de", "ffff"),
            "usr/share/misc/pci.ids": PCI_IDS,
        },
    )
    bind_driver(root, "0000:01:00.0", "nvidia")
    bind_driver(root, "0000:02:00.0", "nouveau")
    bind_driver(root, "0000:04:00.0", "amdgpu")
    assert kernel_of(root).pci_gpus == (
        PciGpu("000052ce:00:00.0", "10de", "ffff", None, None),
        PciGpu("0000:00:02.0", "8086", "2330", "A device of the same number", None),
        PciGpu("0000:01:00.0", "10de", "2330", "GH100 [H100 SXM5 80GB]", "nvidia"),
        PciGpu("0000:02:00.0", "10de", "2230", "GA102GL [RTX A6000]", "nouveau"),
        PciGpu("0000:04:00.0", "1002", "2230", "A device of the same number", "amdgpu"),
    )


def test_a_bus_without_display_controllers_has_no_gpus(tmp_path: Path) -> None:
    assert kernel_of(make_root(tmp_path, pci_device("0000:00:00.0", "0x060000", "8086", "1237"))).pci_gpus == ()


@pytest.mark.parametrize(("markers", "gpus"), [({}, ()), ({".dockerenv": ""}, None)])
def test_a_bus_without_any_device_is_unknown_in_a_container(
    tmp_path: Path, markers: dict[str, str], gpus: tuple[PciGpu, ...] | None
) -> None:
    root = make_root(tmp_path, markers)
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    assert kernel_of(root).pci_gpus == gpus


def test_the_pci_names_of_a_red_hat_system_are_read(tmp_path: Path) -> None:
    root = make_root(
        tmp_path, {**pci_device("0000:01:00.0", "0x030200", "10de", "2230"), "usr/share/hwdata/pci.ids": PCI_IDS}
    )
    (gpu,) = kernel_of(root).pci_gpus
    assert gpu.name == "GA102GL [RTX A6000]"


def test_device_nodes_are_reported_with_mode_and_owner(tmp_path: Path) -> None:
    names = ("nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
    root = make_root(tmp_path, {f"dev/{name}": "" for name in (*names, "null", "nvme0", "dri/card0")})
    (root / "dev/nvidiactl").chmod(0o640)
    nodes = {node.path: node for node in kernel_of(root).device_nodes}
    assert set(nodes) == {f"/dev/{name}" for name in names if name != "nvidia-uvm-tools"}
    assert nodes["/dev/nvidiactl"].mode == "-rw-r-----"
    assert nodes["/dev/nvidiactl"].owner == f"{os.getuid()}:{os.getgid()}"
    assert nodes["/dev/nvidia0"].accessible


def test_an_inaccessible_device_node_is_reported_as_such() -> None:
    """Run as an unprivileged user, since root may open everything."""
    with tempfile.TemporaryDirectory() as folder:
        scripts = Path(script("kernel.py")).parent
        copies = {name: (scripts / name).read_bytes() for name in ("start.py", "kernel.py", "shared.py")}
        root = make_root(Path(folder), {"dev/nvidia0": "", "dev/nvidiactl": "", **copies})
        for path, mode in ((root, 0o755), (root / "dev/nvidia0", 0o600), (root / "dev/nvidiactl", 0o666)):
            path.chmod(mode)
        command = _as_unprivileged_user([*_python_for_all(), "-B", str(root / "start.py"), "kernel", str(root)])
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
        nodes = parse_facts(done.stdout)["device_nodes"]
    assert {node["path"]: node["accessible"] for node in nodes} == {"/dev/nvidia0": False, "/dev/nvidiactl": True}


def _as_unprivileged_user(command: list[str]) -> list[str]:
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]


def _python_for_all() -> list[str]:
    """An interpreter that any user may run, unlike one below /root."""
    check = ["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]
    for path in filter(None, (sys.executable, shutil.which("python3", path=os.defpath))):
        if subprocess.run(_as_unprivileged_user([path, *check]), capture_output=True, check=False).returncode == 0:
            return [path]
    pytest.skip("no Python here may be run by another user")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Model: \t\t Tesla K80\nIRQ:   \t\t 34\nGPU UUID: \t GPU-????????-????-????-????-????????????\n", "Tesla K80"),
        ("Model: \t\t Unknown\n", "Unknown"),
        ("", None),
        ("\x00\x01\xff", None),
    ],
)
def test_an_uninitialised_gpu_has_no_uuid(tmp_path: Path, text: str, expected: str | None) -> None:
    root = make_root(tmp_path, {"proc/driver/nvidia/gpus/0000:06:00.0/information": text})
    assert kernel_of(root).driver_gpus == (DriverGpu(expected, None, "0000:06:00.0"),)


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
def test_unreadable_and_malformed_files_do_not_stop_the_script(tmp_path: Path, odd: str) -> None:
    """Folders, loops and dangling links stand for unreadable files, since root may read every file."""
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
def test_a_malformed_device_on_the_bus_does_not_hide_the_others(tmp_path: Path, content: str) -> None:
    root = make_root(
        tmp_path,
        {
            **pci_device("0000:01:00.0", "0x030200", "10de", "2330"),
            "sys/bus/pci/devices/0000:01:00.0/vendor": content,
            "sys/bus/pci/devices/0000:01:00.0/device": content,
            **pci_device("0000:02:00.0", "0x030200", "10de", "2230"),
            "usr/share/misc/pci.ids": PCI_IDS,
        },
    )
    assert PciGpu("0000:02:00.0", "10de", "2230", "GA102GL [RTX A6000]") in (kernel_of(root).pci_gpus or ())


def test_no_file_outside_of_the_root_is_read(tmp_path: Path) -> None:
    """Only uname's facts are those of this machine."""
    one = kernel_of(make_root(tmp_path / "one", {"etc/os-release": "ID=one\n"}))
    two = kernel_of(make_root(tmp_path / "two", {"etc/os-release": "ID=two\n"}))
    assert (one.distribution, two.distribution) == ("one", "two")
    assert one.toolkits == two.toolkits == ()
    assert one.device_nodes == two.device_nodes == ()


def test_the_facts_of_this_machine_are_read() -> None:
    facts = kernel_of(Path("/"))
    assert facts.uname.kernel == RELEASE
    assert facts.modules is not None
