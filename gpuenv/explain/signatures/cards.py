"""Whose card a text names, and whose build: NVIDIA's or AMD's."""

from __future__ import annotations

from gpuenv.explain.signatures.marks import mark

SIGNATURES = (
    # A card of AMD's, and not a processor "with Radeon Graphics", which an NVIDIA card may stand beside.
    mark(
        "amd-card",
        ("radeon", " rx ", "instinct", "gfx", "rocm", "amd-smi", "amd/ati"),
        r"Radeon (?:RX|Pro|VII|Instinct)|\bRX \d{3,4}\b|\bInstinct\b|\bgfx(?:[89]\w{2}|1[0-2]\d{2})\b|ROCm System Management"
        r"|\b(?:rocm-smi|rocminfo|amd-smi)\b|(?:VGA|3D|Display) \w*\s?controller.*AMD/ATI\]",
    ),
    mark("rocm-build", ("rocm",), r"cupy-rocm|\+rocm\d|Platform\s*: AMD ROCm"),
    mark(
        "nvidia-card",
        ("nvidia corporation", "geforce", "rtx", "gtx", "quadro", "tesla", "nvrm", "nvidia a", "nvidia h", "nvidia l"),
        r"NVIDIA Corporation|GeForce|\b[RG]TX ?(?:A?\d{3,4})|Quadro|\bTesla [A-Z]\d|NVRM|NVIDIA [AHL]\d{1,3}\b",
    ),
)
