"""Whose card a text names, and whose build: NVIDIA's or AMD's."""

from __future__ import annotations

from gpuenv.explain.signatures.marks import mark

SIGNATURES = (
    # A card of AMD's, and not a processor's own graphics, which an NVIDIA card may stand beside: lspci calls that by the
    # processor's code name ("Cezanne", "Picasso"), with or without "[Radeon Vega Series]".
    mark(
        "amd-card",
        ("radeon", "rx ", "instinct", "gfx", "rocm", "amd-smi", "amd/ati", "amd g", "amd c"),
        r"Radeon (?:RX(?! Vega 1?\d\b)|Pro|VII|Instinct)|\bRX \d{3,4}\b|\bInstinct\b|\bgfx(?:[89]\w{2}|1[0-2]\d{2})\b|ROCm System Management"
        r"|\b(?:rocm-smi|rocminfo|amd-smi)\b|(?:VGA|3D|Display) \w*\s?controller.*AMD/ATI\] (?:Navi|Vega) \d"
        r"|\b(?:have|has|use|uses|using|with|got|on|is|only)(?: only)? (?:an?|my|one|two|the)? ?AMD (?:GPUs?|graphics card|card)\b",
    ),
    mark("rocm-build", ("rocm",), r"cupy-rocm|\+rocm\d|Platform\s*: AMD ROCm"),
    mark(
        "nvidia-card",
        (
            *("nvidia corporation", "geforce", "rtx", "gtx", "quadro", "tesla", "titan", "nvrm", "nvidia-driver-"),
            *(f"nvidia {letter}" for letter in "abghlptv"),
            *(f"{name}{digit}" for name in ("mx", "mx ", "gb") for digit in "12345"),
        ),
        r"NVIDIA Corporation|GeForce|\b[RG]TX ?(?:A?\d{3,4})|Quadro|\bTesla [A-Z]\d|NVRM"
        r"|NVIDIA (?:[AHLPTV]|GB?|B)\d{1,4}\b|\bTITAN (?:Xp?|V|Z|RTX|Black)\b|\bMX ?[1-5]\d0\b|\bGB[123]\d{1,2}\b"
        r"|\bnvidia-driver-\d",
    ),
)
