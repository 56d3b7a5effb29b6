"""The further fact that decides what an ambiguous message means: what fixed it, and the only place where it occurs."""

from __future__ import annotations

from gpuenv.explain.signatures.evidence_common import alternative, evidence
from gpuenv.explain.signatures.phrases import AFTER, GOOD, SEVERAL, SINGLE, gap

_WELL = (
    r"(?:works?|worked|fine|OK|okay|all right|goes away|gone|disappears?|helps?|helped|cures?|cured|solves?|solved|fixe[sd]|True|no (?:such )?error|runs|passes|found)\b"
    + AFTER
)
_OTHER = r"(?:torch|pytorch|tensorflow|jax|paddle|mxnet|tf)"
_NAMES = r"(?:cupy-gpu|cuda-cupy|cupycuda\w*|pycupy[\w-]*|cupy-nvidia|cupy-cu1[1-4]|cupy[-_]cuda1[1-4](?![\dx.])|cupy-cuda-?\d+x?-\w+|cupy[-_]cuda(?=[\s`'\")(]|$))"
_DOCKERFILE = r"\bDockerfile\b"
_MB = r"\d[\d.]* ?(?:MB|MiB|kB|KiB|B|bytes)"
_GB = r"\d[\d.]* ?(?:GB|GiB)"

