"""Faults in each file that the kernel script reads, on a machine that has them all."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.probe.context import script
from gpuenv.probe.protocol import parse_facts
from tests.probe.probe_runs import MINIMAL, kernel_of
from tests.probe.roots import make_root

if TYPE_CHECKING:
    from collections.abc import Callable

RELEASE = os.uname().release
NODE = "sys/class/kfd/kfd/topology/nodes"
BUS = "sys/bus/pci/devices/0000:01:00.0"
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# The file that is read if the first one is missing.
FALLBACKS = {
    "etc/os-release": "usr/lib/os-release",
    "dev/kmsg": "var/log/kern.log",
    "var/log/kern.log": "var/log/messages",
    "var/log/messages": "var/log/dmesg",
    "usr/share/misc/pci.ids": "usr/share/hwdata/pci.ids",
}
FILES: dict[str, bytes] = {
    "etc/os-release": b"ID=ubuntu\nVERSION_ID=24.04\n",
    "usr/lib/os-release": b"ID=other\nVERSION_ID=1\n",
    "proc/1/cgroup": b"7:devices:/docker/3f1c0e\n",
    "proc/1/comm": b"python\n",
    "proc/self/mountinfo": (
        b"28 1 0:26 / / rw - overlay overlay rw\n30 28 8:1 /x /usr/lib64/libcuda.so.1.1 ro - ext4 /x rw\n"
    ),
    "proc/self/cgroup": b"7:devices:/docker/3f1c0e\n",
    "run/systemd/container": b"docker\n",
    "run/ostree-booted": b"",
    "proc/version": b"Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n",
    "etc/nv_tegra_release": b"# R36 (release), REVISION: 4.3\n",
    "proc/device-tree/compatible": b"nvidia,tegra234\0",
    SECURE_BOOT: b"\x06\0\0\0\x01",
    "sys/power/suspend_stats/success": b"2\n",
    "proc/sys/vm/overcommit_memory": b"1\n",
    "sys/kernel/security/lockdown": b"none [integrity] confidentiality\n",
    "sys/module/module/parameters/sig_enforce": b"Y\n",
    f"{BUS}/class": b"0x030200\n",
    f"{BUS}/vendor": b"0x10de\n",
    f"{BUS}/device": b"0x2330\n",
    "usr/share/misc/pci.ids": b"10de  NVIDIA Corporation\n\t2330  GH100\n",
    "usr/share/hwdata/pci.ids": b"10de  NVIDIA Corporation\n\t2330  Another name\n",
    "usr/local/cuda-12.4/version.json": b'{"cuda": {"version": "12.4.1"}}',
    "usr/local/cuda-12.4/version.txt": b"CUDA Version 12.4.1\n",
    "usr/local/cuda-12.4/include/cuda.h": b"#define CUDA_VERSION 12040\n",
    "usr/local/cuda-13.0/targets/sbsa-linux/include/cuda.h": b"#define CUDA_VERSION 13000\n",
    "opt/cuda/version.json": b'{"cuda": {"version": "12.1.1"}}',
    "opt/cuda/version.txt": b"CUDA Version 12.1.1\n",
    "opt/cuda/include/cuda.h": b"#define CUDA_VERSION 12010\n",
    "opt/cuda/targets/x86_64-linux/include/cuda.h": b"#define CUDA_VERSION 12010\n",
    "proc/modules": b"nvidia 1 0 - Live 0x0\n",
    f"lib/modules/{RELEASE}/modules.dep": b"updates/dkms/nvidia.ko:\n",
    "lib/modules/5.4.0-1-generic/modules.dep": b"updates/dkms/nvidia.ko:\n",
    "proc/cmdline": b"quiet module_blacklist=nvidia\n",
    "etc/modprobe.d/blacklist-nvidia.conf": b"alias nvidia off\n",
    "usr/lib/modprobe.d/more.conf": b"blacklist nvidia\noptions nvidia NVreg_DeviceFileMode=0660\n",
    "sys/module/nvidia/version": b"580.95.05\n",
    "proc/driver/nvidia/version": b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Sat Aug 19\n",
    "proc/driver/nvidia/gpus/0000:01:00.0/information": b"Model: \t\t H100\nBus Location: \t 0000:01:00.0\n",
    "proc/driver/nvidia/params": b'ExcludedGpus: "0000:02:00.0"\n',
    "var/lib/dkms/nvidia/580.95.05/build/make.log": b"DKMS make.log for nvidia-580.95.05 for kernel 6.5.2 (x86_64)\n",
    "usr/lib64/libcuda.so.1.1": b"",
    f"{NODE}/1/name": b"aldebaran\n",
    f"{NODE}/1/properties": b"gfx_target_version 90010\nvendor_id 4098\nlocation_id 37632\ndomain 0\n",
    f"{NODE}/1/mem_banks/0/properties": b"heap_type 1\nsize_in_bytes 1024\n",
    "opt/rocm/.info/version": b"6.2.0-66\n",
    "opt/rocm/include/rocm-core/rocm_version.h": (
        b"#define ROCM_VERSION_MAJOR 6\n#define ROCM_VERSION_MINOR 2\n#define ROCM_VERSION_PATCH 0\n"
    ),
    "proc/devices": b"Character devices:\n195 nvidia-frontend\n511 nvidia-uvm\n",
    "sys/fs/cgroup/devices/docker/3f1c0e/devices.list": b"c 195:0 rw\nc 511:0 rw\nc 1:3 rwm\n",
    "etc/cdi/nvidia.yaml": b'kind: nvidia.com/gpu\ndevices:\n- name: "0"\n',
    "var/run/cdi/more.json": b'{"kind": "nvidia.com/gpu", "devices": [{"name": "all"}]}',
    "etc/docker/daemon.json": b'{"runtimes": {"nvidia": {}}, "default-runtime": "nvidia"}',
    "usr/bin/nvidia-ctk": b"",
    "var/lib/dpkg/info/nvidia-container-toolkit.list": b"",
    "var/lib/dpkg/status": b"Package: nvidia-container-toolkit\nVersion: 1.17.8-1\n",
    "var/run/nvidia-container-devices/0": b"",
    "dev/kmsg": b"4,1,1,-;NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n",
    "var/log/kern.log": b"Nov 21 06:00:09 node17 kernel: [    9.4] NVRM: of kern.log\n",
    "var/log/messages": b"Nov 21 06:00:09 node17 kernel: NVRM: of messages\n",
    "var/log/dmesg": b"[    9.4] kernel: NVRM: of dmesg\n",
    "tmp/nvidia-mps/control": b"",
    "usr/bin/nvidia-uninstall": b"",
}
# Files whose content is not read, only whether they exist.
EXISTENCE_ONLY = {
    "run/ostree-booted",
    "usr/lib64/libcuda.so.1.1",
    "usr/bin/nvidia-ctk",
    "var/lib/dpkg/info/nvidia-container-toolkit.list",
    "var/run/nvidia-container-devices/0",
    "tmp/nvidia-mps/control",
    "usr/bin/nvidia-uninstall",
}


CONTAINER_MARKERS = ("/proc/1/cgroup", "/proc/1/comm", "/proc/self/mountinfo", "/run/systemd/container")
NODE = "/sys/class/kfd/kfd/topology/nodes/*"
# The files that are read for each fact, as patterns of paths below the root. Other facts read none.
READ: dict[str, tuple[str, ...]] = {
    "distribution": ("/etc/os-release", "/usr/lib/os-release"),
    "container": CONTAINER_MARKERS,
    "sandbox": ("/proc/version",),
    "tegra": ("/etc/nv_tegra_release", "/proc/device-tree/compatible"),
    "secure_boot": ("/sys/firmware/efi/efivars/SecureBoot-*",),
    "lockdown": ("/sys/kernel/security/lockdown",),
    "module_signatures": ("/sys/module/module/parameters/sig_enforce",),
    "suspends": ("/sys/power/suspend_stats/success",),
    "overcommit": ("/proc/sys/vm/overcommit_memory",),
    "pci_gpus": (
        *CONTAINER_MARKERS,
        *(f"/sys/bus/pci/devices/*/{name}" for name in ("class", "vendor", "device")),
        *("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"),
    ),
    "toolkits": tuple(
        f"{folder}/{name}"
        for folder in ("/usr/local/cuda*", "/opt/cuda", "/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit")
        for name in ("version.json", "version.txt", "include/cuda.h", "targets/*/include/cuda.h")
    ),
    "modules": ("/proc/modules", "/lib/modules/*/modules.dep"),
    "module_files": ("/lib/modules/*/modules.dep",),
    "module_blocks": ("/proc/cmdline", "/etc/modprobe.d/*", "/usr/lib/modprobe.d/*"),
    "module_options": ("/proc/cmdline", "/etc/modprobe.d/*", "/usr/lib/modprobe.d/*"),
    "dkms": ("/var/lib/dkms/*/*/build/make.log",),
    "libraries": ("/proc/self/mountinfo",),
    "amd_nodes": (f"{NODE}/properties", f"{NODE}/name", f"{NODE}/mem_banks/*/properties"),
    "rocm": ("/opt/rocm/.info/version", "/opt/rocm/include/rocm-core/rocm_version.h"),
    "device_rules": (*CONTAINER_MARKERS, "/proc/self/cgroup", "/proc/devices", "/sys/fs/cgroup/devices/*devices.list"),
    "cdi_files": ("/etc/cdi/*", "/var/run/cdi/*"),
    "engine": ("/etc/docker/daemon.json",),
    "container_toolkit": ("/var/lib/dpkg/status",),
    "kernel_log": ("/dev/kmsg", "/var/log/kern.log", "/var/log/messages", "/var/log/dmesg"),
    "sys_version": ("/sys/module/nvidia/version",),
    "proc_version": ("/proc/driver/nvidia/version",),
    "driver_params": ("/proc/driver/nvidia/params",),
    "driver_gpus": ("/proc/driver/nvidia/gpus/*/information",),
}
WITHOUT_FILES = {
    "uname",
    "address_limit",
    "wsl",
    "image",
    "device_nodes",
    "pointing_nowhere",
    "mounted_requests",
    "mps",
    "uninstaller",
}


def facts_of(name: str) -> set[str]:
    """The facts that depend on a file."""
    return {fact for fact, files in READ.items() if any(fnmatch.fnmatch(f"/{name}", file) for file in files)}


def facts_below(root: Path, limit: float = 20.0) -> dict[str, Any]:
    """Every fact of a root; a traceback, an error or a missing end fails the test."""
    command = [sys.executable, "-I", script("start.py"), "kernel", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=MINIMAL, timeout=limit)
    assert done.stderr == ""
    facts = parse_facts(done.stdout)
    assert facts.pop("done") is True
    return facts


def facts_below_each(roots: list[Path]) -> list[dict[str, Any]]:
    """The facts of many roots, read by the script's main in one process, since one process for each takes minutes."""
    program = (
        f"import sys; sys.path.insert(0, {str(Path(script('kernel.py')).parent)!r}); import kernel\n"
        "for root in sys.stdin.read().splitlines():\n"
        "    sys.argv = ['kernel.py', root]; kernel.main(); print('next', flush=True)\n"
    )
    command = [sys.executable, "-I", "-c", program]
    lines = "".join(f"{root}\n" for root in roots)
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, check=True, env=MINIMAL, timeout=10 + len(roots)
    )
    results = [parse_facts(part) for part in done.stdout.split("next\n")[:-1]]
    assert [facts.pop("done") for facts in results] == [True] * len(roots)
    return results


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return facts_below(make_root(tmp_path_factory.mktemp("intact") / "root", FILES))


