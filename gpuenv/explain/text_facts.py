"""Extracts facts of the machine that a text states: versions in nvidia-smi's table, show_config, pip's lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gpuenv.explain.patterns import compiled
from gpuenv.model.versions import cuda_of_number


@dataclass(frozen=True, slots=True)
class FactPattern:
    """A pattern by which a text states a fact.

    Attributes:
        key: what ``--assume`` calls it; ``{}`` in it takes the first group.
        literal: a lower-case text that the line must contain.
        pattern: its last group is the value.
        read: makes the value what ``--assume`` takes.
        loose: whether it is what people write, which counts where no program's output states the fact.
    """

    key: str
    literal: str
    pattern: str
    read: Callable[[str], str] = str
    loose: bool = False


# A version of a driver, or one that something needs, is not what is installed.
_OF_OTHERS = (
    r"^(?!.*(?:driver|nvidia-smi|requir|support|needs?\b|at least|minimum|capability|built|compiled|>=|<=|http))"
)
# Advice speaks of a machine without a GPU too, and so do those who compare theirs with one.
_OF_THIS_MACHINE = (
    r"^(?!.*\b(?:if|unless|whether|please|when|ensure|make sure|check that|should|must"
    r"|works|passes|succeeds|fine|others?|another|different|colleague|users|people|login)\b).*?"
)
_NO_GPU = (
    r"\b(CPU[- ]only|GPU-?less) (?:node|machine|server|host|VM|instance|box|laptop|computer|PC|runner)\b"
    r"|\b(?:has|have|having|with|got) no (?:NVIDIA|physical) (?:GPU|(?:graphics |video )?card)\b"
    r"|\b(?:do|does)(?:n't| not) (?:even )?have (?:an? |any )?(?:NVIDIA |physical )?(?:GPU|(?:graphics|video) card)\b"
    r"|\b(?:machine|laptop|server|VM|PC|computer|instance|node|host)s? (?:without|with no|ha(?:s|ve) no)"
    r" (?:(?:an?|any) )?(?:NVIDIA )?GPU"
    r"|\b(?:GPU|card|graphics) (?:here |there )?is (?:an? |from |by )?(?:AMD|Radeon|Intel)\b"
    r"|\b(?:on|with|have|has|using|own) (?:an? |my |only )?AMD (?:GPU|graphics|Radeon|card|video card)\b"
)
# The chips' names in lspci and in the logs of nouveau, as the PCI ID Repository (pci.ids, vendor 10de) has them.
_CHIPS = (
    ("GF100", "2.0"),
    ("GF110", "2.0"),
    ("GF1", "2.1"),
    ("GK10", "3.0"),
    ("GK11", "3.5"),
    ("GK20", "3.5"),
    ("GK21", "3.7"),
    ("GM10", "5.0"),
    ("GM20", "5.2"),
    ("GP100", "6.0"),
    ("GP10", "6.1"),
    ("GV100", "7.0"),
    ("TU1", "7.5"),
    ("GA100", "8.0"),
    ("GA10", "8.6"),
    ("AD10", "8.9"),
    ("GH100", "9.0"),
    ("GB100", "10.0"),
    ("GB20", "12.0"),
)
_ARCHITECTURES = {"Kepler": "3.5", "Maxwell": "5.2", "Pascal": "6.1", "Volta": "7.0", "Turing": "7.5"}


def _of_chip(name: str) -> str:
    return next(capability for chip, capability in _CHIPS if name.casefold().startswith(chip.casefold()))


def _always(value: str) -> Callable[[str], str]:
    return lambda _: value


def _distribution(text: str) -> str:
    """``cupy_cuda12x-13.6.0`` of a file name, or ``cupy-cuda12x v13.6.0``, as ``cupy-cuda12x==13.6.0``."""
    name, release = re.split(r"==|-(?=\d)|\s+v?", text, maxsplit=1)
    return f"{name.replace('_', '-')}=={release}"


_FACT_PATTERNS = (
    FactPattern("driver", "driver version", r"(?:NVIDIA-SMI.*)?Driver Version\s*: (\d{3}\.\d+(?:\.\d+)?)"),
    FactPattern("driver", "nvidia-smi", r"NVIDIA-SMI \d\S* +KMD Version: (\d{3}\.\d+(?:\.\d+)?)"),
    FactPattern("driver", "nvrm version", r"NVRM version:.* (\d{3}\.\d+(?:\.\d+)?) "),
    FactPattern("driver", "driver release", r"NVRM: NVIDIA (\d{3}\.\d+(?:\.\d+)?) driver release\b"),
    FactPattern("driver-cuda", "cuda version", r"CUDA (?:UMD )?Version\s*: (\d{1,2}\.\d)\b"),
    FactPattern("driver-cuda", "cuda umd version", r"CUDA UMD Version\s*: (\d{1,2}\.\d)\b"),
    FactPattern("driver-cuda", "cuda driver version", r"CUDA Driver Version\s*: ([1-9]\d{3,4})\b", cuda_of_number),
    FactPattern("driver-cuda", "driver on your system", r"too old \(found version ([1-9]\d{3,4})\)", cuda_of_number),
    FactPattern("toolkit", "cuda compilation tools", r"Cuda compilation tools, release (\d+\.\d)"),
    FactPattern("toolkit", "/cuda-", r"/usr/local/cuda-(\d{1,2}\.\d)\b"),
    FactPattern("toolkit", "cuda\\v", r"CUDA\\+v(\d{1,2}\.\d)\b"),
    FactPattern("toolkit", "runtime api version", r"Runtime API Version: (\d{1,2}\.\d)\b"),
    FactPattern("driver-cuda", "driver api version", r"Driver API Version: (\d{1,2}\.\d)\b"),
    FactPattern("toolkit", "runtime version", r"CUDA Driver Version / Runtime Version +\d\S* / (\d{1,2}\.\d)\b"),
    FactPattern("driver-cuda", "runtime version", r"CUDA Driver Version / Runtime Version +(\d{1,2}\.\d) /"),
    FactPattern("toolkit", "pytorch-cuda", r"\bpytorch-cuda(?:=| +)(\d{1,2}\.\d)\b", loose=True),
    FactPattern("toolkit", "cudatoolkit", r"\bcudatoolkit(?:={1,2}| +)(\d{1,2}\.\d)\b", loose=True),
    FactPattern("toolkit", "version.cuda", r"version\.cuda\W{0,6} (?:\w+ )?(\d{1,2}\.\d)\b", loose=True),
    FactPattern("toolkit", "+cu", r"\+cu(1[0-3]\d)\b", lambda digits: f"{digits[:2]}.{digits[2]}", loose=True),
    FactPattern("toolkit", "cuda/", r"\bcuda/(\d{1,2}\.\d)(?:\.\d+)?\b", loose=True),
    FactPattern("toolkit", "cuda-", r"(?<![\w.-])cuda-(\d{1,2}\.\d)(?:\.\d+)?(?![\w.-])", loose=True),
    FactPattern(
        "toolkit",
        "cuda",
        _OF_OTHERS
        + r".*\bCUDA(?: ?toolkit)?(?: ?version|\u7248\u672c|-)?(?: (?:is|are|of)| ?[\u662f\u4e3a:=\uff1a])? ?v?"
        + r"(\d{1,2}\.\d)(?:\.\d+)?(?!\w|\.\w)",
        loose=True,
    ),
    FactPattern("toolkit", "cuda 13", _OF_OTHERS + r".*\bCUDA (13)(?!\w|\.\w)", lambda major: f"{major}.0", loose=True),
    FactPattern("python", "python version", r"Python Version\s*: (\d\.\d+)"),
    FactPattern("python", "/python3", r"/(?:lib/)?python(3\.\d+)/"),
    FactPattern("python", "cp3", r"^(?!.*not a supported wheel).*-cp3(\d{1,2})-cp3", lambda minor: f"3.{minor}"),
    FactPattern(
        "python", "python", _OF_OTHERS + r".*?(?<![\w/.-])python ?v?(3\.\d{1,2})(?![\d+])(?! or\b)", loose=True
    ),
    FactPattern("numpy", "numpy version", r"NumPy Version\s*: (\d[\w.]+)"),
    *(
        FactPattern("cupy", name, r"\b(cupy[-_]cuda\d\dx(?:==|-)\d+\.\d+\.\d+)(?![\d.]*\.tar)", _distribution)
        for name in ("cupy-cuda", "cupy_cuda")
    ),
    FactPattern("cupy", "cupy-cuda", r"\b(cupy-cuda\d\dx +v?\d+\.\d+\.\d+)(?!\S)", _distribution, loose=True),
    FactPattern(
        "package.torch", "+cu", r"\b(?:torch|PyTorch)(?: version)?(?:==|:? +|-)(\d+\.\d+\.\d+\w*\+cu\d{2,3})\b"
    ),
    FactPattern("gpu", ", pci bus id", r"\bname: ((?:NVIDIA |Tesla |GeForce |Quadro )[\w -]{2,40}?), pci bus id"),
    FactPattern("arch", "os/platform", r"\bLinux-\S+-(x86_64|aarch64)-"),
    FactPattern("arch", "linux_", r"manylinux\w*?_(x86_64|aarch64)\b"),
    FactPattern("compute-capability", "sm_", r"with CUDA capability sm_(\d{2,3})\b"),
    *(
        FactPattern(
            "gpu",
            series,
            r"\b((?:NVIDIA )?(?:GeForce )?(?:RTX|GTX) ?A?\d{3,4}(?: ?Ti)?(?: ?SUPER)?)(?![\d*x])",
            loose=True,
        )
        for series in ("rtx", "gtx")
    ),
    *(
        FactPattern(
            "gpu", name, rf"(?<![\w-])((?:NVIDIA )?(?:Tesla )?{name}(?:-\w{{2,5}}){{0,2}})(?![\w-])", loose=True
        )
        for name in ("k80", "p100", "v100", "a100", "h100", "h200", "b200")
    ),
    *(
        FactPattern("gpu", word, _OF_THIS_MACHINE + f"(?:{_NO_GPU})", _always("none"), loose=True)
        for word in ("cpu-only", "cpu only", "gpu", "graphics", "card")
    ),
    *(
        FactPattern(
            "compute-capability",
            chip.lower(),
            rf"\b(?:NVIDIA|nouveau)\b.{{0,80}}?\b({chip}\d{{0,2}}\w{{0,4}})\b",
            _of_chip,
            loose=True,
        )
        for chip, _ in _CHIPS
    ),
    *(
        FactPattern(
            "compute-capability",
            name.lower(),
            rf"\b({name}) (?:card|GPU|graphics|generation|architecture)\b",
            _always(capability),
            loose=True,
        )
        for name, capability in _ARCHITECTURES.items()
    ),
    # CuPy prints the options of a compile that failed; what it asks for is what the GPU is, or less.
    FactPattern("compute-capability", "-arch=compute_", r"Options: .*-arch=compute_(\d{2,3})\b"),
    FactPattern("compute-capability", "compute capability", r"compute capability:? (\d{1,2}\.\d)\b"),
    *(
        FactPattern(
            "gpu",
            maker,
            r"(?:GPU \d: |\| +\d+ +|Found GPU\d+ |Device \d+:? \"?|GPU(?: name)?: +|(?<![\w:] )(?<!\w))"
            r"((?:NVIDIA |Tesla |GeForce |Quadro )[\w -]{2,40}?)"
            r"(?= +(?:On|Off|WDDM|TCC)\b| \(UUID| which| with CUDA|\"|$)",
        )
        for maker in (
            "nvidia a",
            "nvidia h",
            "nvidia l",
            "nvidia rtx",
            "nvidia g",
            "nvidia t",
            "tesla",
            "geforce",
            "quadro",
        )
    ),
)
# Where a text is long, what people write in it is not looked for.
LITERALS = tuple(statement.literal for statement in _FACT_PATTERNS if not statement.loose)
_MOST = 3  # different values of one fact that are kept; two already make it useless


class TextFacts:
    """Collects the facts that lines state; drops a fact with two values, except a GPU's name."""

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}
        self._loose: dict[str, list[str]] = {}

    def look(self, line: str) -> bool:
        """Reads a line; returns whether it states a fact."""
        states, lowered = False, line.lower()
        for statement in _FACT_PATTERNS:
            match = compiled(statement.pattern).search(line) if statement.literal in lowered else None
            if match is None:
                continue
            states = True
            value = statement.read(match[match.lastindex or 0].strip())
            values = (self._loose if statement.loose else self._values).setdefault(statement.key, [])
            if value not in values and len(values) < _MOST:
                values.append(value)
        return states

    @property
    def facts(self) -> tuple[str, ...]:
        """``KEY=VALUE`` texts, as ``--assume`` takes them."""
        facts = {key: _without_none(values) for key, values in {**self._loose, **self._values}.items()}
        return tuple(
            f"{key}={values[0]}"
            for key, values in facts.items()
            if len(values) == 1 or (key == "gpu" and len(values) < _MOST)
        )


def _without_none(values: list[str]) -> list[str]:
    """The values other than ``none``, if any: ``none`` then concerns another machine or another maker's GPU."""
    return [value for value in values if value != "none"] or values
