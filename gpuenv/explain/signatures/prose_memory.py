"""Problems of memory and libraries described in the user's own words, without the message itself."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.explain.signatures.prose_devices import ADVICE, MEMORY, NOT
from gpuenv.model.causes import Cause

_REPORTS = "reports"
_OVER = r"(?:end\w*|finish\w*|terminat\w*|kill\w*|exit\w*|stop(?:s|ped)|clos\w+|crash\w*|shut down|interrupt\w*|aborted|cancel\w*|inactive|Ctrl-?C)"
_PROGRAM = r"(?:process|program|script|job|training|run|kernel|notebook|terminal|inference|model|session)\w{0,3}"
# Who has to end it to have the memory back speaks of a pool that keeps it.
_ENDED = r"(?<!have to )(?<!need to )(?<!had to )(?<!must )(?<!without )(?<!until I )(?<!unless I )(?<!unless you )\b(?:(?:p|task)?kill(?:ed|ing|s|all)?(?: -9)?|Ctrl ?[-+ ] ?[CZ]|KeyboardInterrupt)\b"
_HERE = ("gpu", "cuda", "cupy", "torch-error")

SIGNATURES = (
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
        requires=_HERE,
        level=Level.WARNING,
        unless=rf"{ADVICE}|\b(?:no|without|avoid\w*|never|not|n't|prevent\w*|instead of|retr(?:y|ies)|handled|caught|recover\w*|host|system|killed process|oom-kill\w*|disk)\b",
        title="An allocation on the GPU is larger than what is free",
        decisive_fact="how much is free and who holds the rest: nvidia-smi",
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
        modifiers=(Modifier("ld-library-path", Cause.LIBRARY_PATH_CONFLICT, 8),),
        decisive_fact="which file the loader takes: LD_DEBUG=libs, or gpuenv doctor",
    ),
    Signature(
        "told.memory-of-the-gone",
        _REPORTS,
        (
            "zombie",
            "defunct",
            "dead ",
            "killed ",
            "crashed ",
            "not release",
            "n't release",
            "not free",
            "n't free",
            "allocated",
            "still ",
            "remains ",
            "stays ",
            "occup",
            "held",
            "in use",
            "hold",
            "deallocated",
            "not cleared",
            "never ",
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
            rf"|\b(?:stopping|closing|quitting|terminating|shutting down|interrupting|killing) (?:(?!cell)\w+ ){{1,5}}(?:does not|doesn't|do not|never|won't|will not|did not|didn't) (?:release|free|clear|give back|return)s? (?:\w+ ){{0,2}}{MEMORY}"
            rf"|\bafter (?:stopping|closing|quitting|terminating|shutting down|interrupting|killing)(?: (?!cell|unless|until)\w+){{1,6}},? (?:\w+ ){{0,2}}{MEMORY} (?:\w+ )?(?:stays|remains|is still|still) (?:\w+ )?(?:occupied|allocated|used|in use|full|held|taken)"
            rf"|\b(?:killed|crashed|dead) (?:\w+ ){{0,3}}(?:leaves?|keeps?|left|kept|holds?) (?:\w+ ){{0,2}}{MEMORY}|\bdefunct\b.{{0,60}}{MEMORY}|{MEMORY} (?:\w+ )?of (?:an? |the )?(?:dead|killed|gone|crashed|vanished) (?:process|job|program)"
            rf"|\b{_PROGRAM}\b(?: \w+){{0,4}} {_OVER}\b.{{0,100}}(?:memory|VRAM)\b.{{0,60}}(?:still|remains?|stays?|not (?:be |been )?(?:released|freed)|occupied|held|in use)"
            r"|\b(?<!0 )(?<!no )zombie\b(?!\w* processes: 0|\w*: 0).{0,100}(?:GPU|VRAM|memory|nvidia)|(?:GPU|VRAM|nvidia-smi)\b.{0,100}\b(?<!0 )(?<!no )zombie\b(?! processes: 0|s: 0)"
            r"|(?:memory|VRAM)\b.{0,60}(?:still|remains?|held|taken|used|occupied|hold).{0,80}(?:no (?:running )?process|process\w* (?:that )?(?:is |are )?not (?:shown|listed)|nvidia-smi does not (?:show|list))"
            rf"|{MEMORY}.{{0,40}}{NOT} (?:\w+ )?(?:released|freed|deallocated|cleared|returned).{{0,20}}\b(?:after|when|once|upon)\b(?: \w+){{0,4}} (?:interr?upt\w*|{_OVER})\b"
            rf"|\bprevious process\w*.{{0,60}}(?:still )?hold\w* .{{0,20}}memory|other (?:users?|process\w*).{{0,60}}(?:occup|hold|us|tak)\w* .{{0,30}}{MEMORY}"
        ),
        requires=(*_HERE, "smi-table"),
        level=Level.WARNING,
        unless=ADVICE,
        title="Processes of which the user knows nothing hold the GPU's memory",
        decisive_fact="which processes hold the driver's device nodes: fuser -v /dev/nvidia*",
    ),
)
