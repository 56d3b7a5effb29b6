"""What people say of their machine and program beside an error: it sways the causes of others."""

from __future__ import annotations

from gpuenv.explain.signatures.marks import mark

SIGNATURES = (
    mark(
        "numpy-does",
        (
            "numpy does",
            "numpy accept",
            "numpy allow",
            "numpy handle",
            "numpy cast",
            "numpy work",
            "numpy support",
            "with numpy",
            "in numpy",
        ),
        r"\bNumPy (?:does|accepts|allows|handles|casts|works|supports)\b|\b(?:works|is fine|passes|succeeds) (?:fine )?(?:in|with) numpy\b",
    ),
    mark(
        "others-hold",
        (
            "another user",
            "another process",
            "another program",
            "another job",
            "by another",
            "by other",
            "other user",
            "other process",
            "other program",
            "other job",
            "zombie process",
        ),
        r"\b(?:another|other) (?:user|process|job|program)\w*\b.{0,60}\b(?:us(?:es?|ing|ed)|hold\w*|occup\w*|tak\w*)\b|\bin use by (?:another|other)\b|\b(?<!no )zombie process",
    ),
    mark(
        "root-may",
        ("as root", "with sudo", "under sudo"),
        r"\b(?:as root|with sudo|under sudo)\b.{0,40}\b(?:works?|fine|ok|finds|sees|not as)\b|\b(?:works?|fine|ok|runs?) (?:only )?(?:as root|with sudo|under sudo)\b",
    ),
    mark(
        "warning-unwanted",
        ("warning", "warns"),
        r"\b(?:warnings?|warns)\b.{0,160}\b(?:harmless|annoying|silenced?|suppress\w*|disabled?|hid(?:e|den)|ignored?|unnecessary|not (?:needed|necessary|relevant|used)|only relevant|even though|nevertheless)\b",
    ),
)
