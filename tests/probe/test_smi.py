"""What nvidia-smi prints, era by era: outputs of real machines, and rows that are not what they should be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuenv.model.snapshot import SourceState
from gpuenv.probe.ask import Asking, ask_smi
from gpuenv.probe.raw import SmiFacts, SmiGpu
from gpuenv.probe.smi import parse_banner, parse_gpus
from tests.probe.asking import asking

SAMPLES = {path.stem: path for path in (Path(__file__).parent / "samples").glob("*.txt")}
MIB = 1024 * 1024

# Driver version and CUDA level; under WSL the driver is that of Windows, not the number after NVIDIA-SMI.
SAID = {
    "r390-no-cuda": ("390.67", None),
    "r410-under-r418-tool": ("410.79", "10.0"),
    "r418-k80": ("418.67", "10.1"),
    "r418-gtx760-no-cuda": ("418.152.00", None),
    "r450-t4": ("450.51.06", "11.0"),
    "r470-v100": ("470.57.02", "11.4"),
    "r535-h100": ("535.104.12", "12.2"),
    "r535-a30-mig": ("535.183.01", "12.2"),
    "r550-h200": ("550.90.12", "12.4"),
    "r580-h200": ("580.65.06", "13.0"),
    "r610-rtx5000-ada": ("610.43.02", "13.3"),
    "gb200-580": ("580.126.09", "13.0"),
    "tegra540-orin": ("540.4.0", "12.6"),
    "wsl-510-rtx": ("511.69", "11.6"),
    "wsl-560-rtx3060ti": ("560.94", "12.6"),
    "wsl-615": ("616.64", "13.4"),
    "driver-not-loaded": (None, None),
    "library-mismatch": (None, None),
    "no-devices": (None, None),
}
ROW = "0, GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584, NVIDIA H200, 00000000:3A:00.0, 143771"
H200 = SmiGpu(0, "GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584", "NVIDIA H200", "00000000:3A:00.0", None, 143771 * MIB)


def test_every_sample_has_its_answer_and_its_source() -> None:
    assert set(SAMPLES) == set(SAID)
    sources = (Path(__file__).parent / "samples/SOURCES.md").read_text(encoding="utf-8")
    assert [name for name in SAID if f"`{name}.txt`" not in sources] == []


@pytest.mark.parametrize("name", SAID)
def test_the_banner_of_each_era_is_read(name: str) -> None:
    assert parse_banner(SAMPLES[name].read_text(encoding="utf-8")) == SAID[name]


def program(folder: Path, text: str) -> Asking:
    """Asks a program named nvidia-smi that is the only one on PATH before the system's own."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return asking({"PATH": f"{folder}:{os.defpath}"})


@pytest.mark.parametrize("name", [name for name, said in SAID.items() if said == (None, None)])
def test_what_nvidia_smi_complains_of_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    facts, source = ask_smi(program(tmp_path, f"cat {SAMPLES[name]}; exit 9"))
    first = SAMPLES[name].read_text(encoding="utf-8").split("\n", 1)[0]
    assert source.state is SourceState.FAILED
    for said in (facts.complaint, source.detail):
        assert said is not None
        assert first in said
        assert "\n" not in said
    assert (facts.driver_version, facts.cuda, facts.gpus) == (None, None, None)


def test_a_complaint_is_cut_where_a_program_prints_without_end(tmp_path: Path) -> None:
    facts, _ = ask_smi(program(tmp_path, "head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1"))
    assert facts.complaint is not None
    assert len(facts.complaint) < 1000


def test_a_failure_without_a_word_is_told_as_such(tmp_path: Path) -> None:
    facts, source = ask_smi(program(tmp_path, "exit 3"))
    assert facts.complaint
    assert "3" in (source.detail or "")


def test_banner_and_list_are_both_asked_for(tmp_path: Path) -> None:
    banner = SAMPLES["r580-h200"]
    facts, source = ask_smi(program(tmp_path, f"case $1 in --query*) echo '{ROW}';; *) cat {banner};; esac"))
    assert source.state is SourceState.ANSWERED
    assert (facts.driver_version, facts.cuda, facts.gpus) == ("580.65.06", "13.0", (H200,))
    assert facts.path == str(tmp_path / "nvidia-smi")


