"""Evidence about GPU models, binaries and builds: it shows what a compiler or service could not do."""

from __future__ import annotations

from gpuenv.explain.signatures.evidence_common import evidence

SIGNATURES = (
    # Boards without NVSwitch, whatever service is installed: only SXM boards of HGX and DGX machines have it.
    evidence(
        "pcie-gpu",
        (
            "pcie",
            "rtx",
            "gtx",
            "geforce",
            "quadro",
            "l40",
            "a40",
            "a30",
            "a10",
            "nvidia a2",
            " t4",
            "t4 ",
            " l4",
            "l20",
            "g4dn",
            "any switch",
            "no switch",
            "laptop",
            "workstation",
        ),
        r"\bNVIDIA A2\b|\b(?:T4|A10G?|A16|A30|A40|L4|L20|L40S?)\b|\b[RG]TX ?A?\d{3,4}\b|\bGeForce\b|\bQuadro\b|\bg4dn\b|\bPCIe? (?:A100|H100|H200|V100|cards?|GPUs?|hosts?|nodes?|\d+ ?GB)\b|\b(?:A100|H100|H200|V100)(?:-| )PCIe\b|\bPCIe-only\b|\b(?:no|without any) switch\b|\b(?:laptop|workstation)\b",
    ),
    # CuPy's own binaries: what sorts and scans goes through Thrust and CUB, which are compiled with CuPy.
    evidence(
        "cupy-binary",
        ("cupy", "cp.", "radix_sort"),
        r"\b(?:cp|cupy)\.(?:\w+\.)?(?:sort|argsort|lexsort|msort|sort_complex|unique|partition|argpartition|median|percentile|quantile)\b|\bcupy(?:_backends)?\b\S{0,30}[/\\.](?:thrust|cub)\b|\bradix_sort: failed\b|\bcupy\b.{0,40}\b(?:thrust|cub|own \.so)\b",
    ),
    # How old a board is: before Turing, which is the oldest that CUDA 13 compiles for, or after Ampere.
    evidence(
        "card-before-turing",
        (
            "gtx",
            "geforce",
            "titan",
            "quadro",
            "tesla",
            "k80",
            "k40",
            "k20",
            "m40",
            "m60",
            "p100",
            "p40",
            " p4",
            "v100",
            "fermi",
            "kepler",
            "maxwell",
            "pascal",
            "volta",
        ),
        r"\bGTX (?:TITAN|[4-9]\d0|10[5-8]0)\b|\bGeForce (?:GT )?[4-9]\d0M?\b|\bTITAN (?:X|Xp|V|Z|Black)\b|\bQuadro (?:[4-6]000|[KMP]\d{3,4})\b|\bTesla [CMKPV]\d+|\bK[248]0m?\b|\bM[46]0\b|\bP(?:4|40|100)\b|\bV100\b|\b(?:Fermi|Kepler|Maxwell|Pascal|Volta)\b",
    ),
    evidence(
        "card-after-ampere",
        (
            "rtx 4",
            "rtx 5",
            " ada",
            "h100",
            "h200",
            "b100",
            "b200",
            "b300",
            "gb10",
            "gb20",
            "gb30",
            "l40",
            "hopper",
            "blackwell",
            "rtx pro",
        ),
        r"\bRTX (?:4[05]|5[05])\d0\b|\bRTX PRO \d|\b\d000 Ada\b|\b(?:H100|H200|B100|B200|B300|GB10|GB200|GB300|L4|L40S?)\b|\b(?:Hopper|Blackwell|Ada Lovelace)\b",
    ),
    # A CUDA that had dropped no more than the first cards that could compute: Fermi went with CUDA 9.
    evidence(
        "toolkit-before-9",
        ("cuda", "nvrtc"),
        r"\bCUDA(?: toolkit| version| compilation tools, release)?[-: ]{0,3}[5-8]\.[05]\b|\bcuda-[5-8]\.[05]\b|\b(?:cudart|nvrtc)64_[5-8][05]\b",
    ),
    # A list of architectures that a build was given, whatever GPU is there.
    evidence(
        "arch-listed",
        ("arch", "gencode"),
        r"\bTORCH_CUDA_ARCH_LIST\W{0,3}(?:=|copied|has|names|lists)|\bARG \w*ARCHS?=|\bCMAKE_CUDA_ARCHITECTURES=|\bCUDA_ARCH(?:_BIN|S|_NAME)?=\S|\bNVCC_GENCODE\b|\barch(?:itecture)? list\b",
    ),
    # Turing and later: no branch has dropped them (the matrix's generations).
    evidence(
        "card-in-support",
        ("rtx", "h100", "h200", "a100", "a10", "a30", "a40", "l40", " l4", "b200", "b300", "gtx 16", "tesla t4"),
        r"\bRTX (?:[2-5]0\d0|A?\d000|PRO)\b|\b(?:H100|H200|A100|A800|A10G?|A30|A40|L4|L40S?|B200|B300|GTX 16[3-6]0|Tesla T4)\b",
    ),
)
