"""Controllers as inxi and ubuntu-drivers list them."""

from __future__ import annotations

import pytest

from gpuenv.matrix.needs import needs_of
from gpuenv.paste.read import read_paste
from tests.paste.controllers import ALONE, BIONIC, BUSTER, FOCAL, LAPTOP, PASCAL, SERVER, TRIXIE, TURING, UBUNTU
from tests.paste.facts import MATRIX, primary, snapshot_of, wrong


def controllers(text: str) -> list[tuple[str, str, str | None]]:
    return [
        (gpu.pci, gpu.device, gpu.kernel_driver) for gpu in snapshot_of(text).pci_gpus or () if gpu.vendor == "10de"
    ]


@pytest.mark.parametrize(
    ("text", "expected", "facts"),
    [
        pytest.param(BIONIC, [("", "", "nouveau")], {"driver.version": None, "driver.module": None}, id="2.3"),
        pytest.param(BUSTER, [("01:00.0", "0f02", "nouveau")], {"driver.version": None}, id="3.0"),
        pytest.param(
            FOCAL,
            [("08:00.0", "", "nvidia")],
            {"driver.version": "515.65.01", "host.kernel": "5.15.0-46-generic", "host.os": "linux", "host.arch": "x86_64",
             "host.distribution": "Ubuntu 20.04.4 LTS (Focal Fossa)"},
            id="3.0, a release of NVIDIA",
        ),
        pytest.param(
            LAPTOP,
            [("0000:01:00.0", "2520", "nvidia")],
            {"driver.version": "495.44", "driver.module": "loaded", "host.kernel": "5.15.16-zen1-1-zen",
             "host.distribution": "Garuda Linux"},
            id="3.3",
        ),
        pytest.param(TURING, [("01:00.0", "2191", "nvidia")], {"driver.version": "515.43.04"}, id="-a"),
        pytest.param(SERVER, [("", "", "nvidia")] * 2, {"driver.version": "550.54.15"}, id="two of one product"),
        pytest.param(PASCAL, [("01:00.0", "1b81", "nvidia")], {"driver.version": "580.173.02"}, id="many ports"),
        pytest.param(TRIXIE, [("", "", "nouveau")], {"driver.module": None}, id="a list of Markdown"),
        pytest.param(ALONE, [("01:00.0", "", "nouveau")], {"driver.module": None}, id="without its heading"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["as it is", "folded", "colours", "colours that were lost", "a chat"])
def test_inxi(text: str, expected: list[tuple[str, str, str | None]], facts: dict[str, str | None], form: str) -> None:
    if form == "folded":
        if text in (ALONE, FOCAL, LAPTOP):  # the system's own line is not cut out of a longer one
            return
        text = " ".join(text.replace("\n- ", "\n").replace("  - ", "  ").split())
    words = (
        "Graphics:",
        "Device-1:",
        "Device-2:",
        "Device-3:",
        "Card-1:",
        "Card-2:",
        "driver:",
        "v:",
        "bus-ID:",
        "Display:",
    )
    for word in () if form in ("as it is", "folded") else words:
        start, end = {"colours": ("\x1b[1;34m", "\x1b[0m"), "a chat": ("\x0312", "\x03")}.get(form, ("[1;34m", "[0m"))
        text = text.replace(f" {word} ", f" {start}{word}{end} ").replace(f"{word}\n", f"{start}{word}{end}\n")
    assert controllers(text) == expected
    assert wrong(text, facts) == {}


def test_a_device_of_inxi_decides_the_capability() -> None:
    assert [str(gpu.compute_capability) for gpu in needs_of(snapshot_of(PASCAL), MATRIX).gpus] == ["6.1"]
    assert [str(gpu.compute_capability) for gpu in needs_of(snapshot_of(SERVER), MATRIX).gpus] == ["8.6", "8.6"]


def test_the_same_device_of_two_outputs_is_one() -> None:
    lspci = (
        "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA106M [GeForce RTX 3060 Mobile / Max-Q] [10de:2520] (rev a1)\n"
        "\tKernel driver in use: nvidia\n\tKernel modules: nvidiafb, nouveau, nvidia_drm, nvidia\n"
    )
    ubuntu = UBUNTU.replace("000011C6", "00002520").replace(
        "GK106 [GeForce GTX 650 Ti]", "GA106M [GeForce RTX 3060 Mobile / Max-Q]"
    )
    without = "Graphics:\n  Device-1: NVIDIA GA106M [GeForce RTX 3060 Mobile / Max-Q] driver: nvidia v: 495.44\n"
    for text in (LAPTOP + lspci, lspci + LAPTOP, lspci + without, without + lspci, ubuntu + LAPTOP, lspci + ubuntu):
        assert [(pci[-7:], device, holder) for pci, device, holder in controllers(text)] == [
            ("01:00.0", "2520", "nvidia")
        ]


def test_a_list_that_goes_on_to_its_end_says_what_is_not_there() -> None:
    amd = "Graphics:\n  Device-1: AMD Renoir vendor: Gigabyte driver: amdgpu v: kernel bus-ID: 07:00.0\n"
    assert snapshot_of(amd).pci_gpus is None, "the list may be cut off"
    assert primary(amd + "  Display: server: X.org v: 1.21.1.4 driver: X: loaded: amdgpu\n") == "no-nvidia-gpu"
    audio = "Audio:\n  Device-1: NVIDIA TU104 HD Audio driver: snd_hda_intel v: kernel bus-ID: 01:00.1\n"
    assert snapshot_of(audio).pci_gpus is None


@pytest.mark.parametrize(
    ("text", "expected", "name"),
    [
        pytest.param(UBUNTU, ("0000:01:00.0", "11c6"), "NVIDIA Corporation GK106 [GeForce GTX 650 Ti]", id="20.04"),
        pytest.param(
            "== /sys/devices/pci0000:00/0000:00:1c.4/0000:03:00.0 ==\nmodel    : GM107M [GeForce GTX 960M]\n"
            "modalias : pci:v000010DEd0000139Bsv00001028sd000006E1bc03sc02i00\nvendor   : NVIDIA Corporation\n"
            "driver   : xserver-xorg-video-nouveau - distro free builtin\ndriver   : nvidia-352 - distro non-free recommended\n",
            ("0000:03:00.0", "139b"), "NVIDIA Corporation GM107M [GeForce GTX 960M]", id="16.04, in another order",
        ),
        pytest.param(
            "== /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0 ==\n"
            "modalias : pci:v000010DEd00001E07sv00001043sd00008668bc03sc00i00\nvendor   : NVIDIA Corporation\n"
            "driver   : nvidia-driver-415 - third-party free recommended\n",
            ("0000:01:00.0", "1e07"), None, id="18.04, without a model",
        ),
        pytest.param(
            "== /sys/devices/pci0000:00/0000:00:03.1/0000:2b:00.0 ==\n"
            "modalias : pci:v000010DEd00002204sv00001462sd00003882bc03sc00i00\nvendor : NVIDIA Corporation\n"
            "model  : GA102 [GeForce RTX 3090]\ndriver : nvidia-driver-535-server-open - distro non-free recommended\n",
            ("0000:2b:00.0", "2204"), "NVIDIA Corporation GA102 [GeForce RTX 3090]", id="22.04, blanks lost",
        ),
        pytest.param(
            "root@node1:~# ubuntu-drivers devices\n\n== /sys/devices/pci0000:00/0000:00:1e.0 ==\n"
            "modalias : pci:v000010DEd00001EB8sv000010DEsd000012A2bc03sc02i00\nvendor   : NVIDIA Corporation\n"
            "model    : TU104GL [Tesla T4]\ndriver   : nvidia-driver-525 - distro non-free recommended\n",
            ("0000:00:1e.0", "1eb8"), "NVIDIA Corporation TU104GL [Tesla T4]", id="a cloud",
        ),
        pytest.param(
            "== /sys/devices/pci0000:00/0000:00:03.1/0000:09:00.0 ==\n"
            "modalias : pci:v000010DEd00001E07sv000010DEsd000012A4bc03sc00i00\nvendor   : NVIDIA Corporation\n"
            "model    : TU102 [GeForce RTX 2080 Ti Rev. A]\ndriver   : nvidia-driver-435 - distro non-free recommended\n\n"
            "== /sys/devices/pci0000:00/0000:00:01.2/0000:02:00.0/0000:05:00.0 ==\n"
            "modalias : pci:v00008086d00002723sv00008086sd00000084bc02sc80i00\nvendor   : Intel Corporation\n"
            "manual_install: True\ndriver   : backport-iwlwifi-dkms - distro free\n",
            ("0000:09:00.0", "1e07"), "NVIDIA Corporation TU102 [GeForce RTX 2080 Ti Rev. A]", id="a radio beside",
        ),
    ],
)  # fmt: skip
def test_ubuntu_drivers(text: str, expected: tuple[str, str], name: str | None) -> None:
    (device,) = snapshot_of(text).pci_gpus or ()
    assert (device.pci, device.device, device.name, device.kernel_driver) == (*expected, name, None)
    assert "ubuntu-drivers devices" in read_paste(text).forms
    assert snapshot_of(text).driver.nouveau.value is None, "what could be installed is not what is there"
    assert primary(text) is None


def test_ubuntu_drivers_list_is_known_and_tells_of_no_device() -> None:
    """mk-pmb/ubuntu-drivers-helper-pmb, docs/drivers_list_output_format.md: of 20.04."""
    text = (
        "nvidia-driver-460, (kernel modules provided by linux-modules-nvidia-460-generic-hwe-20.04)\n"
        "nvidia-driver-450-server, (kernel modules provided by linux-modules-nvidia-450-server-generic-hwe-20.04)\n"
    )
    assert read_paste(text).forms == ("ubuntu-drivers devices",)
    assert snapshot_of(text).pci_gpus is None
    assert snapshot_of(text).target.packages == {}
