"""Problems of arrays, kernels, streams and caches described in the user's own words."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.explain.signatures.phrases import GOOD, SEVERAL, SINGLE
from gpuenv.explain.signatures.prose_devices import ADVICE
from gpuenv.model.causes import Cause

_REPORTS = "reports"
_HERE = ("gpu", "cuda", "cupy", "torch-error", "user-kernel")
_WRONG = r"(?:wrong|incorrect|corrupt\w*|garbage|stale|inconsistent|non-?determinis\w+|random|NaNs?|infs?|zeros?|differ\w*|races?|racy|race condition|before (?:it|they|the \w+) (?:had |has |have |is |are |was |were )?(?:finish\w*|done|complet\w*|written|ready))"
_STREAM = (
    r"(?:(?:non-?blocking|another|other|different|side|second|two|multiple|several|separate|current|default|null|per-thread|own|custom|CUDA|cupy|torch|external|compute|copy) streams?\b"
    r"|get(?:Current(?:CUDA)?Stream|StreamFromPool)\w*|(?:cudaS|cuda\.S|cp\.cuda\.S|S)tream\((?:non_blocking)?)"
)
_CACHE = r"(?:(?:kernel|jit|cubin|compil\w+|jitify|inductor|triton|ComputeCache)[ _]?caches?\b|\w{0,20}KernelCache|\.cupy\b|kernel_cache|jitify_cache|ComputeCache|CUPY_CACHE_DIR|cached (?:kernels?|cubins?))"
_TOGETHER = r"(?:(?:another|other|several|multiple|many|two|parallel|concurrent|different|all) (?:\w+ )?(?:process\w*|workers?|jobs?|ranks?|threads?|users?|nodes?)|concurrently|simultaneous\w*|in parallel|at the same (?:time|moment)|race conditions?|races?\b|MPI|multiprocess\w*)"
_SPOILT = r"(?:error|fail\w*|rais\w+|corrupt\w*|broken|truncat\w*|replac\w+|overwrit\w+|collid\w*|collision|conflict\w*|exists?|vanish\w*|denied|PermissionError|crash\w*|not found|race\w*|lock\w*)"
_NUMBER = r"(?:complex\w*|float\w*|double|single|half|fp(?:16|32|64)|int\d+|uint\d+|dtype|kernel|jit\.rawkernel|RawKernel|arrays?|matmul|dot|TF32)"
_LARGE = r"(?:(?:too|very) (?:large|big)\b|larger? than|more than|exceed\w*|over|above|beyond|> ?)"
_SECOND = r"(?:cuda:(?:[1-9]|\w{1,8} ?!= ?0)|device ?(?:id|index)? ?!= ?0|\b(?:second|other|non-?(?:default|zero|first)) (?:GPU|device|card)|\b(?:GPU|device|cuda|gpu_id|device_id)[ =:]{1,3}[1-9]\b(?![.\d])|any (?:GPU|device|card) (?:but|other than|except))"
_HARD = r"(?:illegal[ _]?(?:memory )?(?:access|address)\w*|cudaErrorIllegalAddress|invalid (?:device|resource) (?:context|handle|pointer)|segfault\w*|segmentation fault|garbage|NaNs?\b|wrong (?:results?|values?|numbers|output))"
_BAD = r"(?:illegal[ _]?(?:memory )?(?:access|address)\w*|cudaErrorIllegalAddress|invalid (?:device|resource) \w+|segfault\w*|segmentation fault|crash\w*|fails?\b|failed|garbage|NaNs?\b)"

SIGNATURES = (
    Signature(
        "told.cache-shared",
        _REPORTS,
        ("cache", ".cupy", "cubin"),
        ((Cause.KERNEL_CACHE_RACE, 0.68), (Cause.KERNEL_CACHE_UNWRITABLE, 0.14)),
        "CuPy, cupy/cuda/compiler.py: a kernel is written to a temporary file and moved into the folder of all",
        pattern=(
            rf"\b{_CACHE}.{{0,120}}\b{_TOGETHER}.{{0,60}}\b{_SPOILT}|\b{_TOGETHER}.{{0,80}}\b{_SPOILT}.{{0,60}}{_CACHE}|{_CACHE}.{{0,80}}\b{_SPOILT}.{{0,60}}\b{_TOGETHER}"
            rf"|\b{_TOGETHER}.{{0,60}}{_CACHE}.{{0,60}}\b{_SPOILT}"
        ),
        level=Level.WARNING,
        unless=ADVICE,
        title="Several processes write one kernel cache",
        decisive_fact="whether it is gone when each process has a folder of its own: CUPY_CACHE_DIR",
    ),
    Signature(
        "told.cache-home",
        _REPORTS,
        (".cupy", "cupy_cache_dir", "kernel cache", "kernel_cache"),
        ((Cause.KERNEL_CACHE_UNWRITABLE, 0.72),),
        "CuPy documentation, CUPY_CACHE_DIR: by default a folder of the home directory",
        pattern=(
            r"(?:\.cupy\b|CUPY_CACHE_DIR|kernel[ _]cache).{0,100}\b(?:read-?only|(?:not|n't|un)(?: be)? ?writ\w+|no (?:write )?(?:access|permissions?|space)|cannot (?:write|create|be (?:written|created|made))|quota)"
            r"|\b(?:read-?only|not writ\w+|no (?:write )?(?:access|permissions?)|cannot (?:write|create))\b.{0,80}(?:\.cupy\b|CUPY_CACHE_DIR|kernel[ _]cache)"
        ),
        level=Level.WARNING,
        unless=ADVICE,
        title="The cache of compiled kernels cannot be written",
    ),
    Signature(
        "told.streams-unordered",
        _REPORTS,
        ("stream",),
        ((Cause.STREAM_RACE, 0.66),),
        "CUDA C++ Programming Guide, Streams; CuPy documentation, Interoperability: the stream protocol",
        pattern=(
            rf"\b{_STREAM}.{{0,140}}\b{_WRONG}|\b{_WRONG}.{{0,100}}\b{_STREAM}"
            rf"|\b{_STREAM}.{{0,80}}(?:\bnot|\bnever|n't) (?:\w+ ){{0,2}}(?:synchroni[sz]ed|ordered|waited)\b"
        ),
        requires=(*_HERE, "cuda-stream"),
        level=Level.WARNING,
        unless=rf"{ADVICE}|\bstreaming\b|(?:std|file|output|input|text) ?streams?\b",
        title="Work on two streams is not ordered",
        decisive_fact="whether a synchronisation between the two cures it",
    ),
    Signature(
        "told.precision-lost",
        _REPORTS,
        ("precision", "accuracy", "rounding", "truncat", "downcast"),
        ((Cause.DTYPE_MISMATCH, 0.6), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.12), (Cause.CUPY_BUG, 0.1)),
        "CuPy documentation, Differences between CuPy and NumPy; CUDA C++ Programming Guide, Floating-Point Standard",
        pattern=(
            rf"\b(?:los(?:es|ing|t|s of)|reduc\w+|lower\w*|less|low|insufficient|degrad\w+|decreas\w+|drops?|limited|worse)\b (?:\w+ ){{0,3}}(?:precision|accuracy)\b.{{0,100}}\b{_NUMBER}"
            rf"|\b{_NUMBER}\b.{{0,80}}\b(?:los(?:es|ing|t|s of)|reduc\w+|lower\w*|less|degrad\w+|only single|truncat\w+|downcast\w*)\b (?:\w+ ){{0,3}}(?:precision|accuracy|to (?:float|int|half|single)\w*)"
            rf"|\b(?:silently|implicitly) (?:downcast|truncat|round|convert|cast)\w*\b.{{0,60}}\b{_NUMBER}"
        ),
        requires=("cupy", "cuda", "user-kernel"),
        level=Level.WARNING,
        unless=rf"{ADVICE}|\bTF32 (?:is|was) (?:off|on)|\b(?:no|without(?: any)?) loss\b|\bnot los",
        title="Types do not agree, or precision is lost silently",
        decisive_fact="the types of every array and literal in the expression",
    ),
    Signature(
        "told.too-many-elements",
        _REPORTS,
        ("large", "big", "int32", "32-bit", "32 bit", "2**31", "2^31", "overflow", "negative dimension", "2gb", "2 gb"),
        ((Cause.CUPY_BUG, 0.52), (Cause.INVALID_KERNEL_LAUNCH, 0.1), (Cause.OUT_OF_MEMORY, 0.08)),
        "CuPy's release notes: sizes and indices that were of 32 bits; cusparse.h and cusolverDn.h: int arguments",
        pattern=(
            rf"\bnegative (?:dimension|size|shape|ind)\w*\b.{{0,100}}\b{_LARGE}|\b{_LARGE}.{{0,60}}\bnegative (?:dimension|size|shape|ind)\w*"
            r"|\b(?:int32|32[- ]bit|integer)\b.{0,40}\boverflow\w*|\boverflow\w*\b.{0,40}\b(?:int32|32[- ]bit|2 ?(?:\*\*|\^) ?3[12])"
            rf"|\b(?:wrong|incorrect|fails?|crash\w*|error|illegal|garbage|zeros?)\b.{{0,80}}\b{_LARGE} ?(?:\w+ )?(?:2 ?(?:\*\*|\^) ?3[12]|int32|4 ?GB|2 ?GB)"
            rf"|\b{_LARGE} ?(?:\w+ )?(?:2 ?(?:\*\*|\^) ?3[12]|int32)\b.{{0,100}}\b(?:wrong|incorrect|fails?|crash\w*|error|illegal|garbage|zeros?)"
        ),
        requires=("cupy", "cupyx"),
        level=Level.WARNING,
        unless=ADVICE,
        title="The array has more elements than a 32-bit index can count",
        decisive_fact="whether the newest CuPy of the line does the same, and how many elements it takes",
    ),
    Signature(
        "told.header-not-located",
        _REPORTS,
        (".h`", ".h'", '.h"', ".h ", ".h,", ".hpp", ".cuh"),
        ((Cause.CUDA_HEADERS_MISSING, 0.68), (Cause.CUDA_PATH_WRONG, 0.14)),
        "CuPy documentation, Installation: CuPy always raises NVRTC_ERROR_COMPILATION",
        pattern=(
            r"(?:\bfails? to|\bfailed to|\bcannot|\bcan't|\bcould not|\bunable to|\b(?:does|do|did)(?: not|n't)) (?:locate|find|open|see|include) (?:the )?(?:\w+ ){0,2}[`'\"<]?(?:cuda|cublas|curand|cusparse|cusolver|cufft|nvrtc|vector_|cooperative_groups|math_functions|cuComplex|thrust/|cub/|crt/)[\w/]{0,40}\.(?:hpp|cuh|h)\b"
        ),
        level=Level.WARNING,
        unless=ADVICE,
        title="A header of the CUDA toolkit is not found",
        decisive_fact="whether the toolkit's headers are installed, and where CUDA_PATH points",
    ),
    Signature(
        "told.second-gpu",
        _REPORTS,
        ("cuda:", "device", "gpu", "card"),
        ((Cause.CROSS_DEVICE_ARRAY, 0.62),),
        "CuPy documentation, Multi-device; torch, CUDA semantics: a kernel runs on the current device",
        pattern=(
            rf"\b{_BAD}.{{0,60}}\b(?:on|with|when|if|using|for|from|in|at)\b.{{0,20}}{_SECOND}|{_SECOND}.{{0,60}}\b{_BAD}.{{0,100}}\b(?:cuda:0|(?:GPU|device) 0|first (?:GPU|device)|default (?:GPU|device))"
            rf"|\bworks?\b.{{0,20}}\b(?:on|with) (?:cuda:0|(?:GPU|device) 0|the (?:first|default) (?:GPU|device))\b.{{0,60}}\b(?:not|n't|fails?|{_BAD})\b"
            r"|\b(?:works?|runs?|fine)\b (?:\w+ ){0,2}(?:only|just) (?:for|on|with|when|if)\b.{0,24}(?:cuda:0|\b(?:GPU|device)(?:[ _]?id)?[ =:]{1,4}0\b)|\bonly (?:works?|runs?) (?:for|on|with|when|if)\b.{0,24}(?:cuda:0|\b(?:GPU|device)(?:[ _]?id)?[ =:]{1,4}0\b)"
            rf"|\b{_HARD}.{{0,80}}\b(?:only|just|solely) (?:\w+ ){{0,4}}?(?:in|on|with|when|if|using|for|across) (?:\w+ ){{0,4}}?{SEVERAL}"
            rf"|^(?=.{{0,300}}\b{_HARD})(?=.{{0,300}}\b{SEVERAL})(?=.{{0,300}}(?:\b{GOOD}.{{0,30}}\b{SINGLE}|\b{SINGLE}(?: (?!not\b)\w+){{0,3}} {GOOD}))"
            rf"|\b(?:wrong|zeros?|garbage|NaNs?|incorrect|corrupt\w*)\b.{{0,40}}\b(?:on|for|with|from) {_SECOND}.{{0,60}}\b(?:right|correct|fine|works?|OK)\b.{{0,20}}\b(?:cuda:0|(?:GPU|device) 0|first (?:GPU|device|card))"
            r"|\bwrong\b.{0,60}\ball (?:GPUs|devices|cards) (?:except|but)\b"
            r"|\b(?:GPU|CUDA|cupy)\b.{0,100}\bdevice[- ]mismatch\b|\bdevice[- ]mismatch\b.{0,60}\b(?:GPUs?|CUDA|cupy)\b"
        ),
        requires=_HERE,
        level=Level.WARNING,
        evidence="second-gpu",
        unless=rf"{ADVICE}|\binvalid device ordinal\b|\bout of memory\b|\bno (?:device|GPU)\b",
        title="An array of one GPU is used on another: the kernel runs on the current device",
        modifiers=(Modifier("visible-in-code", Cause.VISIBLE_DEVICES_SET_TOO_LATE, 12),),
        decisive_fact="whether it is gone with the device made current first, or with that GPU alone visible",
    ),
)
