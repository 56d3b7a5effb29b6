"""What people tell of memory, libraries and drivers in a sentence, where the message itself is not in the text."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.records import Level, Signature, Sway, Weights
from gpuenv.explain.signatures.told import ADVICE, MEMORY, NOT
from gpuenv.model.causes import Cause

_REPORTS = "reports"
_OVER = r"(?:end\w*|finish\w*|terminat\w*|kill\w*|exit\w*|stop(?:s|ped)|clos\w+|crash\w*|shut down|interrupt\w*|aborted|cancel\w*|inactive|Ctrl-?C)"
_PROGRAM = r"(?:process|program|script|job|training|run|kernel|notebook|terminal|inference|model|session)\w{0,3}"
# Who has to end it to have the memory back speaks of a pool that keeps it.
_ENDED = r"(?<!have to )(?<!need to )(?<!had to )(?<!must )(?<!without )(?<!until I )(?<!unless I )(?<!unless you )\b(?:(?:p|task)?kill(?:ed|ing|s|all)?(?: -9)?|Ctrl ?[-+ ] ?[CZ]|KeyboardInterrupt)\b"
_HERE = ("gpu", "cuda", "cupy", "torch-error")
# The first branch of the driver for each generation, by the names of its cards: the matrix's generations.
_BLACKWELL = r"(?:RTX 50[5-9]0(?: Ti| SUPER)?|50[5-9]0(?: Ti)?|RTX PRO \d{4}|B200|B300|GB200|GB300|Blackwell)"
_ADA = r"(?:RTX 40[5-9]0(?: Ti| SUPER)?|L40S?|L4|RTX [2456]000 Ada|H100|H200|Hopper|Ada Lovelace)"
# And the last one.
_KEPLER = r"(?:GTX (?:6[5-9]0|7[678]0)(?: Ti| M|M)?|GT (?:6[1-4]0|7[1-4]0)M?|Tesla K\d{2}|K80|K40|K20|Kepler)"
_PASCAL = r"(?:GTX (?:750|9[5-8]0|10[5-8]0)(?: Ti|M)?|TITAN (?:X|Xp|V)|Tesla (?:[MP]\d{1,3}|V100)|P100|V100|Maxwell|Pascal|Volta)"
_BRANCH = r"(?<![\d.])(?P<{}>[3-6]\d\d)(?:\.\d{{2,3}}(?:\.\d{{2}})?|\.?xx|-open|-server)?(?!\.?\d)"
_DRIVER = r"(?:driver|nvidia-driver|NVIDIA|branch)(?: (?:\w+ ){0,4}?|-| ?[:=] ?)"
FIRST_BRANCH, LAST_BRANCH = {"blackwell": 570, "ada": 520}, {"kepler": 470, "pascal": 580}
_SETTLED = r"\b(?:works (?:fine|well)|fixed|supported (?:since|from)|release notes|or (?:newer|later|higher)|at least|requires?|required|needs?)\b"
_TROUBLE = (
    r"(?:not (?:be )?(?:detect\w*|recogni[sz]\w*|support\w*|found|find|seen?|work\w*|boot\w*|start\w*)|n't (?:boot|work|start|detect|see|recogni[sz]e|find|support)\w*|fail\w*|errors?|no devices?"
    r"|black screen|too old|cannot|unable|crash\w*|freez\w*|unknown (?:GPU|device))"
)


def _older(values: Mapping[str, str]) -> Weights:
    """Whether the branch that is named is older than the first one for the card that is named."""
    is_older = any(int(values[name]) < first for name, first in FIRST_BRANCH.items() if name in values)
    return ((Cause.GPU_TOO_NEW_FOR_DRIVER, 0.66), (Cause.DRIVER_INSTALL_BROKEN, 0.05)) if is_older else ()


def _both(card: str, name: str) -> str:
    """The card and the driver's branch in one sentence, whichever comes first, and what is wrong somewhere in it."""
    return rf"(?=.{{0,400}}\b{_TROUBLE}\b)(?=.{{0,300}}\b{card}\b).{{0,300}}?\b{_DRIVER}{_BRANCH.format(name)}"


