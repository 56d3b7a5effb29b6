"""A ROCm build that does not fit differs from a CUDA build on a machine with an AMD card."""

from __future__ import annotations

import pytest

from gpuenv.explain.explainer import explanation
from gpuenv.explain.scan import scan

ROCM, NONE = "rocm-mismatch", "no-nvidia-gpu"
SMI = "===== ROCm System Management Interface =====\nGPU[0] : Card series: AMD Instinct MI210\n"
LSPCI = "03:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 21 [Radeon RX 6800] (rev c1)\n"
NVIDIA_TOO = "01:00.0 3D controller: NVIDIA Corporation GA107M [GeForce RTX 3050 Mobile] (rev a1)\n"
NO_DEVICE = "CUDARuntimeError: cudaErrorNoDevice: no CUDA-capable device is detected\n"
NO_LIBRARY = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory\n"
NO_TALK = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
TOO_OLD = "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version\n"
CEZANNE = "06:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Cezanne (rev c6)\n"
PICASSO = "05:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Picasso [Radeon Vega Series]\n"
VEGA = "03:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Vega 20 [Radeon VII] (rev c1)\n"
NO_CODE = "hipErrorNoBinaryForGpu: Unable to find code object for all current devices!\n"


@pytest.mark.parametrize("amd", [CEZANNE, PICASSO, LSPCI])
@pytest.mark.parametrize(
    "words",
    [
        "My laptop also has a MX450.",
        "There is a NVIDIA TITAN Xp in it.",
        "The TITAN V is in slot 2.",
        "The workstation is a GB10.",
        "The server has an NVIDIA T4.",
        "I ran apt install nvidia-driver-550.",
    ],
)
def test_an_nvidia_card_is_recognized_next_to_an_amd_card(words: str, amd: str) -> None:
    result = explanation(scan(f"{amd}{words}\n{TOO_OLD}".encode()))
    assert result.causes[0].cause.value == "driver-too-old-for-cuda"


@pytest.mark.parametrize("amd", [CEZANNE, PICASSO, "AMD Radeon RX Vega 11 Graphics\n"])
@pytest.mark.parametrize(
    ("error", "first"), [(TOO_OLD, "driver-too-old-for-cuda"), (NO_TALK, "driver-module-not-loaded")]
)
def test_integrated_amd_graphics_do_not_change_the_causes(amd: str, error: str, first: str) -> None:
    alone, beside = explanation(scan(error.encode())), explanation(scan((amd + error).encode()))
    assert beside.causes[0].cause.value == first
    assert [entry.cause for entry in beside.causes] == [entry.cause for entry in alone.causes]


@pytest.mark.parametrize("word", ["MX Linux 21", "host titan", "16GB", "8 GB 3200", "nvidia-driver", "MX518"])
def test_similar_words_are_not_taken_for_an_nvidia_card(word: str) -> None:
    assert explanation(scan(f"{LSPCI}{word}\n{NO_TALK}".encode())).causes[0].cause.value == NONE


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (SMI + NO_DEVICE, NONE),
        (LSPCI + NO_LIBRARY, NONE),
        (LSPCI + NO_TALK, NONE),
        (VEGA + NO_TALK, NONE),
        ("I have a Radeon RX 7900 XTX and installed cupy-cuda12x\n" + NO_LIBRARY, NONE),
        (LSPCI + NVIDIA_TOO + NO_TALK, "driver-module-not-loaded"),
        ("Model name: AMD Ryzen 7 5800H with Radeon Graphics\n" + NO_TALK, "driver-module-not-loaded"),
        (SMI + NO_CODE, ROCM),
        ("import cupy\n" + NO_CODE, ROCM),
        (SMI + "cupy-rocm-5-0 13.6.0\n" + NO_DEVICE, ROCM),
        ("rocBLAS error: Cannot read /opt/x/TensileLibrary.dat: Illegal seek for GPU arch : gfx1032\n", ROCM),
        ("ROCk module is NOT loaded, possibly no GPU devices\n", ROCM),
    ],
)
def test_the_vendors_of_card_and_build_decide_the_cause(text: str, first: str) -> None:
    result = explanation(scan(text.encode()))
    assert result.causes[0].cause.value == first, [(entry.cause.value, entry.confidence) for entry in result.causes]
    assert result.causes[0].lines
