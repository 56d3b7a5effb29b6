"""The selected lines of the kernel log, their source and their content."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.redaction import hide_secrets
from gpuenv.probe.assembly import kernel_log
from tests.install.mounts import mounted
from tests.probe.probe_runs import kernel_of
from tests.probe.raw_facts import KernelFacts, RawLog
from tests.support.planted_secrets import LONG_URL, shown_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1122, GPU has fallen off the bus."


def test_a_long_line_is_not_cut_within_a_secret(tmp_path: Path) -> None:
    line = f"Command line: root=/dev/sda1 nvidia-drm.modeset=1 {'quiet ' * 50} ignition.url={LONG_URL.line}"
    found = kernel_log(KernelFacts(kernel_log=log_of(tmp_path, {"var/log/dmesg": f"[    0.000000] {line}\n"})))
    (message,) = found.value or ()
    assert message.text.startswith("Command line: root=/dev/sda1 nvidia-drm")
    assert len(message.text) <= 400
    assert shown_parts(LONG_URL, hide_secrets(message.text)) == []


def log_of(root: Path, files: Mapping[str, str]) -> RawLog:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return RawLog.of(kernel_of(root).kernel_log)


@pytest.mark.parametrize(
    ("line", "xid", "pci"),
    [
        (XID, 79, "0000:3b:00.0"),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", 14, "0000:03:00.0"),
        ("NVRM: Xid (PCI:00000000:3B:00): 48, pid='<unknown>', name=<unknown>, DBE", 48, "0000:3b:00.0"),
        ("NVRM: Xid (PCI:0000:41:00 GPU-I:05): 45, pid=1896, name=python, Ch 00000010", 45, "0000:41:00.0"),
        ("NVRM: Xid (PCI:0000:41:00.0): 119, pid=1896", 119, "0000:41:00.0"),
        ("NVRM: GPU at PCI:0000:03:00: GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7", None, "0000:03:00.0"),
        ("NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", None, "0000:01:00.0"),
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore", None, None),
        ("NVRM: Xid (PCI:0000:3b:00): seventy-nine", None, None),
        ("NVRM: Xid (PCI:0000:3b:00): 4294967296, x", None, None),
        ("nvidia: module license 'NVIDIA' taints kernel.", None, None),
    ],
)
def test_the_xid_and_the_gpu_of_an_event_are_parsed_in_every_form(line: str, xid: int | None, pci: str | None) -> None:
    (message,) = kernel_log(KernelFacts(kernel_log=RawLog("/dev/kmsg", (line,)))).value or ()
    assert (message.text, message.xid, message.pci) == (line, xid, pci)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("dev/kmsg", f"4,2305,9217441013,-;{XID}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n"),
        ("dev/kmsg", f"4,2305,9217441013,-,caller=T1;{XID}\n"),
        ("var/log/kern.log", f"Nov 22 18:29:55 gauss kernel: [  966.503025] {XID}\n"),
        ("var/log/kern.log", f"2025-10-01T13:00:00.123456+00:00 gauss kernel: {XID}\n"),
        ("var/log/messages", f"Okt 06 17:59:27 gauss kernel: {XID}\n"),
        ("var/log/dmesg", f"[    5.412091] {XID}\n"),
        ("var/log/dmesg", f"[    5.412091][  T812] {XID}\n"),
        ("var/log/dmesg", f"[    5.412091] kernel: {XID}\n"),
    ],
)
def test_the_time_and_the_host_are_stripped_from_a_log_line(tmp_path: Path, file: str, line: str) -> None:
    assert log_of(tmp_path, {file: line}) == RawLog(f"/{file}", (XID,))


def test_lines_of_other_programs_in_syslog_are_skipped(tmp_path: Path) -> None:
    lines = "Nov 22 18:29:55 gauss nvidia-persistenced[812]: started\nNov 22 18:29:56 gauss sudo: NVRM: Xid of sudo\n"
    assert log_of(tmp_path, {"var/log/messages": lines}).lines == ()


def test_the_lines_before_the_last_boot_are_left_out(tmp_path: Path) -> None:
    lines = [
        f"kernel: {XID}",
        "kernel: Linux version 6.8.0 (a)",
        "kernel: NVRM: loading",
        "kernel: usb 1-1: new device",
    ]
    log = log_of(tmp_path, {"var/log/kern.log": "".join(f"Nov 22 18:29:55 gauss {line}\n" for line in lines)})
    assert log.lines == ("NVRM: loading",)


def test_repeated_lines_do_not_displace_an_event(tmp_path: Path) -> None:
    flood = [f"4,{n},1,-;NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x65:{n})" for n in range(500)]
    repeated = ["4,900,1,-;nvidia: the same"] * 40
    log = log_of(tmp_path, {"dev/kmsg": "\n".join([f"4,1,1,-;{XID}", *flood, *repeated]) + "\n"})
    assert len(log.lines) == 50
    assert log.lines[0] == XID
    assert log.lines[-2:] == ("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x65:499)", "nvidia: the same")


def test_many_events_do_not_displace_the_last_lines(tmp_path: Path) -> None:
    events = [f"4,{n},1,-;NVRM: Xid (PCI:0000:3b:00): 31, pid={n}" for n in range(200)]
    log = log_of(tmp_path, {"dev/kmsg": "\n".join([*events, "4,201,1,-;nvidia: the last"]) + "\n"})
    assert (len(log.lines), log.lines[0].endswith("pid=151")) == (50, True)
    assert log.lines[-1] == "nvidia: the last"


def test_serial_numbers_and_names_of_crashed_programs_are_left_out(tmp_path: Path) -> None:
    text = (
        "4,1,1,-;NVRM: GPU Board Serial Number: 1320221075234\n"
        "4,2,1,-;NVRM: GPU serial number is 1320221075234.\n"
        "6,3,1,-;secret[4711]: segfault at 0 ip 00007fc5 sp 00007ffc error 6 in libnvidia-ml.so.580.95.05[499f]\n"
    )
    assert log_of(tmp_path, {"dev/kmsg": text}).lines == ()


def test_only_the_end_of_a_large_file_is_read(tmp_path: Path) -> None:
    filling = "Nov 22 18:29:55 gauss kernel: something else that is long enough to fill a file with it\n" * 60_000
    old = "Nov 22 18:00:00 gauss kernel: NVRM: old\n"
    log = log_of(tmp_path, {"var/log/kern.log": old + filling + f"Nov 22 18:29:55 gauss kernel: {XID}\n"})
    assert log.lines == (XID,)


def test_the_reason_for_a_missing_log_is_reported(tmp_path: Path) -> None:
    log = log_of(tmp_path, {})
    assert log.source is None
    assert log.reason == "/dev/kmsg: No such file or directory; and no syslog file can be read"
    assert kernel_log(KernelFacts(kernel_log=log)).reason == log.reason


def test_a_terminal_in_place_of_the_kernel_log_is_not_read(tmp_path: Path) -> None:
    """Some containers have one; reading would consume its input."""
    master, terminal = os.openpty()
    device = tmp_path / "dev/kmsg"
    device.parent.mkdir()
    device.touch()
    try:
        with mounted(device, "--bind", os.ttyname(terminal)):
            os.write(master, f"4,1,2,-;{XID}\n".encode())
            log = log_of(tmp_path, {})
            assert (log.source, (log.reason or "").partition(";")[0]) == (None, "/dev/kmsg: it is not a log")
            assert XID.encode() in os.read(terminal, 200)
    finally:
        os.close(master)
        os.close(terminal)


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="this user may not read the kernel's buffer")
def test_the_kernels_buffer_is_read_to_its_end_without_waiting() -> None:
    log = kernel_of(Path("/")).kernel_log
    assert log is not None
    if log.source is None:  # readable by its mode, but only with CAP_SYSLOG
        assert "not permitted" in log.reason
    else:
        assert log.source == "/dev/kmsg"
        assert len(log.lines) <= 50
