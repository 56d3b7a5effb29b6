"""nvidia-smi: tables of every release, its errors, -q, -L and --query-gpu."""

from __future__ import annotations

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.paste.merge import conflicts
from gpuenv.paste.reader import read_paste
from tests.paste.pasted_facts import MATRIX, primary, snapshot_of, wrong


@pytest.mark.parametrize(
    ("row", "memory", "expected"),
    [
        ("|   0  Tesla K40m          Off  | 0000:05:00.0     Off |", "1071MiB / 11439MiB", "Tesla K40m 3.5 11"),
        ("|   0  GeForce 210         Off  | 0000:07:00.0     N/A |", "2MiB /  1023MiB", "GeForce 210 1.2 1"),
        ("|   0  Tesla V100-SXM2...  On   | 00000000:15:00.0 Off |", "0MiB / 16130MiB", "? 7.0 16"),
        ("|   0  GeForce RTX 207... WDDM  | 00000000:01:00.0 Off |", "176MiB /  8192MiB", "? 7.5 8"),
        ("|   0  NVIDIA GeForce RTX 2060 S...    On | 00000000:01:00.0 Off |", "1MiB /  8192MiB", "? 7.5 8"),
        ("|   0  NVIDIA GeForce ...  Off  | 00000000:01:00.0 Off |", "5MiB /  7982MiB", "? ? 8"),
        ("|   0  NVIDIA RTX 6000 Ada Gene...  TCC   |   00000000:01:00.0 Off |", "9MiB / 49140MiB", "? 8.9 48"),
        (
            "|   0  NVIDIA GB200                   On  |   00000008:01:00.0 Off |",
            "0MiB / 189471MiB",
            "NVIDIA GB200 10.0 185",
        ),
        ("|   0  GRID A100D-20C      On   | 00000000:02:00.0 Off |", "1536MiB / 20480MiB", "GRID A100D-20C 8.0 20"),
        ("|   0  Orin (nvgpu)                  N/A  | N/A              N/A |", "Not Supported", "Orin (nvgpu) 8.7 ?"),
    ],
)
def test_a_row_of_the_table_is_read_as_a_gpu(row: str, memory: str, expected: str) -> None:
    assert (
        wrong(f"{row}   0 |\n| N/A   28C    P0    72W / 235W | {memory} |     30%      Default |\n", {"gpus": expected})
        == {}
    )


def test_mig_instances_are_not_gpus() -> None:
    table = (
        "|   0  NVIDIA A100-SXM4-80GB          Off |   00000000:01:00.0 Off |                   On |\n"
        "| N/A   44C    P0            174W /  500W |   10129MiB /  81920MiB |     N/A      Default |\n"
        "|                                         |                        |              Enabled |\n"
        "| MIG devices:                                                                            |\n"
        "|  0    1   0   0  |            5044MiB / 40192MiB    | 42      0 |  3   0    2    0    0 |\n"
    )
    assert wrong(table, {"gpus": "NVIDIA A100-SXM4-80GB 8.0 80"}) == {}
    listing = (
        "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)\n"
        "  MIG 1g.10gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)\n"
    )
    (gpu,) = snapshot_of(table + listing).gpus
    assert [instance.name for instance in gpu.mig_instances] == ["1g.10gb"]
    assert gpu.mig.value is True


def test_tables_of_windows_are_recognised() -> None:
    for row in (
        "|   0  NVIDIA L40S      MCDM  |   00000000:21:00.0 Off |",
        "| GPU  Name            TCC/WDDM | Bus-Id        Disp.A |",
    ):
        assert wrong(row, {"host.os": "windows"}) == {}
    inside = "Linux box 5.15.153.1-microsoft-standard-WSL2 #1 SMP Fri Mar 29 23:14:13 UTC 2024 x86_64 GNU/Linux\n"
    assert (
        wrong("| 0 NVIDIA L40S WDDM | 00000000:21:00.0 On |\n" + inside, {"host.os": "linux", "host.wsl": "True"}) == {}
    )


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest",
            "driver-module-not-loaded",
        ),
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183",
            "driver-library-version-mismatch",
        ),
        ("No devices were found", None),
        ("Failed to initialize NVML: Unknown Error", None),
    ],
)
def test_an_error_of_nvidia_smi_is_an_error_of_nvml(message: str, cause: str | None) -> None:
    assert primary(message) == cause
    working = "| NVIDIA-SMI 550.90.07  Driver Version: 550.90.07   CUDA Version: 12.4 |\n"
    assert snapshot_of(working + message).driver.nvml_init.value is None  # the one of a host, the other of a container


