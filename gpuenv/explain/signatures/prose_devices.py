"""GPU problems described in the user's own words, without a printed message."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

_REPORTS = "reports"
# What makes advice, news or documentation of a sentence that would tell of a fault.
ADVICE = (
    r"\b(?:fix(?:es|ed)|reduc(?:es|ed)|by design|on purpose|guides?|docs|documentation|see also|must (?:be|stand)|should be set|allows?|allowed|OK|healthy"
    r"|works again|not (?:lose|affected|throttled)|cleans? up|supported|wheels? for|either|since we|to (?:choose|select|avoid|prevent)|keeps? the|immediately"
    r"|batch size|0 MiB|up to (?:\d|seven)|no effect on nvidia-smi|so that one|file system is)\b|\bif (?:no|an?|the|you)\b"
)
_HERE = ("gpu", "cuda", "cupy", "torch-error")
MEMORY = r"(?:\b(?:GPU|device|CUDA|NVIDIA|pinned|video|graphics)(?:'s)?[ -](?:card )?(?:memory|RAM)\b|\bVRAM\b|\bmemory (?:usage )?(?:of|on|in) the (?:GPU|card|device)\b)"
NOT = r"(?:not|n't|never|cannot)"
_GROWS = (
    r"(?:keeps? (?:on )?(?:growing|increasing|rising|climbing|going up|accumulating|filling)|\b(?:grow(?:s|ing)|accumulates|climbs|fills up|builds up)\b"
    r"|(?:increas\w+|rises|goes up) (?:with|after|on|in|at|over) (?:each|every|time|all|iterations?|steps?|epochs?)|continu\w+ (?:to )?(?:grow|increas|ris|climb)\w*"
    rf"|{NOT} (?:being |be |get |gets )?(?:released|freed|returned|reclaimed|deallocated|cleared|given back)|{NOT} (?:go(?:es)? down|decreas\w+|shrinks?|drops?)\b"
    r"|(?<!nothing )(?:stays?|remains?) (?:allocated|occupied|reserved|high|used|in use|full))"
)
_FIRST = r"(?:(?:GPU|device|cuda|index|card)[ :]{0,3}(?:index )?\[?0\b|\[0\b|(?:the )?first (?:GPU|card|device)|all (?:of )?(?:the )?(?:GPUs|cards|devices)|(?:the )?(?:same|wrong|default|other) (?:GPU|card|device))"
_ONE = r"(?:only (?:one|1|a single|the first)\b|(?:one|1|a single) (?:GPU|device|instance) only)"
_UNSEEN = r"(?:no (?:GPUs?|devices?|instances?|CUDA)\b|(?:not|n't|cannot|never) (?:be )?(?:found|find|visible|see[ns]?|detect\w*|use[ds]?|usable|work\w*|available|listed|show\w*|recogni[sz]\w*)|is_available\(\)\W{1,6}(?:\w+ )?False|fails?\b)"

# What lines of logs have less often than the word memory.
_KEPT = (
    "growing",
    "grows",
    "increas",
    "rising",
    "climb",
    "accumulat",
    "filling",
    "fills up",
    "going up",
    "goes up",
    "builds up",
    "releas",
    "freed",
    "not free",
    "n't free",
    "returned",
    "reclaimed",
    "dealloc",
    "cleared",
    "given back",
    "give back",
    "go down",
    "goes down",
    "decreas",
    "shrink",
    "drop",
    "stays ",
    "remains ",
    "leak",
    "still show",
    "still report",
    "still list",
    "reports ",
    "shows ",
    "empty_cache",
    "不释放",
    "有释放",
    "法释放",
    "一直增",
    "一直上",
)

SIGNATURES = (
    Signature(
        "told.memory-grows",
        _REPORTS,
        _KEPT,
        ((Cause.MEMORY_POOL_RETENTION, 0.56), (Cause.OUT_OF_MEMORY, 0.14), (Cause.GPU_BUSY, 0.08)),
        "CuPy documentation, Memory Management: the pool keeps what arrays no longer use; torch, CUDA semantics, Memory management",
        pattern=(
            rf"{MEMORY}(?: \w+)?.{{0,60}}{_GROWS}"
            rf"|{NOT} (?:\w+ )?(?:release|free|give back|return|clear)s? (?:\w+ ){{0,3}}{MEMORY}|{MEMORY}.{{0,40}}\bleak\w*|\bleak\w* .{{0,20}}{MEMORY}"
            r"|nvidia-smi.{0,40}\b(?:still (?:shows?|reports?|lists?)|(?:shows?|reports?) (?:\S+ ){1,4}(?:used|in use) (?:although|even though|but|while)\b).{0,60}(?:memory|MiB|GiB|MB|GB|arrays?)\b"
            r"|\bempty_cache\(\).{0,60}(?:not|n't|no effect|nothing)\b|显存.{0,20}(?:不释放|没有释放|无法释放|一直(?:增加|增长|上涨)|越来越)"
        ),
        requires=(*_HERE, "smi-table"),
        level=Level.WARNING,
        unless=ADVICE,
        title="The memory pool may keep what no array uses any more",
        modifiers=(Modifier("cupy", Cause.MEMORY_POOL_RETENTION, 2),),
        decisive_fact="used_bytes and total_bytes of the memory pool; nvidia-smi shows the second",
    ),
    Signature(
        "told.cupy-keeps-memory",
        _REPORTS,
        (*_KEPT, "used_bytes", "free_all_blocks", "free memory", "clear memory", "gpu memory in"),
        ((Cause.MEMORY_POOL_RETENTION, 0.66), (Cause.OUT_OF_MEMORY, 0.14)),
        "CuPy documentation, Memory Management",
        pattern=(
            rf"\bmemory\b(?!-)(?: \w+){{0,6}} {_GROWS}"
            rf"|{NOT} (?:\w+ )?(?:release|free|give back|return|clear)s? (?:\w+ ){{0,3}}memory\b|\bmemory leaks?\b|\bleaks? memory\b|\bhow (?:can I|to|do I) (?:free|release|clear) (?:the )?(?:\w+ )?memory\b|\bused_bytes\(?\)? (?:is|returns|shows|=+) 0\b.{{0,60}}\btotal_bytes\b|free_all_blocks\b.{{0,60}}{NOT}\b"
        ),
        requires=("cupy",),
        level=Level.WARNING,
        unless=ADVICE,
        title="CuPy's memory pool keeps what no array uses any more",
        decisive_fact="used_bytes and total_bytes of the memory pool; nvidia-smi shows the second",
    ),
    Signature(
        "told.exclusive",
        _REPORTS,
        ("exclusive",),
        ((Cause.COMPUTE_MODE_EXCLUSIVE, 0.6), (Cause.GPU_BUSY, 0.12)),
        "nvidia-smi, option --compute-mode; CUDA C++ Programming Guide, Compute Modes",
        pattern=(
            r"(?:\b(?:process|thread)[ _-](?:or \w+ )?exclusive\b|(?<!not )(?<!no )(?<!never )\bexclusive[ _-](?:process|thread|compute|mode)\b).{0,160}"
            r"(?:second|another|other|only one|fail|error|cannot|can't|unable|busy|unavailable|no (?:free|available))"
        ),
        requires=_HERE,
        level=Level.WARNING,
        unless=ADVICE,
        title="The GPU takes one process only, by its compute mode",
        decisive_fact="the compute mode: nvidia-smi -q -d COMPUTE",
    ),
    Signature(
        "told.variable-without-effect",
        _REPORTS,
        ("cuda_visible_devices",),
        ((Cause.VISIBLE_DEVICES_SET_TOO_LATE, 0.66), (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.08)),
        "CUDA C++ Programming Guide, CUDA Environment Variables: read when CUDA is initialised",
        pattern=(
            rf"CUDA_VISIBLE_DEVICES.{{0,140}}\b(?:still|always|nevertheless|anyway|goes on|keeps?|continues?)\b.{{0,50}}\b(?:us\w+|runs?|running|tak\w+|select\w*|sees?|load\w*|on|with)\b.{{0,20}}{_FIRST}"
            r"|CUDA_VISIBLE_DEVICES.{0,80}(?:no (?:effect|influence)|(?:does|do|did)(?: not|n't) (?:work|take effect|help|have (?:any )?effect)|not (?:working|respected|honou?red|captured|recogni[sz]ed)|\bnot? work\b|useless|unavail\w+|is ignored)"
            # Without the variable that is as it should be.
            r"|(?<!without )(?<!unset )(?<!unsetting )(?<!removing )(?<!no )CUDA_VISIBLE_DEVICES(?!.{0,60}(?:\bnot|n't|\bun) ?(?:\w+ )?(?:set|given|defined|there|present)\b)(?!.{0,60}\b(?:removed|empty)\b)"
            r".{0,140}\bal(?:l|ways all) (?:the |my |\d )?GPUs (?:are|were|get) (?:still )?(?:detected|used|visible|found|seen|listed)\b"
            r"|CUDA_VISIBLE_DEVICES.{0,60}(?:无效|不起作用|没有(?:效果|用|作用)|不生效|不管用)"
        ),
        level=Level.WARNING,
        unless=ADVICE,
        title="The variable has no effect: CUDA was initialised before it was set",
        modifiers=(Modifier("visible-in-code", Cause.VISIBLE_DEVICES_SET_TOO_LATE, 3),),
        decisive_fact="whether it has one where it is set in the shell that starts the program",
    ),
    Signature(
        "told.set-in-time",
        _REPORTS,
        ("cuda_visible_devices", "is_available"),
        ((Cause.VISIBLE_DEVICES_SET_TOO_LATE, 0.5),),
        "CUDA C++ Programming Guide, CUDA Environment Variables: read when CUDA is initialised",
        pattern=(
            r"CUDA_VISIBLE_DEVICES.{0,200}\b(?:before|after|in front of|ahead of)\b.{0,60}(?:import (?:torch|cupy|tensorflow|jax)|is_available|initiali[sz])"
            r"|CUDA_VISIBLE_DEVICES\W{0,4}=\W{0,2}\d[\d,]* ?python\S* \S+.{0,30}\b(?:works|does work|is fine|runs on|takes|uses)\b"
        ),
        requires=("visible-in-code",),
        level=Level.WARNING,
        # Code that does it right: before the import of the same snippet, or with a comment that says so.
        unless=rf"{ADVICE}|CUDA_VISIBLE_DEVICES['\"\]]*\s*=\s*\S{{1,12}}\s*#[^#]{{0,20}}\bbefore\b|\b(?:in time|takes effect|is honou?red|set before)\b",
        title="The variable counts only where it is set before CUDA is initialised",
    ),
    Signature(
        "told.mig",
        _REPORTS,
        ("mig ", "mig,", "mig.", "mig-"),
        ((Cause.MIG_MISCONFIGURED, 0.62),),
        "NVIDIA Multi-Instance GPU User Guide, Device Enumeration: a process sees one instance, and only one that exists",
        pattern=(
            rf"\bMIG\b(?! ?M\.|\s*:|-\w| (?:mode )?(?:is|was) (?:not|off|disabled)\b).{{0,120}}(?:{_ONE}|{_UNSEEN})|(?:{_ONE}|{_UNSEEN}).{{0,80}}\b(?:with|in|on|under|of) (?:an? |the )?MIG\b|\bMIG\b.{{0,80}}\b(?:device_?count|getDeviceCount)\(\)"
        ),
        requires=_HERE,
        level=Level.WARNING,
        unless=ADVICE,
        title="With MIG a process sees one instance only, and none where none was made or named",
        decisive_fact="the instances that nvidia-smi -L lists, and CUDA_VISIBLE_DEVICES",
    ),
    Signature(
        "told.uvm-missing",
        _REPORTS,
        ("nvidia_uvm", "nvidia-uvm"),
        ((Cause.DEVICE_NODE_MISSING, 0.7), (Cause.DRIVER_MODULE_NOT_LOADED, 0.12)),
        "NVIDIA driver's README, chapter on device nodes; nvidia-modprobe: made when the first program of root uses CUDA",
        pattern=(
            rf"(?<!^Kernel module )(?<!\] Kernel module )\bnvidia[-_]uvm\b(?: \w+){{0,4}} ?{NOT} (?:\w+ ){{0,2}}(?:loaded|there|present|created|exist\w*)|(?:missing|without|lacks?|no) (?:the )?/dev/nvidia-uvm"
            r"|/dev/nvidia-uvm\b\S* (?:\w+ ){0,3}(?:missing|absent|gone)|(?<!&& )(?<!&& sudo )\bmodprobe nvidia[-_]uvm\b.{0,40}\b(?:they do|works?|helps?|fix\w*|cures?|solv\w*|fine)\b"
            r"|(?:node|file|device) /dev/nvidia-uvm.{0,40}\b(?:created|made|appears?)\b|\b(?:create|make)s? (?:the )?(?:device )?(?:node )?/dev/nvidia-uvm"
        ),
        level=Level.WARNING,
        unless=ADVICE,
        title="The nvidia-uvm module is not loaded, or its device node not made",
        modifiers=(Modifier("suspend", Cause.SUSPEND_RESUME_LOST_GPU, 20),),
        decisive_fact="whether /dev/nvidia-uvm is there: ls -l /dev/nvidia*",
    ),
    Signature(
        "told.gpu-ignored",
        _REPORTS,
        ("ignor", "legacy"),
        ((Cause.GPU_REMOVED_FROM_DRIVER, 0.74),),
        "nvidia.ko: what it prints of a GPU of a legacy branch, retold",
        pattern=(
            r"\b(?:NVIDIA|driver)(?: driver)? \d{3}(?:\.\S+)?(?: driver)? (?:will )?ignor\w+ (?:the |this |my )?(?:GPU|card|GTX|GT|Quadro|Tesla|GeForce|TITAN)"
            r"|(?:GPU|card|GTX \d+\w*|GT \d+\w*|Quadro \w+|Tesla \w+) (?:is|needs|requires) (?:\w+ ){0,3}(?:\d{3}(?:\.?xx)? )?legacy (?:driver|branch)"
        ),
        level=Level.WARNING,
        unless=ADVICE,
    ),
    Signature(
        "told.throttled",
        _REPORTS,
        ("slowdown", "power cap", "throttl", "overheat"),
        ((Cause.GPU_THROTTLED, 0.66),),
        "nvidia-smi -q, section Clocks Event Reasons, retold",
        pattern=(
            r"(?:HW|SW) (?:Thermal |Power Brake )?(?:Slowdown|Power Cap)\b(?!\s*:).{0,60}\b(?:appears?|(?<!not )active|reached|kicks in|engaged?|triggered|shows? up|is (?:on|seen))"
            r"|\b(?:GPUs?|cards?)\b(?!-).{0,60}\b(?<!no )(?<!not )(?:overheat\w*|throttl(?:es?|ed|ing))\b|\b(?:frequency|clocks?|power)\b.{0,60}\b(?:drops?|goes down|falls?|capped)\b.{0,80}\b(?:Slowdown|Power Cap|throttl\w+)"
        ),
        requires=_HERE,
        level=Level.WARNING,
        unless=ADVICE,
        title="The GPU's clock is held down",
        decisive_fact="the reasons that nvidia-smi -q -d PERFORMANCE shows under load",
    ),
    Signature(
        "told.quota",
        _REPORTS,
        ("disk quota", "no space left", "read-only"),
        ((Cause.KERNEL_CACHE_UNWRITABLE, 0.62),),
        "CuPy documentation, CUPY_CACHE_DIR: by default a folder of the home directory",
        pattern=(
            r"(?:disk quota|no space left|read-only)\b.{0,160}\b(?:kernels?|cupy)\b.{0,60}\b(?:cache\w*|compil\w*|writ\w*|home|saved|stored)"
            r"|\b(?:kernel[ _]cache|compiled kernels?)\b.{0,120}(?:disk quota|no space left|read-only)"
        ),
        requires=("cupy",),
        level=Level.WARNING,
        unless=rf"{ADVICE}|CUPY_CACHE_IN_MEMORY|\bnothing (?:is|gets|has to be|needs to be) written",
        title="The cache of compiled kernels cannot be written",
    ),
    Signature(
        "told.numpy-differs",
        _REPORTS,
        ("numpy", "scipy"),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.52), (Cause.CUPY_BUG, 0.22)),
        "CuPy documentation, Differences between CuPy and NumPy",
        pattern=(
            r"\b(?:cupy|cp)\b\S*.{0,100}\b(?:fails?|raises?|errors?|differs?|different|wrong|(?:does|do)(?: not|n't))\b.{0,80}\bnumpy\b\S*.{0,40}\b(?:passes|works?|does|is fine|returns?|gives?|accepts?|succeeds)\b"
            r"|\b(?:numpy and cupy|cupy and numpy)\b.{0,40}\b(?:differ|disagree|(?:gives?|returns?) different|not (?:\w+ )?the same)\b"
            r"|\bnumpy\b\S*.{0,60}\b(?:passes|works?|does (?:this|it|so)|accepts?|supports?|allows?|handles)\b.{0,100}\b(?:cupy|cp)\b\S*.{0,60}\b(?:fails?|raises?|errors?|(?:does|do)(?: not|n't)|cannot|can't|not)\b"
            r"|\b(?:in|not) ?consistent with numpy\b|\b(?:unlike|differs? from|different (?:from|than)|incompatible with) [`'\"]?(?:numpy|scipy)\b"
        ),
        requires=("cupy",),
        level=Level.WARNING,
        unless=ADVICE,
        title="CuPy does not do here what NumPy does",
    ),
)
