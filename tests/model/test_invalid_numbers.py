"""Digits of other scripts and endless digits are not numbers, in any input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.image.dockerfile.cuda import is_no_line
from gpuenv.install.environment import RecordEntry, read_installed, read_record
from gpuenv.install.journal import Store
from gpuenv.matrix.assume import AssumeError, assume
from gpuenv.model.cupy import cuda_major_of
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.nvidia import cuda_major_of_wheel
from gpuenv.model.strings import parse_integer
from gpuenv.paste.partial_snapshot import to_snapshot
from gpuenv.paste.reader import read_paste
from gpuenv.probe.assembly import find_grant, parse_device_list
from gpuenv.probe.nvidia_smi import parse_gpus
from gpuenv.smoke.device_selection import Device, select_devices
from gpuenv.smoke.gpu_health import xid_numbers
from tests.cli.assertions import assert_refused
from tests.cli.program import gpuenv
from tests.cli.snapshots import FIT, write_snapshot
from tests.probe.raw_facts import KernelFacts
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from pathlib import Path

ODD = ["\N{SUPERSCRIPT TWO}", "9" * 5000]
IDS = ["superscript", "endless"]
odd_numbers = pytest.mark.parametrize("odd", ODD, ids=IDS)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(
            ("0", 0),
            ("007", 7),
            ("999999999", 999_999_999),
            ("1000000000", None),
            ("", None),
            ("-1", None),
            ("1 ", None),
        ),
        *(("1_0", None), ("\N{ARABIC-INDIC DIGIT THREE}", None), (ODD[0], None), (ODD[1], None), ("1.0", None)),
    ],
)
def test_only_up_to_nine_ascii_digits_are_an_integer(text: str, number: int | None) -> None:
    assert parse_integer(text) == number


def test_the_number_of_digits_is_limited() -> None:
    assert (parse_integer("12345", 5), parse_integer("12345", 4)) == (12345, None)


@odd_numbers
def test_a_schedulers_device_list_is_kept_unchanged(odd: str) -> None:
    assert parse_device_list(f"{odd}-{odd},1-2") == (f"{odd}-{odd}", "1", "2")
    grant = find_grant(KernelFacts(), {"SLURM_JOB_ID": "1", "SLURM_GPUS_ON_NODE": odd})
    assert (grant.by.value, grant.gpus.value) == ("slurm", None)


@odd_numbers
def test_an_invalid_size_in_record_is_unknown(odd: str, tmp_path: Path) -> None:
    (tmp_path / "RECORD").write_text(f"a.py,sha256=x,{odd}\nb.py,,3\n", encoding="utf-8")
    assert read_record(str(tmp_path)) == (RecordEntry("a.py", "x", None), RecordEntry("b.py", None, 3))


@pytest.mark.parametrize("odd", [*ODD, "253402300800"], ids=[*IDS, "after-year-9999"])
def test_an_invalid_source_date_epoch_is_refused(odd: str) -> None:
    options = ("--print", "--no-probe", "--assume", "driver=580.95.05", "--assume", "gpu=H100")
    environment = {"SOURCE_DATE_EPOCH": odd}
    assert_refused("build-image", *options, names=["SOURCE_DATE_EPOCH", "seconds since 1970"], environment=environment)


@odd_numbers
def test_an_invalid_assumed_gpu_count_is_refused(odd: str) -> None:
    with pytest.raises(AssumeError, match="expected an integer up to 1024"):
        assume(FIT, [f"gpu-count={odd}"], MATRIX)


def test_other_folders_next_to_journals_are_ignored(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name in (ODD[0], "0002", "0010", "x"):
        store.transaction(name).mkdir(parents=True)
    assert store.numbers() == ("0002", "0010")


@odd_numbers
def test_an_invalid_gpu_selection_is_refused(odd: str) -> None:
    device = Device(visible="0", index=0)
    with pytest.raises(ValueError, match="matches none of the visible GPUs"):
        select_devices([device], [odd])


@odd_numbers
def test_an_invalid_package_version_has_no_cuda_major(odd: str) -> None:
    assert cuda_major_of("cupy", {"cuda-version": f"{odd}.1"}) is None
    assert not cuda_major_of_wheel("cuda-toolkit", f"{odd}.1")


def test_an_endless_cuda_major_is_not_a_wheel_line() -> None:
    assert is_no_line(f"cupy-cuda{ODD[1]}x", MATRIX)
    assert not is_no_line("cupy-cuda99x", MATRIX)


@odd_numbers
def test_invalid_numbers_of_nvidia_smi_and_the_kernel_log_are_dropped(odd: str) -> None:
    (gpu,) = parse_gpus(f"0, GPU-1, NVIDIA A100, 00000000:01:00.0, {odd} MiB\n")
    assert gpu.memory_total is None
    assert xid_numbers([f"NVRM: Xid (PCI:0000:01:00): {odd}, x"], "0000:01:00.0") == []


@pytest.mark.parametrize(
    "text",
    [
        "GPU {odd}: NVIDIA A100 (UUID: GPU-8cbaba1c-2629-a732-f528-66f459089ef6)",
        "Device {odd} Name                : NVIDIA A100\nDevice {odd} Compute Capability  : 80",
    ],
)
def test_an_endless_gpu_index_in_a_paste_is_dropped(text: str) -> None:
    machine = to_snapshot(read_paste(text.format(odd="9" * 4000)), MATRIX)
    assert [gpu.index.value for gpu in machine.gpus if gpu.index.known] == []


@pytest.mark.parametrize("owner", ["cupy", "packages"])
@pytest.mark.parametrize("command", ["doctor", "resolve", "preflight"])
def test_an_endless_release_does_not_end_a_command(command: str, owner: str, tmp_path: Path) -> None:
    """``packaging`` passes its parts to ``int``, which raises another error than ``InvalidVersion``."""
    endless, target = f"1.{ODD[1]}", FIT.target
    names = ("numpy", "torch", "numba", "jax", "cuda-toolkit", "cuda-version")
    changed_target = (
        target._replace(cupy=tuple(entry._replace(release=endless) for entry in target.cupy))
        if owner == "cupy"
        else target._replace(packages={**target.packages, **dict.fromkeys(names, endless)})
    )
    snapshot = write_snapshot(FIT._replace(target=changed_target), tmp_path / "machine.json")
    done = gpuenv(command, "--snapshot", snapshot, *(("--require", "cupy>=13") if command == "preflight" else ()))
    assert done.returncode in (ExitCode.OK, ExitCode.UNFIT, ExitCode.COULD_NOT_CHECK), done.stderr
    assert done.stdout


def test_metadata_with_an_endless_release_is_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "odd-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: odd\nVersion: {ODD[1]}\n", encoding="utf-8")
    assert read_installed([str(tmp_path)]) == ()
