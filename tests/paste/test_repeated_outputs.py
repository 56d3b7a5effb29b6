"""``nvidia-smi -q`` pasted more than once, also as text and as XML: nothing counts twice."""

from __future__ import annotations

import time

import pytest

from gpuenv.model.snapshot import GpuUser
from gpuenv.paste.reader import read_paste
from tests.paste.pasted_facts import snapshot_of
from tests.paste.test_long_form import MIB, MIG, T4

PROCESS = """
    Process ID                            : {pid}
        Type                              : C
        Name                              : python
        Used GPU Memory                   : 1028 MiB"""
GPU = """GPU 00000000:{bus}:00.0
    Product Name                          : Tesla V100-SXM2-16GB
    Clocks Throttle Reasons
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
    ECC Errors
        Volatile
            SRAM Uncorrectable            : 1
            DRAM Uncorrectable            : 2
    Processes"""
BOTH = "\n".join(GPU.format(bus=bus) + PROCESS.format(pid=7372) for bus in ("01", "02")) + "\n"
AS_XML = """<nvidia_smi_log><gpu id="00000000:01:00.0"><ecc_errors><volatile>
<sram_uncorrectable>1</sram_uncorrectable><dram_uncorrectable>2</dram_uncorrectable>
</volatile></ecc_errors></gpu></nvidia_smi_log>
"""


@pytest.mark.parametrize("text", [BOTH, BOTH * 2, BOTH * 3, BOTH + AS_XML, AS_XML + BOTH])
def test_errors_reasons_processes_and_numbers_are_those_of_one_output(text: str) -> None:
    gpus = snapshot_of(text).gpus
    assert [gpu.index.value for gpu in gpus] == [0, 1]
    for gpu in gpus:
        assert gpu.health.ecc_uncorrected.value == 3
        assert gpu.health.throttle_reasons.value == ("hardware-slowdown", "hardware-thermal")
        assert gpu.users == (GpuUser(7372, "python", 1028 * MIB),)


@pytest.mark.parametrize("document", [T4, MIG])
def test_a_repeated_document_changes_no_fact(document: str) -> None:
    assert read_paste(document * 2).gpus == read_paste(document).gpus


def test_later_values_replace_earlier_ones_and_others_are_kept() -> None:
    later = "GPU 00000000:01:00.0\n    Processes" + PROCESS.format(pid=8000)
    gpu, other = snapshot_of(BOTH + later).gpus
    assert [user.pid for user in (*gpu.users, *other.users)] == [8000, 7372]
    assert gpu.health.ecc_uncorrected.value == 3
    none = "GPU 00000000:01:00.0\n    Processes                             : None\n"
    assert snapshot_of(BOTH + none).gpus[0].processes.value == 0


def test_instances_listed_twice_count_once() -> None:
    listing = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-00000000-0000-0000-0000-000000000001)\n"
        "  MIG 3g.20gb     Device  1: (UUID: MIG-00000000-0000-0000-0000-000000000002)\n"
    )
    assert len(snapshot_of(listing).gpus[0].mig_instances) == 2
    assert snapshot_of(listing * 2).gpus == snapshot_of(listing).gpus


@pytest.mark.parametrize("lines", ["Idle : Active\n", "Process ID : 1\nType : C\nName : python\n"])
def test_time_per_entry_does_not_grow_with_their_number(lines: str) -> None:
    """A megabyte of reasons took eleven seconds, each as long as those before it together."""

    def parse_time(size: int) -> float:
        begin = time.process_time()
        read_paste("GPU 00000000:01:00.0\nClocks Event Reasons\n" + lines * (size // len(lines)))
        return time.process_time() - begin

    assert parse_time(1 << 20) < 8 * parse_time(1 << 18)
