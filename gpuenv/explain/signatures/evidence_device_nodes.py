"""Evidence about the device nodes: who may open them, and which exist."""

from __future__ import annotations

from gpuenv.explain.signatures.evidence_common import alternative, evidence
from gpuenv.explain.signatures.phrases import AFTER, WORKS, gap

_NODE = r"(?:/dev/nvidia[\w-]{0,12}|nvidiactl\b|nvidia-uvm\b|nvhost[\w-]{0,12})"
_OTHER_NODE = r"(?:/dev/(?!nvidia|nvhost)|\bcard\d\b|\bsd[a-z]\b)"
_CLOSED = r"\bcrw-(?:rw-|r--|---)---[.+]?"
_PROGRAM = r"(?:python[\d.]*(?! -m (?:pip|venv|build|ensurepip))(?: -[ucmI])*(?: \S{1,60}){0,2}|\S{1,40}\.(?:py|x|out)|(?:\./|\S{1,40}/)?(?:deviceQuery|bandwidthTest|nbody|vectorAdd|gpu[_-]burn|ffmpeg|ollama|hashcat|blender)(?: \S{1,40}){0,2})"
_GOOD = r"(?:PASS|True|fine|OK|works|lists (?:the|all|\d)|prints (?:True|\d)|\d+ (?:cards|GPUs|devices))\b"
# An administration's command runs for root only, and what runs for the user too is not kept from him.
_NO_OTHER = r"^(?!.*\b(?:pip\d?|apt\S*|dpkg|dnf|yum|install\w*|systemctl|service|modprobe|dmesg|update\w*|never|not as root|as (?:a |the |my )?(?:normal )?user,? (?:too|as well)|user too|likewise)\b).*"
_USER = r"(?:as (?:an? |the |my |our )?(?:\w+ )?user|without sudo|unprivileged|non-root|insufficient permissions|permission denied)"

SIGNATURES = (
    # Who may open the device nodes: ls, stat, udev, systemd and the groups of Debian and Ubuntu.
    evidence(
        "nodes-closed",
        (
            "crw-",
            "/dev/nvidia",
            "nvidiactl",
            "nvidia-uvm",
            "nvhost",
            "root:",
            "video",
            "render",
            "devicepolicy",
            "label",
            "setenforce",
        ),
        rf"{_CLOSED}(?:(?!{_OTHER_NODE})[^\n]){{0,60}}(?:{_NODE}|\b(?:video|render|gpu|vglusers)\s+195,)|{_NODE}(?:(?!crw|{_OTHER_NODE})[^\n]){{0,40}}(?:is |are )?{_CLOSED}(?! +\d+ \w+ \w+ +\d+,)(?!.{{0,60}}{_OTHER_NODE})"
        rf"|{_NODE}[^\n]{{0,40}}\b(?:mode|permissions?|is|are|has|MODE)\W{{0,3}}0?6[046]0\b(?![.,]\d)|\(0?6[046]0/crw-.{{0,60}}{_NODE}|{_NODE}.{{0,30}}\(0?6[046]0/crw-"
        rf"|\b(?:mode|permissions?|MODE)\W{{0,3}}0?6[046]0\b.{{0,30}}{_NODE}|\b0?6[046]0 root:\w+.{{0,20}}{_NODE}|{_NODE}\W{{1,3}}0?6[046]0,? root:\w+"
        r"|(?:\bnot|n't|\bno longer|\bnever) (?:\w+ ){0,4}?(?:in |of |list (?:me|him|\w+)? ?)?(?:the )?(?:group |groups )?['\"`]?(?:video|render)\b['\"`/]"
        r"|(?:\bnot|n't) (?:\w+ ){0,2}?(?:in|of) (?:the )?groups? ['\"`]?(?:video|render)\b|\bgroup (?:video|render) (?:does not|doesn't|lacks)\b"
        rf"|\bDevicePolicy ?= ?(?:closed|strict)\b|\bsecurity-opt[ =]label[=:]disable\b{gap(30)}{WORKS}|\bsetenforce 0\b{gap(30)}{WORKS}",
    ),
    evidence(
        "root-may",
        ("as root", "with sudo", "under sudo"),
        rf"{_NO_OTHER}\b(?:as root|with sudo|under sudo)\b{gap(40)}\b(?:works?|fine|ok|finds|sees)\b{AFTER}|{_NO_OTHER}\b(?:as root|with sudo|under sudo)\b.{{0,40}}\bnot as\b"
        rf"|{_NO_OTHER}\b(?:works?|fine|ok|runs?) (?:only )?(?:as root|with sudo|under sudo)\b",
    ),
    alternative(
        "root-may",
        "root-does",
        ("sudo ", "as root", "under root", "for root", "with root"),
        rf"{_NO_OTHER}\bsudo (?:-u root |-E )?{_PROGRAM}`? ?(?::|=|\u2192|->|says|prints|is|shows)? ?{_GOOD}(?! too)"
        rf"|{_NO_OTHER}{_USER}.{{0,80}}\bsudo nvidia-smi`? {_GOOD}"
        rf"|{_NO_OTHER}\bsudo nvidia-smi`? {_GOOD}[,;]? (?:but |and |while )?{_USER},? (?:it )?(?:fails?|does not|doesn't|has no|finds no)\b"
        rf"|{_NO_OTHER}\b(?:True|OK|fine|works|PASS) (?:as|under|for|with) root\b|{_NO_OTHER}\b(?:as|under|for|with) root,? (?:(?!not |no )\w+ ){{0,4}}(?:is|are) (?:there|visible|listed|found|fine|OK)\b",
    ),
    # The nodes that are there, without the one that CUDA needs too.
    evidence(
        "uvm-absent",
        ("uvm", "nvidiactl"),
        r"^(?!.*uvm).*(?:\bls\b|\bfind\b|\bhas\b|\bonly\b|\bhave\b|\bbind\w*|\bmounts?\b|\bdev\d:).{0,60}nvidia0\b.{0,12}(?:/dev/)?nvidiactl\b"
        r"|^(?!.*uvm).*(?:\bls\b|\bfind\b|\bhas\b|\bonly\b|\bhave\b).{0,60}nvidiactl\b.{0,12}(?:/dev/)?nvidia0\b"
        r"|\b(?:no|without(?: an?| the)?|missing|lacks?|absent:?) (?:/dev/)?(?:nvidia[-_])?uvm\b(?! module)|\buvm (?:one|node|file|device)\b.{0,40}\b(?:missing|absent|lacking|commented out|not (?:there|passed|mounted|mapped))"
        rf"|/dev/nvidia-uvm\b(?: ?:| ?=| ?(?:→|->)| is)? ?(?:none\b|nothing\b|absent\b|missing\b|no\b(?! (?:CUDA|GPU|NVIDIA|device)))|(?:add\w*|bind\w*|pass\w*|mount\w*) {gap(30)}/dev/nvidia-uvm\b{gap(40)}(?:{WORKS}|\bfixed\b|\bdecided\b|→ ?works)|/dev/nvidia-uvm (?:was|is) (?:added|passed|mounted){gap(30)}{WORKS}",
    ),
    evidence(
        "uvm-there",
        ("nvidia-uvm",),
        r"^(?:\S{0,3}\s?ls\b[^:]{0,40}:)?\s*(?:(?:/dev/)?nvidia[\w-]{0,16}[,\s]+){0,12}(?:/dev/)?nvidia-uvm(?:-tools)?\b(?:[,\s]+(?:/dev/)?nvidia[\w-]{0,16}){0,12}\s*$|^c[rwx-]{9}.*nvidia-uvm\b",
    ),
)
