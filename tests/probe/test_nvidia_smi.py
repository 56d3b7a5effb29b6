"""Parsing the output of nvidia-smi: samples of real machines of every driver generation, and failures."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

import pytest

from gpuenv.model.snapshot import SourceState
from gpuenv.probe.context import ProbeContext
from gpuenv.probe.nvidia_smi import parse_banner
from gpuenv.probe.raw import ListedGpu, SmiFacts
from gpuenv.simulate.stub_driver import StubDriver, lay_out
from tests.probe.probe_runs import probe_context, probe_smi

SAMPLES = {path.stem: path for path in (Path(__file__).parent / "samples").glob("*.txt")}
MIB = 1024 * 1024
# Driver version and CUDA level; under WSL the driver is that of Windows, not the number after NVIDIA-SMI.
VERSIONS = {
    "r390-no-cuda": ("390.67", None),
    "r410-under-r418-tool": ("410.79", "10.0"),
    "r384-inforom": ("384.130", None),
    "r460-err-power": ("460.32.03", "11.2"),
    "r550-a40x10": ("550.127.05", "12.4"),
    "r610-b200": ("610.43.02", "13.3"),
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
H200 = ListedGpu(0, "GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584", "NVIDIA H200", "00000000:3A:00.0", None, 143771 * MIB)


def test_every_sample_has_expected_versions_and_a_source() -> None:
    assert set(SAMPLES) == set(VERSIONS)
    sources = (Path(__file__).parent / "samples/SOURCES.md").read_text(encoding="utf-8")
    assert [name for name in VERSIONS if f"`{name}.txt`" not in sources] == []


@pytest.mark.parametrize("name", VERSIONS)
def test_the_banner_of_each_sample_is_parsed(name: str) -> None:
    assert parse_banner(SAMPLES[name].read_text(encoding="utf-8")) == VERSIONS[name]


def context_with_smi(folder: Path, text: str) -> ProbeContext:
    """A context in which a script named nvidia-smi is the first on PATH."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return probe_context({"PATH": f"{folder}:{os.defpath}"})


@pytest.mark.parametrize("name", [name for name, message in VERSIONS.items() if message == (None, None)])
def test_the_error_of_nvidia_smi_is_reported_in_one_line(tmp_path: Path, name: str) -> None:
    facts, source = probe_smi(context_with_smi(tmp_path, f"cat {quote(str(SAMPLES[name]))}; exit 9"))
    first = SAMPLES[name].read_text(encoding="utf-8").split("\n", 1)[0]
    assert source.state is SourceState.FAILED
    assert source.detail is not None
    assert first in source.detail
    assert "\n" not in source.detail
    assert (facts.driver_version, facts.cuda, facts.gpus) == (None, None, None)


def test_a_long_error_message_is_truncated(tmp_path: Path) -> None:
    _, source = probe_smi(context_with_smi(tmp_path, "head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1"))
    assert source.detail is not None
    assert len(source.detail) < 1000


def test_a_failure_without_output_is_reported_as_such(tmp_path: Path) -> None:
    _, source = probe_smi(context_with_smi(tmp_path, "exit 3"))
    assert source.detail == "exit code 3: it printed nothing"


def test_the_banner_and_the_list_are_both_parsed(tmp_path: Path) -> None:
    banner = SAMPLES["r580-h200"]
    facts, source = probe_smi(
        context_with_smi(tmp_path, f"case $1 in --query*) echo '{ROW}';; *) cat {quote(str(banner))};; esac")
    )
    assert source.state is SourceState.ANSWERED
    assert (facts.driver_version, facts.cuda, facts.gpus) == ("580.65.06", "13.0", (H200,))
    assert source.detail == str(tmp_path / "nvidia-smi")


def test_another_program_of_that_name_has_no_facts(tmp_path: Path) -> None:
    facts, source = probe_smi(context_with_smi(tmp_path, "echo hello"))
    assert source.state is SourceState.ANSWERED
    assert (facts.driver_version, facts.cuda, facts.gpus) == (None, None, ())
    assert "no driver version" in (source.detail or "")


def test_a_failed_list_is_reported_with_its_reason(tmp_path: Path) -> None:
    banner = SAMPLES["r580-h200"]
    fails = "echo 'Field \"memory.total\" is not a valid field to query.'; exit 2"
    facts, source = probe_smi(
        context_with_smi(tmp_path, f"case $1 in --query*) {fails};; *) cat {quote(str(banner))};; esac")
    )
    assert (facts.driver_version, facts.gpus) == ("580.65.06", None)
    assert source.state is SourceState.FAILED
    assert "not a valid field" in (source.detail or "")


def test_a_hanging_program_is_reported_at_the_deadline(tmp_path: Path) -> None:
    context_with_smi(tmp_path, "exec sleep 60")
    _, source = probe_smi(probe_context({"PATH": f"{tmp_path}:{os.defpath}"}, limit=0.4))
    assert source.state is SourceState.TIMED_OUT


def test_a_program_that_cannot_be_started_is_reported_with_the_reason(tmp_path: Path) -> None:
    """Such as a binary of another architecture, or a script without a shebang."""
    path = tmp_path / "nvidia-smi"
    path.write_text("just text\n", encoding="utf-8")
    path.chmod(0o755)
    facts, source = probe_smi(probe_context({"PATH": f"{tmp_path}:{os.defpath}"}))
    assert (source.state, facts.gpus) == (SourceState.FAILED, None)
    assert source.detail == "could not be started: Exec format error"