def _newer(values: Mapping[str, str]) -> Weights:
    """Whether the branch that is named is newer than the last one for the card that is named."""
    is_newer = any(int(values[name]) > last for name, last in LAST_BRANCH.items() if name in values)
    return ((Cause.GPU_REMOVED_FROM_DRIVER, 0.66), (Cause.DRIVER_INSTALL_BROKEN, 0.05)) if is_newer else ()


SIGNATURES = (
    Signature(
        "told.branch-newer",
        _REPORTS,
        ("driver", "nvidia 5", "nvidia 4", "branch"),
        ((Cause.GPU_REMOVED_FROM_DRIVER, 0.66),),
        "NVIDIA, Data Center Drivers, CUDA Toolkit, Driver and Architecture Matrix: the last branches of the generations",
        pattern=rf"^(?:{_both(_KEPLER, 'kepler')}|{_both(_PASCAL, 'pascal')})",
        level=Level.WARNING,
        judge=_newer,
        unless=_SETTLED,
        title="This branch of the driver no longer supports the GPU",
        decides="the GPU's name, and the driver's branch: --assume gpu=NAME, --assume driver=VERSION",
    ),
    Signature(
        "told.branch-older",
        _REPORTS,
        ("driver", "nvidia 5", "nvidia 4", "branch"),
        ((Cause.GPU_TOO_NEW_FOR_DRIVER, 0.66),),
        "NVIDIA, Data Center Drivers, CUDA Toolkit, Driver and Architecture Matrix: the first branches of the generations",
        pattern=rf"^(?:{_both(_BLACKWELL, 'blackwell')}|{_both(_ADA, 'ada')})",
        level=Level.WARNING,
        judge=_older,
        unless=_SETTLED,
        title="This branch of the driver is older than the GPU",
        decides="the GPU's name, and the driver's branch: --assume gpu=NAME, --assume driver=VERSION",
    ),
    Signature(
        "told.out-of-memory",
        _REPORTS,
        ("out-of-memory", "out of memory", "oom", "of vram"),
        ((Cause.OUT_OF_MEMORY, 0.56), (Cause.MEMORY_POOL_RETENTION, 0.08), (Cause.GPU_BUSY, 0.06)),
        "CUDA's message, retold",
        pattern=(
            r"\bout[- ]of[- ](?:GPU |video |device )?(?:memory|VRAM)\b(?: \w+)? ?(?:errors?|exceptions?|issues?|crash\w*|fail\w*)\b|\b(?:runs?|ran|running|goes|went) out of (?:\w+ )?(?:memory|VRAM)\b"
            r"|\b(?:CUDA|GPU) OOM(?:s|ed)?\b|\bOOMs? (?:errors?|on (?:the |my )?(?:GPU|card))"
        ),
        needs=_HERE,
        level=Level.WARNING,
        unless=rf"{ADVICE}|\b(?:no|without|avoid\w*|never|not|n't|prevent\w*|instead of|host|system|killed process|oom-kill\w*|disk)\b",
        title="An allocation on the GPU is larger than what is free",
        decides="how much is free and who holds the rest: nvidia-smi",
    ),
    Signature(
        "told.cuda-library",
        _REPORTS,
        ("cuda lib", "cuda shared lib", "cuda dynamic lib", "cublas", "cufft", "cusolver", "cusparse", "curand"),
        ((Cause.CUDA_LIBRARY_MISSING, 0.5), (Cause.LIBRARY_PATH_CONFLICT, 0.14)),
        "ld.so's message, retold",
        pattern=(
            r"\b(?:fails?|failed|unable|cannot|could not|can't|couldn't|does not|doesn't) (?:to )?(?:load|find|open|locate) (?:an? |the |any |some |its |all )?(?:CUDA|cuBLAS|cuFFT|cuSOLVER|cuSPARSE|cuRAND)(?: shared| dynamic| runtime| math)? librar(?:y|ies)\b"
        ),
        level=Level.WARNING,
        unless=ADVICE,
        title="A CUDA library is not found, or another one is found first",
        sways=(Sway("ld-library-path", Cause.LIBRARY_PATH_CONFLICT, 8),),
        decides="which file the loader takes: LD_DEBUG=libs, or gpuenv doctor",
    ),
    Signature(
        "told.memory-of-the-gone",
        _REPORTS,
        (
            "zombie",
            "still ",
            "remains ",
            "stays ",
            "occup",
            "held",
            "in use",
            "hold",
            "not released",
            "not freed",
            "deallocated",
            "not cleared",
            "never ",
            "n't released",
            "n't freed",
            "no running process",
            "不会释放",
            "没有释放",
            "未释放",
            "不释放",
            "没释放",
            "被释放",
            "no process",
        ),
        ((Cause.GPU_BUSY, 0.68), (Cause.OUT_OF_MEMORY, 0.1), (Cause.MEMORY_POOL_RETENTION, 0.06)),
        "NVIDIA, System Management Interface: memory is held by processes; fuser -v /dev/nvidia* lists them all",
        pattern=(
            r"(?:kill|杀|结束|停止|退出|中断).{0,24}(?:显存|显卡).{0,12}(?:不会|没有|未|不|没)(?:被)?释放|"
            rf"{_ENDED}(?:(?!\b(?:because|unless|until|otherwise|since|so that|without)\b).){{0,120}}{MEMORY}.{{0,40}}\b{NOT} (?:\w+ )?(?:released|freed|deallocated|cleared|returned|given back|reclaimed)"
            rf"|{_ENDED}.{{0,60}}\bnvidia-smi still (?:shows?|lists?|reports?)\b.{{0,40}}(?:memory|[GM]i?B)\b"
            rf"|\b(?:release|free|give back|return)s? (?:\w+ ){{0,3}}{MEMORY}.{{0,30}}\b(?:after|when|once|upon|though)\b(?: \w+){{0,4}} (?:kill\w*|Ctrl-?[CZ])"
            rf"|\b{_PROGRAM}\b(?: \w+){{0,4}} {_OVER}\b.{{0,100}}(?:memory|VRAM)\b.{{0,60}}(?:still|remains?|stays?|not (?:be |been )?(?:released|freed)|occupied|held|in use)"
            r"|\b(?<!0 )(?<!no )zombie\b(?!\w* processes: 0|\w*: 0).{0,100}(?:GPU|VRAM|memory|nvidia)|(?:GPU|VRAM|nvidia-smi)\b.{0,100}\b(?<!0 )(?<!no )zombie\b(?! processes: 0|s: 0)"
            r"|(?:memory|VRAM)\b.{0,60}(?:still|remains?|held|taken|used|occupied|hold).{0,80}(?:no (?:running )?process|process\w* (?:that )?(?:is |are )?not (?:shown|listed)|nvidia-smi does not (?:show|list))"
            rf"|{MEMORY}.{{0,40}}{NOT} (?:\w+ )?(?:released|freed|deallocated|cleared|returned).{{0,20}}\b(?:after|when|once|upon)\b(?: \w+){{0,4}} (?:interr?upt\w*|{_OVER})\b"
            rf"|\bprevious process\w*.{{0,60}}(?:still )?hold\w* .{{0,20}}memory|other (?:users?|process\w*).{{0,60}}(?:occup|hold|us|tak)\w* .{{0,30}}{MEMORY}"
        ),
        needs=(*_HERE, "smi-table"),
        level=Level.WARNING,
        unless=ADVICE,
        title="Processes of which the user knows nothing hold the GPU's memory",
        decides="which processes hold the driver's device nodes: fuser -v /dev/nvidia*",
    ),
)
