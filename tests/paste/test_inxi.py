"""Lists of inxi that have devices of other kinds, are there twice, or have words that nobody knows."""

from __future__ import annotations

import pytest

from tests.paste.facts import primary, snapshot_of

INTEL = "  Device-1: Intel UHD 620 driver: i915 v: kernel bus-ID: 00:02.0\n"
TWO = """Graphics:
  Device-1: NVIDIA GA102 [GeForce RTX 3090] driver: nvidia v: 535.129.03
  Device-2: NVIDIA GA102 [GeForce RTX 3090] driver: nvidia v: 535.129.03
  Display: x11
"""


@pytest.mark.parametrize(
    "device",
    [
        "NVIDIA GM108M [GeForce 940MX] vendor: HP",
        "NVIDIA GM108M [GeForce 940MX] driver: <none> bus-ID: 01:00.0",
        "nVidia GM108M [GeForce 940MX]",
    ],
)
def test_a_card_that_is_not_understood_is_not_away(device: str) -> None:
    text = f"Graphics:\n{INTEL}  Device-2: {device}\n  Display: x11\n"
    assert snapshot_of(text).pci_gpus is None
    assert primary(text) is None
    assert primary(f"Graphics:\n{INTEL}  Display: x11\n") == "no-nvidia-gpu"


def test_the_maker_is_known_as_older_lists_spell_it() -> None:
    text = f"Graphics:\n{INTEL}  Device-2: nVidia GM108M [GeForce 940MX] driver: N/A bus-ID: 01:00.0\n  Display: x11\n"
    assert [device.pci for device in snapshot_of(text).pci_gpus or ()] == ["00:02.0", "01:00.0"]


@pytest.mark.parametrize(
    "section",
    [
        "Network:\n  Device-1: NVIDIA MCP79 Ethernet driver: forcedeth\n",
        "Network:\n  Device-1: NVIDIA MT2892 driver: mlx5_core\n",
        "Network:   Device-1: NVIDIA MT2892 driver: mlx5_core\n",
        "Audio:\n  Device-1: NVIDIA GP107GL High Definition Audio driver: snd_hda_intel\n",
    ],
)
def test_devices_of_other_sections_are_no_gpus(section: str) -> None:
    assert snapshot_of(section).pci_gpus is None
    assert primary(f"Graphics:\n{INTEL}  Display: x11\n{section}") == "no-nvidia-gpu"


@pytest.mark.parametrize("more", [TWO, TWO.replace(" [GeForce RTX 3090]", "")])
def test_a_list_without_addresses_that_is_there_twice_has_its_devices_once(more: str) -> None:
    assert len(snapshot_of(more).pci_gpus or ()) == 2
    assert snapshot_of(more * 2).pci_gpus == snapshot_of(more).pci_gpus


def test_the_kernel_is_that_which_runs_and_not_that_of_an_older_log() -> None:
    log = "Linux version 5.15.0-91-generic (buildd@host) (gcc (Ubuntu 11.4.0) 11.4.0) #101-Ubuntu SMP\n"
    running = "Linux host 6.2.0-26-generic #26-Ubuntu SMP x86_64 GNU/Linux\n"
    assert snapshot_of(log).host.kernel.value == "5.15.0-91-generic"
    assert snapshot_of(log + running).host.kernel.value == "6.2.0-26-generic"