def test_under_wsl_nvidia_smi_is_found_below_the_driver_root(tmp_path: Path) -> None:
    """A machine below another root is not probed with the host's program."""
    program = tmp_path / "usr/lib/wsl/lib/nvidia-smi"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho hello\n", encoding="utf-8")
    program.chmod(0o755)
    _, source = probe_smi(probe_context({"PATH": str(tmp_path)}, str(tmp_path)))
    assert source.detail == f"{program}: no driver version in its output"
    assert probe_smi(probe_context({"PATH": str(tmp_path)}, str(tmp_path / "usr")))[1].state is SourceState.ABSENT


def test_a_missing_program_is_an_absent_source(tmp_path: Path) -> None:
    if Path("/usr/lib/wsl/lib/nvidia-smi").exists():
        pytest.skip("under WSL it is also found outside of PATH")
    facts, source = probe_smi(probe_context({"PATH": str(tmp_path)}))
    assert (facts, source.state) == (SmiFacts(), SourceState.ABSENT)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bash: nvidia-smi: command not found",
        "| NVIDIA-SMI 580.65.06   Driver Version: 580.6",
        "| NVIDIA-SMI has failed 3.1 times",
        "Driver Version: N/A   CUDA Version: N/A",
        "Driver Version: ERR!  CUDA Version: ERR!",
        "Driver Version:       CUDA Version:",
        "<html><title>502 Bad Gateway</title></html>",
        "\x00\x01\x02",
    ],
)
def test_a_text_without_versions_has_no_versions(text: str) -> None:
    assert parse_banner(text) == (None, None)


RENAMED = (
    "| NVIDIA-SMI 700.10.01    Treiberversion: 700.10.01    CUDA-Stufe: 14.1     |\n",
    "| NVIDIA-SMI 700.10.01    \u9a71\u52a8\u7248\u672c: 700.10.01    CUDA \u7248\u672c: 14.1     |\n",
    "| NVIDIA-SMI 560.35.02    Version 700.10.01    14.1 |\r\n",
    "\x1b[1m| NVIDIA-SMI 700.10.01 \x1b[32m  Driver Version: 700.10.01\x1b[0m   CUDA Version: 14.1 |\x1b[0m\n",
    "WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n| NVIDIA-SMI 700.1  Driver Version: 700.10.01 CUDA: 14.1 |\n",
)


@pytest.mark.parametrize("text", RENAMED, ids=["German", "Chinese", "two numbers", "coloured", "after a warning"])
def test_a_banner_with_unknown_labels_is_parsed_by_the_form_of_its_numbers(text: str) -> None:
    assert parse_banner(text) == ("700.10.01", "14.1")


@pytest.mark.parametrize("name", [name for name, message in VERSIONS.items() if message[0]])
def test_every_sample_is_parsed_without_its_labels(name: str) -> None:
    """The labels of the banner have changed before."""
    text = SAMPLES[name].read_text(encoding="utf-8")
    if "NVIDIA-SMI" not in text:
        pytest.skip("this sample lacks the line with the program's name")
    for word in ("Driver Version", "KMD Version", "CUDA Version", "CUDA UMD Version"):
        text = text.replace(word, "Level")
    assert parse_banner(text) == VERSIONS[name]


@pytest.mark.parametrize("name", [name for name, message in VERSIONS.items() if message[0]])
def test_a_truncated_banner_has_no_wrong_versions(name: str) -> None:
    text = SAMPLES[name].read_text(encoding="utf-8")[:400]
    for length in range(len(text)):
        driver, cuda = parse_banner(text[:length])
        assert driver in (None, VERSIONS[name][0])
        assert cuda in (None, VERSIONS[name][1])


def test_an_answer_with_a_warning_and_its_exit_code_is_complete(tmp_path: Path) -> None:
    """nvidia-smi prints the table despite return code 14 (infoROM is corrupted)."""
    banner = SAMPLES["r384-inforom"]
    warning = f"echo 'WARNING: infoROM is corrupted at gpu 0000:B3:00.0'; echo '{ROW}'"
    facts, source = probe_smi(
        context_with_smi(tmp_path, f"case $1 in --query*) {warning};; *) cat {quote(str(banner))};; esac; exit 14")
    )
    assert source.state is SourceState.ANSWERED
    assert (facts.driver_version, facts.gpus) == ("384.130", (H200,))


def test_the_xml_output_is_parsed_if_the_query_is_rejected(stub_driver: StubDriver, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    profile = tmp_path / "stub.txt"
    profile.write_text("gpu.count=2\ngpu.1.memory.total=none\ngpu.1.name=Orin & <sons>\n", encoding="utf-8")
    lay_out(stub_driver, real, "580.95.05", with_smi=True)
    refused = "echo 'Field \"uuid\" is not a valid field to query.'; exit 2"
    text = f'case $1 in --query*) {refused};; *) GPUENV_STUB={profile} exec {real}/nvidia-smi "$@";; esac'
    facts, source = probe_smi(context_with_smi(tmp_path, text))
    assert source.state is SourceState.ANSWERED
    assert (facts.driver_version, facts.cuda) == ("580.95.05", "13.0")
    assert facts.gpus is not None
    first = facts.gpus[0]
    assert (first.name, first.pci, first.memory_total) == ("NVIDIA H100 80GB HBM3", "00000000:01:00.0", 80 << 30)
