"""A profile writes only below its machine's root; an invalid layout is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.program import gpuenv
from tests.simulate.commands import refusal, simulate

if TYPE_CHECKING:
    from pathlib import Path

DRIVER = "driver: {module: open, version: 550.163.01, cuda: 12.4"


@pytest.mark.parametrize(
    ("profile", "line", "expected"),
    [
        ("{d}}}\nfiles: {{{out}/x: y}}", 2, "files: expected paths below the machine's root"),
        ("{d}}}\nfiles: {{../../../..{out}/x: y}}", 2, "files: expected paths below the machine's root"),
        ("{d}}}\nfiles: {{'': y}}", 2, "files: expected paths below the machine's root"),
        ("{d}}}\nlinks: {{{out}/x: y}}", 2, "links: expected paths below the machine's root"),
        ("{d}}}\nlinks: {{a: ../../../../../../../..{out}}}", None, "links: a leads out of the machine"),
        ("{d}}}\nlinks: {{a: b/../../x}}", None, "links: a leads out of the machine"),
        ("{d}}}\nlinks: {{a: /../x}}", None, "links: a leads out of the machine"),
        ("{d}}}\nlinks: {{a: ../../../../../../..{out}, a/x: y}}", None, "links: a/x is below a link that leads out"),
        ("{d}}}\nstub: {{calls: {out}/x}}", 2, "stub: calls: unknown key"),
        ("{d}, nodes: [{out}/x]}}", 1, "driver: nodes: expected a name below /dev"),
        ("{d}, folder: ../../../..{out}}}", 1, "driver: folder: expected paths below the machine's root"),
        ("{d}, library: ../../../../../../..{out}/x}}", 1, "driver: library: expected letters, digits"),
        ("{d}, compat: {{version: ../../../../../../..{out}/x, cuda: 12.4}}}}", 1, "compat: version: expected letters"),
        ("{d}}}\nhost: {{kernel: ../../../../../../..{out}}}", 2, "host: kernel: expected letters"),
        ("{d}}}\nhost: {{arch: ../../../../..{out}}}", 2, "host: arch: expected letters"),
        (
            "{d}}}\nother_devices: [{{pci: ../../../../../../../..{out}, class: vga, vendor: '1002', device: '0001'}}]",
            2,
            "pci: expected addresses as sysfs writes them",
        ),
    ],
)
def test_files_are_written_only_inside_the_machine(
    tmp_path: Path, cache: Path, profile: str, line: int | None, expected: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    profile_file = tmp_path / "mine.yaml"
    profile_file.write_text(profile.format(d=DRIVER, out=outside) + "\n", encoding="utf-8")
    message = refusal(profile_file, "true", cache=cache)
    assert list(outside.iterdir()) == []
    assert expected in message
    assert line is None or message.startswith(f"mine.yaml: line {line}: ")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("environment: {BASH_ENV: '$(touch MARK)'}", "line 2: environment: BASH_ENV: expected variables of the driver"),
        ("environment: {ENV: '$(touch MARK)'}", "environment: ENV: expected"),
        ("environment: {LD_PRELOAD: FOLDER/evil.so}", "environment: LD_PRELOAD: expected"),
        ("environment: {PYTHONPATH: FOLDER}", "environment: PYTHONPATH: expected"),
        ("environment: {CUDA_INJECTION64_PATH: FOLDER/evil.so}", "environment: CUDA_INJECTION64_PATH: expected"),
        ("environment: {CUDA_PATH: FOLDER}", "environment: CUDA_PATH: expected"),
        ("environment: {SLURM_CONF: FOLDER/slurm.conf}", "environment: SLURM_CONF: expected"),
        ("environment: {PATH: FOLDER}", "environment: PATH: expected"),
        ("links: {usr/bin: FOLDER}", "usr/bin: the machine cannot be laid out: File exists"),
        ('files: {usr/lib/x86_64-linux-gnu/libz.so.1: "\\x7fELF"}', "libz.so.1 is a program or a library"),
        (
            'files: {a: "\\x7fELF"}\nlinks: {usr/lib/x86_64-linux-gnu/libz.so.1: ../../../a}',
            "a is a program or a library",
        ),
        ("links: {etc/sh: ../../../../../../../../FOLDER/evil}", "links: etc/sh leads out of the machine"),
        ("links: {a: b/c/d/../../../../x, b: ., c: ., d: .}", "links: a leads out of the machine"),
        ('stub: {smi.text: "x\\ncalls=MARK"}', "smi.text: expected one line without NUL"),
        ('stub: {"x\\ncalls": MARK}', "x: expected one line without NUL"),
    ],
)
def test_a_profile_runs_no_code(tmp_path: Path, cache: Path, lines: str, expected: str) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "re.py").write_text(f"open({str(mark)!r}, 'w')\n", encoding="utf-8")
    profile_file = tmp_path / "mine.yaml"
    lines = lines.replace("MARK", str(mark)).replace("FOLDER", str(tmp_path))
    profile_file.write_text(f"{DRIVER}}}\n{lines}\n", encoding="utf-8")
    assert expected in refusal(profile_file, "bash", "-c", "nvidia-smi; python3 -c 'import re'", cache=cache)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("toolkit: 10.2", "line 2: toolkit: expected a CUDA version such as 12.4, of major 11, 12, 13; found '10.2'"),
        ("toolkit: newest", "toolkit: expected a CUDA version such as 12.4"),
        ("toolkit: 12", "toolkit: expected a CUDA version such as 12.4"),
        ("timeout: soon", "line 2: timeout: expected seconds; found 'soon'"),
        ("files: {a: x, a/b: y}", "mine: a: the machine cannot be laid out: File exists"),
        ("links: {etc/os-release: x}", "mine: etc/os-release: the machine cannot be laid out: File exists"),
        (
            "gpus: [{name: X, capability: hopper, memory: 1 MiB, pci: '0000:31:00.0', device: 27b8, class: 3d}]",
            "gpus[0]: capability: expected a compute capability such as 9.0; found 'hopper'",
        ),
    ],
)
def test_an_invalid_layout_is_reported(tmp_path: Path, cache: Path, lines: str, expected: str) -> None:
    profile_file = tmp_path / "mine.yaml"
    profile_file.write_text(f"{DRIVER}}}\n{lines}\n", encoding="utf-8")
    assert expected in refusal(profile_file, "true", cache=cache)


def test_a_name_that_is_too_long_is_reported() -> None:
    result = gpuenv("simulate", f"/{'x' * 5000}.yaml", "--", "true")
    assert (result.returncode, result.stdout) == (2, "")
    assert "File name too long" in result.stderr


def test_an_absolute_link_leads_to_a_file_of_the_machine(tmp_path: Path, cache: Path) -> None:
    """As on NixOS, whose profile has such links; the same file of the host is not read."""
    profile_file = tmp_path / "mine.yaml"
    lines = "files: {store/release: of the machine}\nlinks: {etc/own: /store/release, etc/shadow: /etc/passwd}"
    profile_file.write_text(f"{DRIVER}}}\n{lines}\n", encoding="utf-8")
    command = 'cat "$GPUENV_DRIVER_ROOT/etc/own"; ! cat "$GPUENV_DRIVER_ROOT/etc/shadow" 2>&1'
    result = simulate(str(profile_file), "sh", "-c", command, cache=cache)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("of the machine")
    assert "root:" not in result.stdout


@pytest.mark.parametrize(
    "lines",
    [
        "links: {usr/bin/sh: FOLDER/evil}",
        "links: {usr/bin/python3: /bin/echo}",
        "links: {usr/bin/awk: nvidia-smi}",
        "links: {usr/lib/x86_64-linux-gnu/libc.so.6: libcuda.so.1}",
        "links: {usr/lib/x86_64-linux-gnu/glibc-hwcaps: /evil}",
        "links: {a: usr/bin, a/ls: FOLDER/evil}",
        'toolkit: "12.4"\nlinks: {usr/local/cuda/lib64/libc.so.6: libnvrtc.so.12}',
    ],
)
def test_no_program_or_library_of_the_command_is_replaced(tmp_path: Path, cache: Path, lines: str) -> None:
    profile_file = tmp_path / "mine.yaml"
    profile_file.write_text(f"{DRIVER}}}\n{lines.replace('FOLDER', str(tmp_path))}\n", encoding="utf-8")
    message = refusal(profile_file, "sh", "-c", "ls / && python3 -c 'print(1)'", cache=cache)
    assert "is in a folder from which programs load code; only NVIDIA's may be there" in message


def test_leftovers_of_a_driver_are_allowed_and_no_node_is_a_program(tmp_path: Path, cache: Path) -> None:
    profile_file = tmp_path / "mine.yaml"
    folder = "usr/lib/x86_64-linux-gnu"
    files = f"files: {{{folder}/libcuda.so.535.1: '', usr/bin/docker: ''}}"
    lines = f"{files}\nlinks: {{{folder}/libnvidia-old.so.1: libcuda.so.535.1}}"
    profile_file.write_text(f'{DRIVER}, nodes: ["nvidia0 0755"]}}\n{lines}\n', encoding="utf-8")
    command = f'cd "$GPUENV_DRIVER_ROOT"; readlink {folder}/libnvidia-old.so.1; test -x dev/nvidia0 || echo no program'
    result = simulate(str(profile_file), "sh", "-c", command, cache=cache)
    assert (result.returncode, result.stdout) == (0, "libcuda.so.535.1\nno program\n"), result.stderr
