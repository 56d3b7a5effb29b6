"""Evidence about the vendor of the GPU and of the build: NVIDIA or AMD."""

from __future__ import annotations

from gpuenv.explain.signatures.evidence_common import evidence

# A processor's own graphics, and what a sentence says beside it where there is another card too.
_OWN = (
    r"(?:Intel(?:\(R\))?(?:'s)? (?:\w+ )?(?:UHD|HD|Iris|Arc|GMA|Xe|GPUs?|graphics|integrated|on-?board)|Iris(?:\(R\))? ?(?:Xe|Plus|Pro)|\bU?HD Graphics \d"
    r"|Radeon(?:\(TM\)|™)? (?:Graphics|Vega \d{1,2}|R[2-7] Graphics|\d{3}M)\b|\bintegrated (?:graphics|GPU|Intel|AMD)|(?:AMD|Intel) (?:integrated|on-?board))"
)
_ANOTHER = r"(?:nvidia(?![- ](?:smi|driver))|geforce|[rg]tx|quadro|tesla|dedicated|discrete|external|eGPU|monitors?|displays?|screens?|second|besides?|disabled?|primary|addition|switch\w*|prime|optimus|hybrid|BIOS|desktop|works?|fine)"

SIGNATURES = (
    # A user's statement of the GPU in use that names a processor's own: its line in a listing says nothing of other cards.
    evidence(
        "own-graphics",
        ("intel", "iris", "hd graphics", "radeon", "integrated"),
        rf"^(?!.*\b{_ANOTHER}\b)(?:.*\b(?:I'm|I am|I|we|my|our|this|the|it|laptop|machine|computer|PC|notebook|server)(?: \w+){{0,5}} (?:us(?:e|es|ing)|have|has|got|own|runs?|running|with|is) (?:\w+ ){{0,3}}?\W?{_OWN}"
        rf"|(?:.*[,;|] )?\W*(?:GPU|Graphics(?: card)?|Video card|Card name|Grafikkarte)(?: ?\d)?(?: name| model)?\s{{0,4}}[:=]\s{{0,4}}(?:(?:AMD|Intel)\S* )?{_OWN}"
        rf"|.*{_OWN}(?: \w+){{0,2}} is (?:my|the|our) (?:only )?(?:GPU|graphics)"
        r"|\W*Device-1: (?:Intel|AMD|Advanced Micro) .{0,100}\bdriver: (?:i915|xe|amdgpu|radeon)\b)",
    ),
    evidence(
        "nvidia-owned",
        ("nvidia gpu", "nvidia card", "nvidia graphics", "nvidia egpu", "nvidia video"),
        r"\b(?<!you have )(?<!machine has )(?:my|our|the|an?|one|two|with|discrete|dedicated|external)(?: \w+)? NVIDIA (?:e?GPU|card|graphics|video)(?! may)",
    ),
    # A card of AMD's, and not a processor's own graphics, which an NVIDIA card may stand beside: lspci calls that by the
    # processor's code name ("Cezanne", "Picasso"), with or without "[Radeon Vega Series]".
    evidence(
        "amd-card",
        ("radeon", "rx ", "instinct", "gfx", "rocm", "amd-smi", "amd/ati", "amd g", "amd c"),
        r"Radeon (?:RX(?! Vega 1?\d\b)|Pro|VII|Instinct)|\bRX \d{3,4}\b|\bInstinct\b|\bgfx(?:[89]\w{2}|1[0-2]\d{2})\b|ROCm System Management"
        r"|\b(?:rocm-smi|rocminfo|amd-smi)\b|(?:VGA|3D|Display) \w*\s?controller.*AMD/ATI\] (?:Navi|Vega) \d"
        r"|\b(?:have|has|use|uses|using|with|got|on|is|only)(?: only)? (?:an?|my|one|two|the)? ?AMD (?:GPUs?|graphics card|card)\b",
    ),
    evidence("rocm-build", ("rocm",), r"cupy-rocm|\+rocm\d|Platform\s*: AMD ROCm"),
    evidence(
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
