"""Cards, drivers and CUDA versions that the user names in one sentence and that do not fit each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuenv.explain.explanation_types import Level, Signature, Weights
from gpuenv.model.causes import Cause
from gpuenv.model.versions import CudaVersion

_REPORTS = "reports"
_MATRIX = "NVIDIA, Data Center Drivers, CUDA Toolkit, Driver and Architecture Matrix"
_CARDS = {
    "blackwell": r"(?:RTX 50[5-9]0(?: Ti| SUPER)?|50[5-9]0(?: Ti)?|RTX PRO \d{4}|B200|B300|GB200|GB300|Blackwell)",
    "ada": r"(?:RTX 40[5-9]0(?: Ti| SUPER)?|L40S?|L4|RTX [2456]000 Ada|H100|H200|Hopper|Ada Lovelace)",
    "ampere": r"(?:RTX 30[5-9]0(?: Ti)?|RTX A\d000|A40|A10G?)",
    "kepler": r"(?:GTX (?:6[5-9]0|7[678]0)(?: Ti| M|M)?|GT (?:6[1-4]0|7[1-4]0)M?|Tesla K\d{2}|K80|K40|K20|Kepler)",
    "pascal": r"(?:GTX (?:750|9[5-8]0|10[5-8]0)(?: Ti|M)?|TITAN (?:X|Xp|V)|Tesla (?:[MP]\d{1,3}|V100)|P100|V100|Maxwell|Pascal|Volta)",
}
# The first and the last branch of the driver for their cards, the first CUDA that compiles for them, and the oldest
# branch on which programs of a CUDA's major version run: the matrix's generations, cuda_minors and cuda_majors.
FIRST_BRANCH, LAST_BRANCH = {"blackwell": 570, "ada": 520}, {"kepler": 470, "pascal": 580}
FIRST_CUDA = {"blackwell": CudaVersion(12, 8), "ada": CudaVersion(11, 8), "ampere": CudaVersion(11, 1)}
OLDEST_BRANCH = {"11": 450, "12": 525, "13": 580}
_BRANCH = r"(?<![\d.])(?P<{}>[3-6]\d\d)(?:\.\d{{2,3}}(?:\.\d{{2}})?|\.?xx|-open|-server)?(?!\.?\d)"
_DRIVER = r"(?:driver|nvidia-driver|NVIDIA|branch)(?: (?:\w+ ){0,4}?|-| ?[:=] ?)"
_CUDA = r"(?<!\w)(?:CUDA|cuda_|toolkit|nvcc)(?: ?toolkit| ?version| ?SDK)?(?: (?:is |of )?|[-=:] ?)v?(?P<{}>(?:8|9|1[0-3])\.\d)(?!\d)"
_MAJOR = r"\b(?:CUDA|cupy-cuda|cu) ?-?(?P<{}>1[1-3])(?:x\b|\.\d\b|\d\b|(?![\d.]))"
_SETTLED = r"\b(?:works (?:fine|well)|fixed|unless|as documented|(?:no|0|without) (?:\w+ )?(?:errors?|failures?|problems?)|supported (?:since|from)|release notes|or (?:newer|later|higher)|at least|requires?|required|needs?)\b"
_TROUBLE = (
    r"(?:not (?:be )?(?:detect\w*|recogni[sz]\w*|support\w*|found|find|seen?|work\w*|boot\w*|start\w*|run\w*|compil\w*)|n't (?:boot|work|start|detect|see|recogni[sz]e|find|support|run|compile)\w*|fail\w*|errors?|no devices?"
    r"|black screen|too old|cannot|unable|crash\w*|freez\w*|unknown (?:GPU|device))"
)


def _together(one: str, other: str) -> str:
    """The two in one sentence, whichever comes first, and what is wrong somewhere in it."""
    return rf"(?=.{{0,400}}\b{_TROUBLE}\b)(?=.{{0,300}}\b{one}\b).{{0,300}}?{other}"


def _any(names: Mapping[str, object], other: Callable[[str], str]) -> str:
    return "^(?:" + "|".join(_together(_CARDS[name], other(name)) for name in names) + ")"


def _driver(name: str) -> str:
    return rf"\b{_DRIVER}{_BRANCH.format(name)}"


def _weights_if(is_so: Callable[[str, str], bool], then: Weights) -> Callable[[Mapping[str, str]], Weights]:
    """What is meant where any of the numbers that were named is out of its card's range."""
    return lambda values: then if any(is_so(name, value) for name, value in values.items()) else ()