def test_a_program_of_that_name_that_says_something_else_tells_nothing(tmp_path: Path) -> None:
    facts, source = ask_smi(program(tmp_path, "echo hello"))
    assert source.state is SourceState.ANSWERED
    assert (facts.driver_version, facts.cuda, facts.gpus) == (None, None, ())
    assert "no driver version" in (source.detail or "")


def test_a_list_that_fails_is_told_with_its_reason(tmp_path: Path) -> None:
    banner = SAMPLES["r580-h200"]
    fails = "echo 'Field \"memory.total\" is not a valid field to query.'; exit 2"
    facts, source = ask_smi(program(tmp_path, f"case $1 in --query*) {fails};; *) cat {banner};; esac"))
    assert (facts.driver_version, facts.gpus) == ("580.65.06", None)
    assert source.state is SourceState.FAILED
    assert "not a valid field" in (source.detail or "")


def test_a_program_that_hangs_is_told_at_the_deadline(tmp_path: Path) -> None:
    program(tmp_path, "exec sleep 60")
    facts, source = ask_smi(asking({"PATH": f"{tmp_path}:{os.defpath}"}, limit=0.4))
    assert source.state is SourceState.TIMED_OUT
    assert facts.path == str(tmp_path / "nvidia-smi")


def test_a_program_that_cannot_be_started_is_told_with_the_reason(tmp_path: Path) -> None:
    """As one of another architecture, or a text without a first line that names its interpreter."""
    path = tmp_path / "nvidia-smi"
    path.write_text("just text\n", encoding="utf-8")
    path.chmod(0o755)
    facts, source = ask_smi(asking({"PATH": f"{tmp_path}:{os.defpath}"}))
    assert (source.state, facts.gpus) == (SourceState.FAILED, None)
    assert "Exec format error" in (source.detail or "")


def test_without_the_program_nothing_is_told(tmp_path: Path) -> None:
    if Path("/usr/lib/wsl/lib/nvidia-smi").exists():
        pytest.skip("under WSL it is found beside PATH")
    facts, source = ask_smi(asking({"PATH": str(tmp_path)}))
    assert (facts, source.state) == (SmiFacts(), SourceState.ABSENT)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bash: nvidia-smi: command not found",
        "Driver Version: N/A   CUDA Version: N/A",
        "Driver Version: ERR!  CUDA Version: ERR!",
        "Driver Version:       CUDA Version:",
        "<html><title>502 Bad Gateway</title></html>",
        "\x00\x01\x02",
    ],
)
def test_a_text_without_versions_gives_none(text: str) -> None:
    assert parse_banner(text) == (None, None)


def test_rows_are_read_with_bytes_in_place_of_mebibytes() -> None:
    assert parse_gpus(ROW + "\n") == (H200,)


def test_each_gpu_has_a_row_and_blank_lines_are_none() -> None:
    text = "\n".join([ROW, "", ROW.replace("0, GPU", "1, GPU", 1), "   ", ""])
    assert [gpu.index for gpu in parse_gpus(text)] == [0, 1]


def test_rows_of_windows_line_ends_are_read() -> None:
    assert parse_gpus(ROW + "\r\n") == (H200,)


@pytest.mark.parametrize("nothing", ["[N/A]", "[Not Supported]", "[Unknown Error]", "[GPU is lost]", "N/A", ""])
def test_a_field_that_nvidia_smi_cannot_fill_is_unknown(nothing: str) -> None:
    (gpu,) = parse_gpus("0" + f", {nothing}" * 4)
    assert gpu == SmiGpu(index=0)


def test_a_unit_that_was_not_asked_for_does_no_harm() -> None:
    (gpu,) = parse_gpus(ROW + " MiB")
    assert gpu.memory_total == 143771 * MIB


@pytest.mark.parametrize(
    "odd",
    [
        "index, uuid, name, pci.bus_id, memory.total [MiB]",
        "No devices were found",
        "0, GPU-1",
        ROW + ", one more",
        "x" + ROW,
        "Unable to determine the device handle for GPU0000:3A:00.0: GPU is lost.",
        pytest.param("\0"),
        pytest.param("x" * 200_000, id="long"),
    ],
)
def test_a_row_of_another_form_is_skipped_and_the_others_are_kept(odd: str) -> None:
    assert parse_gpus(f"{ROW}\n{odd}\n{ROW}\n") == (H200, H200)


def test_nothing_printed_is_no_gpu() -> None:
    assert parse_gpus("") == ()