def test_every_fact_is_reported_on_a_machine_with_every_file(intact: dict[str, Any]) -> None:
    assert set(intact) == READ.keys() | WITHOUT_FILES
    empty = {fact for fact, value in intact.items() if value in (None, [], {})}
    # The root has no device nodes; no variable and no limit is set; the running kernel has a module.
    assert empty == {"device_nodes", "pointing_nowhere", "address_limit", "module_files"}


def test_every_file_pattern_matches_a_file_of_that_machine() -> None:
    for files in READ.values():
        for pattern in files:
            folders = pattern.startswith(("/usr/local/cuda", "/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit"))
            assert folders or any(fnmatch.fnmatch(f"/{name}", pattern) for name in FILES), pattern
    assert {name for name in FILES if not facts_of(name)} == EXISTENCE_ONLY


def test_only_files_of_the_table_are_opened(tmp_path: Path) -> None:
    """Checked by the interpreter's audit events for opened files."""
    root = make_root(tmp_path / "root", FILES)
    program = (
        "import os, runpy, sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, details: opened.append(details[0]) if event == 'open' else None)\n"
        f"sys.argv = ['start.py', 'kernel', {str(root)!r}]\n"
        f"runpy.run_path({script('start.py')!r})['main']()\n"
        "print('\\n'.join(str(path) for path in opened), file=sys.stderr)\n"
    )
    command = [sys.executable, "-I", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=MINIMAL, timeout=20)
    opened = {line.removeprefix(f"{root}/") for line in done.stderr.splitlines() if line.startswith(f"{root}/")}
    assert "etc/os-release" in opened
    patterns = {pattern for files in READ.values() for pattern in files}
    stray = {name for name in opened if not any(fnmatch.fnmatch(f"/{name}", pattern) for pattern in patterns)}
    assert stray == set()