SIGNATURES = (
    Signature(
        "told.branch-older",
        _REPORTS,
        ("driver", "nvidia 5", "nvidia 4", "branch"),
        ((Cause.GPU_TOO_NEW_FOR_DRIVER, 0.66), (Cause.DRIVER_INSTALL_BROKEN, 0.05)),
        f"{_MATRIX}: the first branches of the generations",
        pattern=_any(FIRST_BRANCH, _driver),
        level=Level.WARNING,
        weights_fn=_weights_if(
            lambda name, value: int(value) < FIRST_BRANCH[name],
            ((Cause.GPU_TOO_NEW_FOR_DRIVER, 0.66), (Cause.DRIVER_INSTALL_BROKEN, 0.05)),
        ),
        unless=_SETTLED,
        title="This branch of the driver is older than the GPU",
        decisive_fact="the GPU's name, and the driver's branch: --assume gpu=NAME, --assume driver=VERSION",
    ),
    Signature(
        "told.branch-newer",
        _REPORTS,
        ("driver", "nvidia 5", "nvidia 4", "nvidia 6", "branch"),
        ((Cause.GPU_REMOVED_FROM_DRIVER, 0.66), (Cause.DRIVER_INSTALL_BROKEN, 0.05)),
        f"{_MATRIX}: the last branches of the generations",
        pattern=_any(LAST_BRANCH, _driver),
        level=Level.WARNING,
        weights_fn=_weights_if(
            lambda name, value: int(value) > LAST_BRANCH[name],
            ((Cause.GPU_REMOVED_FROM_DRIVER, 0.66), (Cause.DRIVER_INSTALL_BROKEN, 0.05)),
        ),
        unless=_SETTLED,
        title="This branch of the driver no longer supports the GPU",
        decisive_fact="the GPU's name, and the driver's branch: --assume gpu=NAME, --assume driver=VERSION",
    ),
    Signature(
        "told.cuda-older",
        _REPORTS,
        ("cuda", "toolkit", "nvcc"),
        ((Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.56), (Cause.NO_KERNEL_IMAGE, 0.18)),
        "CUDA Toolkit Release Notes 11.1, 11.8 and 12.8: the architectures that are new in them",
        pattern=_any(FIRST_CUDA, _CUDA.format),
        level=Level.WARNING,
        weights_fn=_weights_if(
            lambda name, value: CudaVersion.parse(value) < FIRST_CUDA[name],
            ((Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.56), (Cause.NO_KERNEL_IMAGE, 0.18)),
        ),
        unless=_SETTLED,
        title="This CUDA is older than the GPU",
        decisive_fact="the GPU and the CUDA there: --assume gpu=NAME, --assume toolkit=VERSION",
    ),
    Signature(
        "told.driver-older",
        _REPORTS,
        ("driver", "nvidia 5", "nvidia 4"),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.62),),
        "CUDA Compatibility, Minor Version Compatibility: the oldest driver of each CUDA major version",
        pattern=(
            rf"^(?=.{{0,400}}\b{_TROUBLE}\b)(?:(?=.{{0,300}}?{_MAJOR.format('major')}).{{0,300}}?\b{_DRIVER}{_BRANCH.format('branch')})"
        ),
        level=Level.WARNING,
        weights_fn=lambda values: (
            ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.62), (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.08))
            if int(values["branch"]) < OLDEST_BRANCH[values["major"]]
            else ()
        ),
        unless=_SETTLED,
        title="The driver is older than this CUDA needs",
        decisive_fact="the driver's version: nvidia-smi",
    ),
    Signature(
        "told.launch-too-large",
        _REPORTS,
        ("exceed", "more than", "too many threads", "larger than"),
        ((Cause.INVALID_KERNEL_LAUNCH, 0.62),),
        "CUDA C++ Programming Guide, Technical Specifications per Compute Capability",
        pattern=(
            r"\b(?:block|grid|threads?|launch)[ _-]?(?:dim\w*|sizes?|configuration)?\b.{0,30}\b(?:exceed\w*|(?:is |are )?(?:more|larger|greater) than)\b.{0,40}\b(?:threads (?:per|in a) block|(?<![\d.])\d\d?[,.]?\d{3}\b(?: threads| blocks| in [xyz]\b|$)|GPU'?s? limit|device'?s? limit)"
            r"|\btoo many threads (?:per|in (?:a|the)) block\b"
        ),
        requires=("cuda", "gpu", "cupy", "other-jit", "launch-frame"),
        level=Level.WARNING,
        unless=r"\b(?:must not|may not|should not|cannot|can't|never|if|keep|so that|no more)\b|: (?:no|OK)\b",
        title="The launch asks for more threads or blocks than the GPU gives",
        decisive_fact="the block size and the grid of the launch that fails",
    ),
)
