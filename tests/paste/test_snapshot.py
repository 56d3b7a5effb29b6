"""Pastes as partial Snapshots: all outputs, contradictions, missing facts, and texts without outputs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TypeVar

import pytest

from gpuenv.data import data_path
from gpuenv.matrix.load import load
from gpuenv.matrix.needs import driver_absent
from gpuenv.matrix.resolve import resolve
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import ComputeMode, Snapshot
from gpuenv.paste.content import PasteContent
from gpuenv.paste.merge import conflicts
from gpuenv.paste.partial_snapshot import gaps, known_keys, to_snapshot
from gpuenv.paste.reader import decoded, read_paste

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "texts").glob("*.txt")}
MATRIX = load(data_path("matrix.yaml"))
GIB = 2**30
T = TypeVar("T")


def machine(name: str) -> tuple[PasteContent, Snapshot]:
    content = read_paste(TEXTS[name])
    return content, to_snapshot(content, MATRIX)


def suggested_commands(content: PasteContent, snapshot: Snapshot) -> list[str]:
    return [gap.ask for gap in gaps(content, snapshot)]


def value_text(reading: Reading[T]) -> str | None:
    return None if reading.value is None else str(reading.value)


def test_show_config_and_the_table_of_nvidia_smi_are_merged() -> None:
    content, snapshot = machine("show_config_and_smi")
    assert content.outputs == ("cupy.show_config()", "nvidia-smi")
    assert value_text(snapshot.driver.version) == "535.183.01"
    assert value_text(snapshot.driver.cuda) == "12.2"
    assert snapshot.driver.branch.value == 535
    assert (value_text(snapshot.host.os), value_text(snapshot.host.arch)) == ("linux", "x86_64")
    assert (value_text(snapshot.host.libc), value_text(snapshot.host.kernel)) == ("glibc-2.35", "5.15.0-1066-azure")
    assert value_text(snapshot.target.python) == "3.11.9"
    assert [(entry.distribution, entry.release) for entry in snapshot.target.cupy] == [("cupy-cuda12x", "13.3.0")]
    assert (snapshot.target.numpy.value, snapshot.target.cuda_path.value) == ("2.1.0", "/usr/local/cuda")
    assert (snapshot.gpu_count.value, snapshot.visible_count.value) == (2, 1)
    first, second = snapshot.gpus
    assert (first.name.value, value_text(first.compute_capability)) == ("NVIDIA A100 80GB PCIe", "8.0")
    assert (first.memory_total.value, first.mig.value) == (80 * GIB, False)
    assert (second.name.value, second.compute_capability.value) == (None, None)  # the table cuts long names
    assert (second.compute_mode.value, second.mig.value) == (ComputeMode.EXCLUSIVE_PROCESS, None)
    assert snapshot.driver.version.source == "pasted nvidia-smi, line 38"
    assert not conflicts(content)
    assert suggested_commands(content, snapshot) == ["nvidia-smi -L", "python -m pip list"]
    assert snapshot.sources == ()


def test_the_nvrtc_of_cupy_is_a_library_of_the_target() -> None:
    _, snapshot = machine("show_config_and_smi")
    assert [(entry.soname, entry.release, entry.path is None) for entry in snapshot.target.libraries] == [
        ("libnvrtc.so.12", "12.4", False)
    ]
    assert snapshot.assumed == ()


def test_missing_libraries_and_a_missing_driver_are_read() -> None:
    """As CuPy 14.2.0 printed it on a machine without a driver and with a toolkit of another major version."""
    _, snapshot = machine("show_config_without_libraries")
    assert [(entry.name, entry.path) for entry in snapshot.target.libraries] == [
        ("nvrtc", None),
        ("curand", None),
        ("cusolver", None),
    ]
    assert "libnvJitLink" in (snapshot.target.libraries[2].error or "")
    assert driver_absent(snapshot)
    text = (
        TEXTS["show_config_without_libraries"] + "GPU 0: NVIDIA L4 (UUID: GPU-0e4b1c1a-0000-0000-0000-000000000001)\n"
    )
    assert not driver_absent(to_snapshot(read_paste(text), MATRIX))  # it is only libcuda that cannot be used
    known = TEXTS["show_config_and_smi"] + TEXTS["show_config_without_libraries"]
    assert not driver_absent(to_snapshot(read_paste(known), MATRIX))


@pytest.mark.parametrize(
    ("status", "missing"),
    [
        (
            "RuntimeError('CuPy failed to load libnvrtc.so.12: OSError: cannot open shared object file')",
            1,
        ),
        ("ImportError('DLL load failed while importing nvrtc: The specified module could not be found.')", 1),
        ("NVRTCError('NVRTC_ERROR_INTERNAL_ERROR (11)')", 0),
        ("None", 0),
    ],
)
def test_a_status_of_a_library_is_not_its_absence(status: str, missing: int) -> None:
    text = f"CuPy Version : 13.6.0\nCUDA Build Version : 12090\nNVRTC Version : {status}\n"
    assert len(to_snapshot(read_paste(text), MATRIX).target.libraries) == missing


def test_a_quoted_collect_env_and_pip_list_are_merged() -> None:
    content, snapshot = machine("collect_env_and_pip_list")
    assert snapshot.host.distribution.value == "Ubuntu 22.04.4 LTS"
    assert snapshot.host.wsl.value is True
    assert (value_text(snapshot.driver.version), value_text(snapshot.target.python)) == ("552.44", "3.10.12")
    assert [value_text(gpu.compute_capability) for gpu in snapshot.gpus] == ["8.9", "8.6"]
    assert [value_text(kit.toolkit) for kit in snapshot.toolkits] == ["11.8"]
    assert snapshot.target.packages["torch"] == "2.4.0+cu121"
    assert [entry.distribution for entry in snapshot.target.cupy] == ["cupy-cuda11x", "cupy-cuda12x"]
    assert not suggested_commands(content, snapshot)


def test_conda_list_and_the_long_form_of_nvidia_smi_are_merged() -> None:
    content, snapshot = machine("conda_list_and_smi_q")
    assert (value_text(snapshot.driver.version), value_text(snapshot.driver.cuda)) == ("470.256.02", "11.4")
    (gpu,) = snapshot.gpus
    assert (gpu.name.value, value_text(gpu.compute_capability), gpu.memory_total.value) == ("Tesla T4", "7.5", 15 * GIB)
    assert gpu.mig.value is None
    assert [(entry.distribution, entry.release) for entry in snapshot.target.cupy] == [("cupy", "13.2.0")]
    assert snapshot.target.conda_packages["cuda-version"] == "12.0"
    assert "torch" not in snapshot.target.conda_packages  # pip has installed it
    assert snapshot.target.kind.value == "conda"
    assert value_text(snapshot.target.python) == "3.11.9"
    assert (snapshot.host.distribution.value, value_text(snapshot.host.libc)) == ("rocky 8.10", "glibc-2.28")
    assert value_text(snapshot.host.kernel) == "4.18.0-553.el8_10.x86_64"
    assert not suggested_commands(content, snapshot)


def test_pip_freeze_musl_and_variables_are_merged() -> None:
    content, snapshot = machine("freeze_smi_l_musl")
    assert snapshot.target.packages["nvidia-nvrtc-cu12"] == "12.1.105"
    assert value_text(snapshot.host.libc) == "musl-1.2"
    assert snapshot.environment == {"CUDA_VISIBLE_DEVICES": "3", "LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}
    assert [gpu.name.value for gpu in snapshot.gpus] == ["Quadro P4000", "Tesla V100-SXM2-16GB"]
    assert suggested_commands(content, snapshot) == ["nvidia-smi", "python --version", "uname -a"]


def test_contradictions_are_reported_and_the_first_value_is_used() -> None:
    content, snapshot = machine("contradicting")
    contradictions = {entry.fact: [reported.value for reported in entry.values] for entry in conflicts(content)}
    assert contradictions["driver"] == ["610.10.01", "550.54.15"]
    assert contradictions["driver-cuda"] == ["13.3", "12.4"]
    assert contradictions["python"] == ["3.12.4", "3.10.12"]
    assert len(contradictions["GPUs"]) == 2
    assert value_text(snapshot.driver.version) == "610.10.01"
    assert [str(answer.value) for answer in snapshot.driver.version.dissent] == ["550.54.15"]
    assert snapshot.environment == {"CUDA_VISIBLE_DEVICES": "0,1"}


def test_a_complete_list_without_cupy_shows_that_it_is_not_installed() -> None:
    listing = "Package Version\n------- -------\nnumpy   2.1.0\npip     24.0\n"
    snapshot = to_snapshot(read_paste(listing), MATRIX)
    assert snapshot.target.cupy == ()
    assert "target.cupy" in snapshot.assumed
    assert "target.cupy" not in to_snapshot(read_paste("numpy==2.1.0\n"), MATRIX).assumed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\nworld",
        "    x = np.zeros(3)\n    OS = 3\n",
        "Driver Version: unknown\nGPU 00: \nDevice 0 Name : <unknown>",
        "A table\n| 0 | 1 | 2 |\nversion 3.2.1 of something",
        "CUDA_PATH = find_cuda()\nCUDA_VISIBLE_DEVICES=0 python train.py",
    ],
)
def test_a_text_without_outputs_is_empty(text: str) -> None:
    content = read_paste(text)
    assert content.outputs == ()
    assert to_snapshot(content, MATRIX) == to_snapshot(PasteContent(), MATRIX)
    assert known_keys(to_snapshot(content, MATRIX)) == frozenset()


def test_damaged_pastes_are_read_as_far_as_possible() -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    for text in TEXTS.values():
        for number in range(25):
            at, much = chance.randrange(len(text)), chance.randrange(40)
            junk = "".join(chance.choice("0123456789.|: \n\x00é-=x") for _ in range(chance.randrange(12)))
            damaged = text[:at] + junk + text[at + much :]
            content = read_paste(damaged[: chance.randrange(1, len(damaged) + 1)])
            snapshot = to_snapshot(content, MATRIX)
            list(gaps(content, snapshot))
            conflicts(content)
            if number % 10 == 0:
                resolve(snapshot, MATRIX)


def test_every_encoding_of_terminals_is_read() -> None:
    text = "NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |\r\n"
    for data in (text.encode(), text.encode("utf-8-sig"), text.encode("utf-16"), b"\xff\xfe\x00" + text.encode()):
        assert isinstance(decoded(data), str)
    for data in (text.encode(), text.encode("utf-8-sig"), text.encode("utf-16")):
        assert value_text(to_snapshot(read_paste(decoded(data)), MATRIX).driver.version) == "550.54.15"