def fifo(path: Path) -> None:
    os.mkfifo(path)


FAULTS: dict[str, Callable[[Path], object]] = {
    "absent": lambda _: None,
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(bytes(range(256)) * 20),
    "deep": lambda path: path.write_bytes(b"[" * 100_000),
    "one endless line": lambda path: path.write_bytes(b"x" * 3_000_000),
    "endless number": lambda path: path.write_bytes(b"9" * 60_000 + b"\n"),
    "folder": lambda path: path.mkdir(),
    "fifo": fifo,
    "loop": lambda path: path.symlink_to(path.name),
    "out of the root": lambda path: path.symlink_to("/etc/hostname"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_file_affects_only_its_own_facts(tmp_path: Path, intact: dict[str, Any], fault: str) -> None:
    """A folder and a loop stand for unreadable files, since root may read every file."""
    roots = []
    for number, name in enumerate(FILES):
        root = make_root(tmp_path / str(number), FILES)
        (root / name).unlink()
        FAULTS[fault](root / name)
        roots.append(root)
    for name, facts in zip(FILES, facts_below_each(roots), strict=True):
        changed = {fact for fact in intact if facts.get(fact) != intact[fact]}
        if name not in EXISTENCE_ONLY:
            assert changed <= facts_of(name), f"{name}: {changed}"
        assert set(facts) - {"failed"} | set(facts.get("failed", {})) == READ.keys() | WITHOUT_FILES, name


@pytest.mark.parametrize("name", FALLBACKS)
def test_a_fallback_is_read_if_the_first_file_is_missing(tmp_path: Path, intact: dict[str, Any], name: str) -> None:
    root = make_root(tmp_path / "root", FILES)
    for first in list(FALLBACKS)[1 : list(FALLBACKS).index(name) + 1] if name.startswith("var/log") else [name]:
        (root / first).unlink()
    facts = facts_below(root)
    (fact,) = facts_of(name)
    assert facts[fact] not in (None, intact[fact])
    if fact == "kernel_log":
        assert facts[fact]["source"] == f"/{FALLBACKS[name]}"


def test_all_files_broken_at_once_do_not_stop_the_script(tmp_path: Path) -> None:
    for fault, corrupt in FAULTS.items():
        root = make_root(tmp_path / fault, FILES)
        for name in FILES:
            (root / name).unlink()
            corrupt(root / name)
        assert facts_below(root)["uname"]["os"] == "linux"


def test_a_folder_with_a_hundred_thousand_files_costs_little(tmp_path: Path) -> None:
    folder = tmp_path / "usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    (folder / "libcuda.so.580.95.05").write_bytes(b"")
    before = _seconds(tmp_path)
    for number in range(100_000):
        os.mknod(folder / f"other-{number}.so")
    assert [entry.path for entry in kernel_of(tmp_path).libraries] == ["/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"]
    assert _seconds(tmp_path) < before + 1.0  # 0.05 s on a quiet machine


def _seconds(root: Path) -> float:
    """The least seconds of three runs."""
    seconds = []
    for _ in range(3):
        started = time.monotonic()
        facts_below(root)
        seconds.append(time.monotonic() - started)
    return min(seconds)


def test_a_file_name_that_is_not_utf_8_is_reported_with_replacements(tmp_path: Path) -> None:
    (tmp_path / "etc/cdi").mkdir(parents=True)
    with (tmp_path / "etc/cdi").joinpath(os.fsdecode(b"gpu-\xff.yaml")).open("w", encoding="utf-8") as file:
        file.write("kind: nvidia.com/gpu\n")
    (entry,) = kernel_of(tmp_path).cdi_files
    assert entry.path == "/etc/cdi/gpu-?.yaml"
    assert entry.path.encode("utf-8")