def test_an_unlisted_gpu_is_not_reported_as_absent() -> None:
    assert wrong("No devices were found\n", {"gpu_count": "0"}) == {}
    assert primary("No devices were found\n") is None


def test_a_variable_that_hides_every_gpu_is_the_cause() -> None:
    table = (
        "| NVIDIA-SMI 550.90.07  Driver Version: 550.90.07   CUDA Version: 12.4 |\n"
        "|   0  Tesla T4     Off |   00000000:00:04.0 Off | 0 |\n"
    )
    assert primary(table + "CUDA_VISIBLE_DEVICES=\n") == "visible-devices-hide-gpu"
    assert primary(table + "CUDA_VISIBLE_DEVICES=0\n") is None


def test_the_long_form_of_every_release_is_read() -> None:
    old = (
        "Driver Version                      : 375.82\n\nGPU 0000:01:00.0\n    Product Name                    : Quadro M1000M\n"
        "    FB Memory Usage\n        Total                       : 2002 MiB\n"
    )
    assert wrong(old, {"driver.version": "375.82", "gpus": "Quadro M1000M 5.0 2"}) == {}
    new = (
        "Driver Version          : [Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]\n"
        "KMD Version             : 610.43.02\nCUDA UMD Version        : 13.3\nGPU 00000000:01:00.0\n"
        "    Product Name        : NVIDIA GeForce RTX 5090\n    FB Memory Usage\n        Total           : 32607 MiB\n"
        "    Conf Compute Protected Memory Usage\n        Total           : 0 MiB\n"
    )
    assert (
        wrong(new, {"driver.version": "610.43.02", "driver.cuda": "13.3", "gpus": "NVIDIA GeForce RTX 5090 12.0 32"})
        == {}
    )


@pytest.mark.parametrize(
    ("text", "driver", "cuda"),
    [
        (
            (
                "NVIDIA-SMI version  : 535.54.03\nNVML version        : 535.54\n"
                "DRIVER version      : 535.54.03\nCUDA Version        : 12.2\n"
            ),
            "535.54.03",
            "12.2",
        ),
        (
            (
                'NVIDIA-SMI version  : 610.43.02\nDRIVER version      : Deprecated, see "KMD version" instead\n'
                'CUDA version        : Deprecated, see "CUDA UMD version" instead\n'
                "KMD version         : 610.43.02\nCUDA UMD version    : 13.3\n"
            ),
            "610.43.02",
            "13.3",
        ),
    ],
)
def test_the_output_of_version_is_read(text: str, driver: str, cuda: str) -> None:
    assert wrong(f"$ nvidia-smi --version\n{text}", {"driver.version": driver, "driver.cuda": cuda}) == {}


@pytest.mark.parametrize("licence", ["N/A", "NVIDIA Virtual Compute Server", "NVIDIA RTX Virtual Workstation"])
def test_the_long_form_names_a_licence_too(licence: str) -> None:
    text = (
        "Driver Version                            : 535.161.07\nGPU 00000000:02:00.0\n"
        "    Product Name                          : GRID A100D-20C\n"
        "    vGPU Software Licensed Product\n"
        f"        Product Name                      : {licence}\n        License Status                    : N/A\n"
        "    FB Memory Usage\n        Total                             : 20480 MiB\n"
    )
    assert wrong(text, {"gpus": "GRID A100D-20C 8.0 20"}) == {}


@pytest.mark.parametrize("between", ["   ", ", ", " | ", " / "])
@pytest.mark.parametrize(
    ("first", "driver", "second", "cuda"),
    [
        ("Driver Version:", "535.104.05", "CUDA Version:", "12.2"),
        ("| KMD Version :", "610.43.02", "CUDA UMD Version :", "13.3"),
    ],
)
def test_a_line_without_the_name_of_the_program_is_read(
    first: str, driver: str, second: str, cuda: str, between: str
) -> None:
    text = f"{first} {driver}{between}{second} {cuda}"
    assert wrong(text, {"driver.version": driver, "driver.cuda": cuda}) == {}