SIGNATURES = (
    # Whose wheel line is named, and which CUDA is there: ``disambiguate`` compares the two.
    *(
        evidence(
            f"line-{major}",
            ("cupy",),
            rf"\bcupy[-_]cuda{major}(?:x|\d)\b|\bCuPy was made for {major}\b|\bwheel = cuda{major}x\b",
        )
        for major in (10, 11, 12, 13)
    ),
    *(
        evidence(
            f"toolkit-{major}",
            ("cuda",),
            rf"(?:/usr/local/cuda-|/opt/cuda-|\bcuda/|/cuda/v|\\CUDA\\v){major}\.\d|/usr/local/cuda\S{{0,24}} (?:->|\u2192|says|is) {major}\.\d"
            rf"|(?<!for )(?<!driver )(?<!smi says )\bCUDA(?: ?[Tt]oolkit)?(?: version)? ?[:=]? ?v?{major}(?:\.\d+)?\b(?! (?:wheel|package|build)|x)|\bCUDA_VER(?:SION)?=\W?{major}\b|\btoolkit (?:on host |v)?{major}\.\d",
        )
        for major in (10, 11, 12, 13)
    ),
    # Which library is found first: the search path fixes it.
    evidence(
        "path-cleared-helps",
        ("ld_library_path", "env -i ", "ldconfig"),
        rf"\b(?:unset|unsetting|clear\w*|clean\w*|empty\w*|without|env -u|remov\w+|dropp?\w*)\b.{{0,20}}\bLD_LIBRARY_PATH\b{gap(60)}\b{_WELL}"
        rf"|(?<!never )(?<!not )(?<!nothing )\b{_WELL} (?:by|after|with|when|if|since)\b.{{0,30}}\b(?:unset|env -u|clear\w*|without|remov\w+)\b.{{0,12}}\bLD_LIBRARY_PATH\b|\benv -i \S+ (?:is|works)\b.{{0,12}}\b(?:fine|ok)?\b"
        r"|\bLD_LIBRARY_PATH\b.{0,60}\b(?:has|lists?|listed|contain(?:s|ed)|names) .{0,40}\b(?:another|an? (?:older|other|different)|\d{4}) .{0,20}lib\w+\.so|\bsource our .{0,80}\blib\w+\.so",
    ),
    evidence(
        "other-copy-first",
        ("lib",),
        r"\b(?:loads?|loaded|takes?|finds?|found|maps?|mapped|lies?|in which) .{0,40}\blib(?:cuda|nvidia-ml|cublas\w*|cudnn\w*|cufft|nvrtc)\.so[.\d]*\b.{0,40}\b(?:first|ahead|before|of 20\d\d)\b",
    ),
    evidence(
        "stub-loaded",
        ("stub",),
        r"\bLD_LIBRARY_PATH\b.{0,80}/stubs\b|\blibcuda\b.{0,40}\b(?:is|was) (?:the|a) stub\b|\blibcuda\S{0,12} (?:in|of|from) .{0,60}\(?(?:a copy of )?(?:the )?stubs?\b",
    ),
    # Two packages of one process.
    evidence(
        "other-framework-first",
        ("torch", "tensorflow", "jax", "paddle", "mxnet"),
        rf"\b(?:delet\w+|remov\w+|uninstall\w*|without|no(?= import)) (?:the )?[`'\"]?(?:import )?{_OTHER}\b{gap(60)}\b{_WELL}|\bimport cupy[`'\"]? (?:deleted|removed)\b"
        rf"|\balready loaded by {_OTHER}\b|\b(?:import order|order of (?:the )?imports)\b.{{0,40}}\b(?:swapped|revers\w+|chang\w+|matters)|\bimport {_OTHER}\b.{{0,30}}\b(?:first|before)\b.{{0,60}}\bcupy\b"
        rf"|\b{_OTHER} ?\+ ?{_OTHER}\b.{{0,60}}\b(?:one|same) (?:venv|env\w*|process|interpreter)\b|\bwith it before {_OTHER}\b|\b(?:one|two models, one) {_OTHER}, (?:the )?other cupy\b",
    ),
    # Which files are there at all.
    evidence(
        "files-differ",
        (
            "md5",
            "sha256",
            "checksum",
            "hash",
            "killed",
            "interrupted",
            "short",
            "rsync",
            "already satisfied",
            "satisfied",
        ),
        r"\b(?:md5\w*|sha256\w*|checksums?|hash(?:es)?)\b.{0,80}\bdiffer|\b(?:pip install|installation|upgrade|unpacking|copy)\b.{0,40}\b(?:was )?(?:killed|interrupted|cut off|broke off)\b"
        r"|\b\d+ [kMG]i?B short\b|\brsync --delete\b|\b(?:uninstalled|removed)\b.{0,60}\bnvidia-\S+.{0,200}\b(?:is installed|satisfied)\b",
    ),
    evidence(
        "foreign-name-written",
        ("cupy",),
        rf"(?<![\w./@-]){_NAMES}(?![\w-])",
    ),
    evidence(
        "two-lines-named",
        ("cupy-cuda", "cupy_cuda"),
        r"\bcupy[-_]cuda(?P<one>\w+)\b.{0,80}\b(?:and|beside|besides|next to|over|alongside|also)\b.{0,40}\bcupy[-_]cuda(?!(?P=one)\b)\d\w+"
        r"|\bcupy[-_]cuda(?P<other>\w+)\b ?[,+\u2192] ?\bcupy[-_]cuda(?!(?P=other)\b)\d\w+",
    ),
    # What is compiled is an object, or code for a link, and no image that could be loaded.
    evidence(
        "relocatable",
        ("relocatable-device-code", "-rdc", "-dlto", "--device-c"),
        r"--relocatable-device-code[= ]true|-rdc[= ]true|-dlto\b|--device-c\b",
    ),
    evidence(
        "other-jit",
        ("triton error", "openmm", "hashcat", "theano", "pycuda", "gpuarray", "numba"),
        r"\bTriton Error\b|\bOpenMM|\bhashcat\b|\btheano\b|\bpycuda\b|\bgpuarray\b|\bnumba\b",
    ),
    evidence("pointer-attributes", ("pointergetattributes",), r"\bpointerGetAttributes\b"),
    evidence(
        "handle-creation",
        ("create", "allow_growth"),
        r"\bcu(?:blas|solver\w{0,2}|sparse|dnn|rand)\w{0,3}Create\b|\b(?:creat\w+|get_\w+) (?:\w+ )?handle\b|ALLOW_GROWTH ?= ?true\b.{0,16}\b(?:solve[sd]|help\w*|fix\w*)",
    ),
    evidence(
        "any-size",
        ("matter", "regardless", "even with", "even for", "whatever", "independent"),
        r"\b(?:no matter|regardless of|whatever|independent(?:ly)? of) (?:\w+ ){0,4}?(?:size|large|big|small|long|many)\b|\beven (?:with|for) (?:an? |the )?(?:very |tiny |small\w* ){0,2}(?:batch(?:[_ ]size)?(?: of|=)? ?1\b|tiny|smallest|1x1|2x2)",
    ),
    # A variable names what is gone.
    evidence(
        "root-gone",
        ("cuda_path", "cuda_home", "cuda_root"),
        r"\bCUDA_(?:PATH|HOME|ROOT)\b.{0,100}\b(?:removed|deleted|gone|not there|no longer|(?:does not|doesn't) exist|left ?over|stale|typo)\b|\b(?:removed|deleted|stale|left ?over)\b.{0,40}\bCUDA_(?:PATH|HOME|ROOT)\b",
    ),
    # What an image was made with, in the words of a report.
    evidence(
        "dockerfile-mentioned",
        ("dockerfile", "from nvidia/cuda", "from ", "base image"),
        rf"{_DOCKERFILE} (?:has|does|ends|says|contains|line|lines|installs?|copies|sets|with)\b|\b(?:in|of) (?:the|our|my|its) Dockerfile\b"
        r"|(?-i:\bFROM) [\w./-]+:[\w.-]+.{0,80}\b(?:copies only|chang\w+|needs|instead|final stage|last)\b|\b(?:our|the) (?:last|final|second) (?:FROM|stage)\b",
    ),
    evidence(
        "driver-installed-in-image",
        ("nvidia-utils", "nvidia-driver", "install -y cuda", "libnvidia-", "install cuda"),
        r"\b(?:Dockerfile|image)\b.{0,100}\binstall\b.{0,30}\b(?:nvidia-(?:driver|utils|kernel|compute)|cuda(?![\w-])|libnvidia-)|\binstall\b.{0,30}\bnvidia-(?:driver|utils|compute)\S*.{0,20}\bin (?:it|the image|this image)\b",
    ),
    evidence(
        "during-image-build",
        (
            "docker build",
            "docker-compose build",
            "docker buildx",
            "`run ",
            "run pytest",
            "run python",
            "run nvidia-smi",
            "image build",
            "at build",
        ),
        r"\b(?:at|during|in|from) (?:the )?(?:docker|image|container) build\b|^\W{0,3}(?:sudo )?docker(?:-compose| compose| buildx)? build (?:-|\.)|\b(?:at|from|in) (?:the )?[`'\"]?(?-i:RUN) (?:pytest|python\d?|nvidia-smi|pip|make)\b",
    ),
    evidence(
        "older-image-works",
        ("image", "tag", "digest", "nvidia_require_cuda"),
        rf"\b(?:older|previous|last|yesterday's|earlier|old) (?:\S+ )?(?:image|tag|digest)s?\b{gap(40)}\b(?:works?|starts?|is fine|runs?|ok)\b|\b\d[\d.]* (?:image|tag) (?:is fine|works|starts)\b|\b(?:works?|starts?) w(?:ith|/) \d\S* (?:tag|image)\b"
        r"|\bNVIDIA_REQUIRE_CUDA (?:was |is )?(?:changed|raised|says|asks)",
    ),
    # The memory is the pool's own.
    evidence(
        "pool-holds-it",
        ("free_all_blocks", "empty_cache", "used_bytes", "memory_reserved", "reserved", "total_bytes"),
        rf"\b(?:free_all_blocks|empty_cache)\b\(?\)?{gap(60)}\b(?:{_WELL}|fits?\b|drops?\b)|\bused_bytes\b\(?\)?\W{{1,4}}0\b"
        rf"|\bmemory_allocated\b\(?\)?\W{{0,3}}{_MB}.{{0,40}}\b(?:memory_)?(?:reserved|cached)\b\(?\)?\W{{0,3}}{_GB}|\d+\.\d+ MiB already allocated;.{{0,80}}\d+\.\d+ GiB reserved in total"
        rf"|\b[0-2]\.\d+ GiB (?:already )?allocated[,;].{{0,80}}\b\d\d\.\d+ GiB reserved\b|\breserved ?>> ?allocated\b(?! memory)",
    ),
    # Who forked, which device is current, who launched.
    evidence(
        "preforked",
        ("preload", "mclapply", "pytest-forked", "--forked", "'fork'", '"fork"', "os.fork"),
        r"\bpreload_app\b|\bgunicorn\b.{0,40}\bpreload|--preload\b|\bmclapply\b|\bpytest-forked\b|--forked\b|(?:start_method|get_context|set_start_method|mp)\b.{0,12}['\"]fork['\"]|\bos\.fork\b",
    ),
    evidence(
        "devices-apart",
        ("gpu", "cuda:", "device"),
        r"\b(?:separate|different|several) GPUs\b|\b(?:tensors?|arrays?|weights|buffers?|it|layers?) (?:\w+ ){0,3}(?:on|to|lives? on|uploaded to) (?:cuda:|device |GPU )[1-9]\b|\bcuda:0\b.{0,60}\b(?:but|and|while|yet|raises?|fails?|crash\w*|errors?|illegal)\b.{0,60}\bcuda:[1-9]\b|\bDevice\([1-9]\).{0,80}\bdevice 0\b|\bno device guard\b|\bhandle is for cuda:0",
    ),
    alternative(
        "devices-apart",
        "devices-several",
        ("gpu", "device", "parallel", "card"),
        rf"\b(?:on|with) (?:the |my )?(?:second|other|non-default) (?:GPU|device|card)\b|\b(?:only|just|solely) (?:\w+ ){{0,4}}?(?:in|on|with|when|if|using|for|across) (?:\w+ ){{0,4}}?{SEVERAL}"
        rf"|\b{GOOD}.{{0,30}}\b(?:on|with|for|using) (?:a |only |just )?{SINGLE}|\b{SINGLE}(?: (?!not\b)\w+){{0,3}} {GOOD}|\bCUDA_VISIBLE_DEVICES=[1-9] (?:\w+ )?(?:works?|is fine)\b"
        r"|\b(?:num|id|index|GPU|device|ordinal) ?(?:=|is)? ?0\b.{0,40}\b(?:works?|fine|OK)\b.{0,60}\b(?:any|every|all|the) (?:other|second)\b|\bwithout (?:\w+\.)*(?:Distributed)?DataParallel\b.{0,20}\b(?:works?|fine|OK)\b|\bdevice_ids ?= ?\[0, ?1",
    ),
    evidence(
        "blamed-elsewhere",
        (
            *("--> ", ".cuda()", ".cpu()", ".item()"),
            "earlier",
            "above",
            "before",
            "further up",
            "launch_blocking",
            "lines ",
            "synchroni",
            "innocent",
            "ahead",
            "not at fault",
            "'t at fault",
        ),
        r"\b(?:many |\d+ |three |two |several |a few )(?:lines?|statements?|cells?|ms|steps?) (?:earlier|above|before|further up)\b|\b(?:only|merely|just) synchroni[sz]es\b|\bfurther up had\b|\ba moment before\b|\b(?:isn't|is not) at fault\b"
        r"|\b(?:reported|blamed|shown|surfaces?|raised) (?:at|on|in)\b.{0,80}\b(?:although|but|while|launched|with CUDA_LAUNCH_BLOCKING)\b|CUDA_LAUNCH_BLOCKING(?:=1)?\b.{0,12}\b(?:it is|moves it|it's|shows)\b|\bran (?:ahead of|before) it\b|\bcustom op\w* (?:kernel )?ran before\b|\bthe first cell that failed\b"
        r"|-{2,}> ?\d+ .{0,60}\.(?:cuda|cpu|item|numpy|tolist)\(\)|\.(?:cuda|cpu|item)\(\) +# ?.{0,12}\b(?:crash\w*|error|fails|here)",
    ),
    evidence("cuda-above-0", ("cuda:",), r"\bcuda:[1-9]\b"),
    # Many that collide, or one alone.
    evidence(
        "rerun-ok",
        ("rerun", "re-run", "retry", "second start", "second run", "second launch", "simultaneously", "share"),
        rf"\b(?:re-?run|retry|second (?:start|run|launch))\b{gap(16)}\b(?:OK|fine|works?|passes|finishes)\b|--rerun-incomplete\b.{{0,12}}\bfinishes|\bstart\w* (?:simultaneously|at once|at the same time)\b|\b(?:jobs|ranks|workers|pods|users|nodes) share\b",
    ),
    evidence(
        "single-process",
        ("single process", "one process", "only one process"),
        r"\b(?:single|only one|one) process\b(?: only)?[,;:]|\bnot a race\b",
    ),
    # It only looks like a fault.
    evidence(
        "ended-well",
        (
            *(
                "return code 0",
                "exit code 0",
                "exit 0",
                "completed",
                "finished",
                "success",
                "pass",
                "accuracy",
                "train-rmse",
            ),
            *("loss ", "ns/day", "executed in", "correct", "agree", "right", "the same", "training ", "0 failed"),
            "no exceptions",
        ),
        r"\b(?:return|exit)(?:ed)?(?: with)?(?: code| status)?:? 0\b|\bstate COMPLETED\b|\bfinished[\",]? (?:\d|\[|in \d)|\breported SUCCESS\b|\b(?:all )?(?:\d+ )?tests? pass(?:es|ed)?\b|\baccuracy: 0\.\d|\btrain-rmse:|\bloss 0\.\d|\bns/day\b|\bexecuted in \d"
        r"|\b(?:results?|numbers|output|fft) (?:are |is |all )?(?:right|correct|agrees?|the same)\b|\btraining (?:reaches|goes on|runs|finished|as usual)\b|\b0 failed\b|\bno exceptions\b",
    ),
)