def test_a_table_without_line_ends_is_read() -> None:
    """As a forum shows it without a code fence: line ends and runs of spaces become one space."""
    table = (
        "+-----------------------------------------------------------------------------+\n"
        "| NVIDIA-SMI 470.57.02    Driver Version: 470.57.02    CUDA Version: 11.4     |\n"
        "|-------------------------------+----------------------+----------------------+\n"
        "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
        "|===============================+======================+======================|\n"
        "|   0  Tesla T4            Off  | 00000000:00:1E.0 Off |                    0 |\n"
        "| N/A   40C    P0    26W /  70W |      0MiB / 15109MiB |      0%      Default |\n"
        "|                               |                      |                  N/A |\n"
        "+-------------------------------+----------------------+----------------------+\n"
        "|   1  Tesla V100-PCIE-32GB Off | 00000000:00:1F.0 Off |                    0 |\n"
        "| N/A   34C    P0    42W / 250W |      0MiB / 32510MiB |      0%   E. Process |\n"
        "+-----------------------------------------------------------------------------+\n"
    )
    expected = {
        "driver.version": "470.57.02",
        "driver.cuda": "11.4",
        "gpus": "Tesla T4 7.5 15; Tesla V100-PCIE-32GB 7.0 32",
    }
    assert wrong(table, expected) == {}
    assert wrong(" ".join(table.split()), expected) == {}


def test_the_answer_to_a_query_is_read() -> None:
    text = (
        "index, name, driver_version, memory.total [MiB], compute_cap\n"
        "0, NVIDIA GeForce RTX 3090, 535.129.03, 24576 MiB, 8.6\n1, NVIDIA GeForce RTX 5070, 535.129.03, [N/A], 12.0\n\n"
        "a, sentence, with, four, commas\n"
    )
    expected = {
        "driver.version": "535.129.03",
        "gpus": "NVIDIA GeForce RTX 3090 8.6 24; NVIDIA GeForce RTX 5070 12.0 ?",
    }
    assert wrong(text, expected) == {}


@pytest.mark.parametrize(
    ("command", "rows"),
    [
        ("name,driver_version,compute_cap --format=csv,noheader", "NVIDIA A10G, 535.183.01, 8.6"),
        ("'index,name,compute_cap,driver_version' --format=csv,noheader,nounits", "0, NVIDIA A10G, 8.6, 535.183.01"),
        ("name,driver_version --format=csv", "name, driver_version\nNVIDIA A10G, 535.183.01"),
    ],
)
def test_the_command_names_the_columns_without_a_header(command: str, rows: str) -> None:
    text = f"me@box:~$ nvidia-smi --query-gpu={command}\n{rows}\n"
    assert wrong(text, {"driver.version": "535.183.01", "gpus": "NVIDIA A10G 8.6 ?"}) == {}
    assert wrong(text.replace("gpu=", "gpu "), {"gpus": "NVIDIA A10G 8.6 ?"}) == {}


def test_truncated_names_are_completed_from_the_other_list() -> None:
    text = (
        "|   0  NVIDIA GeForce ...  Off  | 00000000:01:00.0 Off |\n|   1  NVIDIA A100-PCI...  Off  | 00000000:02:00.0 Off |\n"
        "GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-1)\nGPU 1: NVIDIA A100-PCIE-40GB (UUID: [removed])\n"
    )
    assert wrong(text, {"gpus": "NVIDIA GeForce RTX 3090 8.6 ?; NVIDIA A100-PCIE-40GB 8.0 ?"}) == {}


@pytest.mark.parametrize("text", ["GPU 0: out of memory", "GPU 1: 23.7 GiB total", "| 0 | 1 | 2 |", 'Device 0: "cpu"'])
def test_text_that_mentions_a_gpu_lists_none(text: str) -> None:
    assert wrong(text, {"gpus": ""}) == {}


@pytest.mark.parametrize(("listed", "contradicting"), [("NVIDIA A100-PCIE-40GB", False), ("NVIDIA H100 PCIe", True)])
def test_a_truncated_name_contradicts_a_name_with_another_beginning(listed: str, contradicting: bool) -> None:  # noqa: FBT001 - a case
    text = f"|   0  NVIDIA A100-PCI...  Off  | 00000000:02:00.0 Off |\nGPU 0: {listed} (UUID: GPU-1)\n"
    assert ("GPUs" in {entry.fact for entry in conflicts(read_paste(text))}) is contradicting


@pytest.mark.parametrize(
    ("cell", "errors", "cause"),
    [("0", 0, None), ("N/A", None, None), ("Off", None, None), ("On", None, None), ("3", 3, "gpu-hardware-fault")],
)
def test_the_table_counts_memory_errors(cell: str, errors: int | None, cause: str | None) -> None:
    snapshot = snapshot_of(
        f"| NVIDIA-SMI 550.90.07  Driver Version: 550.90.07   CUDA Version: 12.4 |\n"
        f"|   0  Tesla V100S-PCI...  Off  | 00000000:00:07.0 Off |   {cell:>18} |\n"
    )
    assert snapshot.gpus[0].health.ecc_uncorrected.value == errors
    findings = diagnose(snapshot, MATRIX, lambda: 0.0).findings
    assert [entry.cause.value for entry in findings if entry.code == "GPU206"] == ([cause] if cause else [])
