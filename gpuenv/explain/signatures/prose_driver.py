"""Problems of the driver, nouveau and containers described in the user's own words."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.explain.signatures.access import OF_ANOTHER_MODULE
from gpuenv.explain.signatures.prose_devices import ADVICE
from gpuenv.model.causes import Cause

_REPORTS = "reports"
_CARD = (
    r"(?:GTX|GT|RTX|Quadro|Tesla|GeForce|TITAN|Fermi|Kepler|Maxwell|Pascal|Volta|Turing|[KMPV]\d{2,4}0?\b|\d{3,4}(?:M|Ti)?\b"
    r"|(?:my|the|this|these|older?) (?:\w+ )?(?:cards?|GPUs?)\b)"
)
_DROPPED = r"(?:no longer supports?|dropp\w+ (?:the )?support|(?:does|do)(?: not|n't) support|stopped supporting|remov\w+ (?:the )?support|ended (?:the )?support|discontinued)"
# Calls into the driver, and what waits in them.
_CALL = (
    r"(?:nvidia-(?:smi|persistenced|powerd|modprobe|uvm)|NVML (?:calls?|quer(?:y|ies))|nvml\.?(?:Init|Shutdown|Device)\w*|nvmlInit|cuInit|cuCtx\w*|cudaGetDeviceCount|cudaSetDevice|cudaFree|cudaMalloc"
    r"|device_count|(?:modprobe|rmmod|insmod) nvidia|nvidia[. ]ko|nvidia (?:kernel )?(?:driver|module))"
)
_HANGS = (
    r"(?:hangs?\b|hung\b|hanging|(?:is |gets? |got |are |all )(?:stuck|blocked|frozen)|freez\w+|never (?:returns?|comes? back|ends|finish\w*)|(?:does|do|did)(?: not|n't) (?:return|come back|finish|respond)"
    r"|blocked (?:for more than|in|on)\b|uninterruptible|dead-?locks?\b|in (?:the )?D[- ]state|takes forever|is unkillable)"
)
# The CUDA majors, each with the generations that it no longer compiles for: release notes of 11, 12 and 13.
_GONE = (
    r"(?:\b(?:CUDA|cu)[- ]?13(?:\.\w+)?\b.{0,120}\b(?:V100|P100|P40|P4|M40|M60|GTX (?:9|10)\d\d|10[5678]0(?: Ti)?|Pascal|Volta|Maxwell|TITAN (?:V|X|Xp)|sm_?(?:5\d|6\d|70|72)|compute_(?:5\d|6\d|70|72)|compute capability [56]\.\d)"
    r"|\b(?:CUDA|cu)[- ]?12(?:\.\w+)?\b.{0,120}\b(?:K80|K40|K20|Kepler|sm_?3\d|compute_3\d|compute capability 3\.\d)|\b(?:CUDA|cu)[- ]?11(?:\.\w+)?\b.{0,120}\b(?:sm_?30|compute_30|compute capability 3\.0|Fermi))"
)
_REFUSED = r"(?:(?:does|do|did|will)(?: not|n't) (?:work|run|start|load|find)|cannot|can't|fails?|failed|no (?:\w+ )?(?:backend|GPU|device|support)|not (?:work\w*|supported)|unsupported|never)"

SIGNATURES = (
    Signature(
        "told.nouveau",
        _REPORTS,
        ("nouveau",),
        ((Cause.NOUVEAU_LOADED, 0.72),),
        "NVIDIA driver's README, chapter on nouveau: the two drivers cannot hold one GPU",
        pattern=(
            r"\bnouveau\b(?: \w+){0,4} (?:is|was|gets?|got|being|remains|stays|keeps) (?:\w+ ){0,2}(?:loaded|loading|in use|active|used|running|enabled|there)\b|\bnouveau\b(?: \w+){0,2} still (?:loaded|in use|active|running)"
            r"|\b(?:uses?|using|used|runs?|running|falls?|fell|fallback) (?:back )?(?:to |on |with )?(?:the )?(?:open.source )?nouveau\b|\bnouveau fallback\b|\blsmod\b.{0,40}\b(?:shows?|lists?|has)\b.{0,30}\bnouveau\b"
            r"|kernel driver in use: nouveau|\bnouveau\b.{0,60}\b(?:conflicts?|instead of (?:the )?nvidia|not (?:be )?(?:blacklisted|disabled|unloaded))"
        ),
        level=Level.WARNING,
        unless=rf"{ADVICE}|not loaded|\bnouveau (?:is|was) (?:not|n't|disabled|blacklisted)|blacklist nouveau|\bNVK\b|on purpose|deliberate\w*|by choice|\bwhen (?:the )?nouveau\b",
        title="The nouveau module holds the GPU",
        decisive_fact="what lspci -k shows as the kernel driver in use",
    ),
    Signature(
        "told.driver-hangs",
        _REPORTS,
        (
            "hang",
            "hung",
            "stuck",
            "freez",
            "blocked",
            "never ",
            "not return",
            "n't return",
            "come back",
            "deadlock",
            "uninterr",
        ),
        ((Cause.DRIVER_UNRESPONSIVE, 0.66),),
        "Linux, kernel/hung_task.c; gpuenv probe, DRV110: a child that does not answer within its deadline",
        pattern=rf"\b{_CALL}(?:\(\))?\W.{{0,60}}\b{_HANGS}|\b{_HANGS}.{{0,60}}\b{_CALL}",
        level=Level.WARNING,
        unless=rf"{ADVICE}|\bapt\b|\bdownload|\bcompil|\bso that an? hang|\b(?:could|can|would|will) never (?:block|hang)|\bin case (?:\S+ ){{1,3}}hangs",
        title="A call into the driver does not come back",
        modifiers=(Modifier("suspend", Cause.SUSPEND_RESUME_LOST_GPU, 12),),
        decisive_fact="whether dmesg reports a blocked task or an Xid",
    ),
    Signature(
        "ps.stuck-in-driver",
        "ps",
        ("nvidia",),
        ((Cause.DRIVER_UNRESPONSIVE, 0.72),),
        "procps, ps: state D waits in the kernel and cannot be killed",
        pattern=r"^\S+ +\d+ (?:[\d.]+ +){2}\d+ +\d+ \S+ +D[sl<+NL]{0,3} +\S+ +\d+:\d\d \S{0,40}nvidia\S*",
        title="A program of the driver's waits in the kernel and cannot be ended",
        decisive_fact="whether it stays in state D, and what dmesg reports about it",
    ),
    Signature(
        "told.key-refused",
        _REPORTS,
        ("sig_enforce", "keys", " key", "mok", "signature", "signed", "signing", "crypto"),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.72),),
        "Linux, kernel/module/signing.c; kernel parameter module.sig_enforce",
        pattern=(
            r"\bnvidia\b.{0,60}\b(?:module|driver|keys?|signature)\w*\b.{0,60}\b(?:reject\w*|refus\w*|not (?:enrolled|trusted|accepted|signed)|unsigned|invalid signature)"
            r"|\b(?:sig_enforce|MOK|signing key|module signature)\b.{0,100}\bnvidia\b.{0,60}\b(?:reject\w*|refus\w*|fail\w*|not|cannot|blocked)\b"
        ),
        level=Level.WARNING,
        unless=rf"{ADVICE}|{OF_ANOTHER_MODULE}",
        title="The kernel refuses the driver's module for its signature",
        decisive_fact="what mokutil --sb-state and dmesg say of the module",
    ),
    Signature(
        "told.card-dropped",
        _REPORTS,
        ("support", "discontinued"),
        ((Cause.GPU_REMOVED_FROM_DRIVER, 0.66), (Cause.GPU_REMOVED_FROM_TOOLKIT, 0.08)),
        "NVIDIA, support plan for Maxwell, Pascal and Volta; README of the driver, Appendix A",
        pattern=(
            rf"\b(?:drivers?|nvidia-(?:open|dkms|utils)\S*|NVIDIA \d{{3}}(?:\.\S+)?|branch \d{{3}})\b.{{0,40}}\b{_DROPPED}\b.{{0,40}}\b{_CARD}"
            rf"|\b{_CARD}.{{0,40}}\b(?:no longer supported|not supported (?:any ?more )?|support (?:was|is|has been) (?:dropped|removed)) (?:by|in|with|since) (?:the )?(?:\w+ ){{0,3}}(?:drivers?|NVIDIA \d{{3}}|\d{{3}}(?:xx)?)\b"
        ),
        requires=("cuda", "gpu", "complaint"),
        level=Level.WARNING,
        unless=r"\b(?:release notes|will be|deprecat\w+|announce\w*|starting with|as of|guides?|documentation|see also)\b",
        title="This branch of the driver no longer supports the GPU",
        decisive_fact="the GPU's name, and the driver's branch: --assume gpu=NAME, --assume driver=VERSION",
    ),
    Signature(
        "told.generation-gone",
        _REPORTS,
        ("cuda 1", "cuda-1", "cuda1", "cu11", "cu12", "cu13"),
        ((Cause.GPU_REMOVED_FROM_TOOLKIT, 0.66), (Cause.NO_KERNEL_IMAGE, 0.15)),
        "CUDA Toolkit Release Notes 11.0, 12.0 and 13.0: architectures that are no longer compiled for",
        pattern=rf"^(?=.{{0,400}}\b{_REFUSED}).{{0,300}}?{_GONE}",
        level=Level.WARNING,
        unless=r"\b(?:supported by both|works (?:fine|well) with)\b",
        title="This CUDA no longer compiles for the GPU",
        decisive_fact="the GPU and the CUDA there: --assume gpu=NAME, --assume toolkit=VERSION",
    ),
    Signature(
        "told.node-left-out",
        _REPORTS,
        ("nvidia-uvm", "nvidia-modeset", "nvidiactl", "nvidia-caps", "nvidia0"),
        ((Cause.DEVICE_NODE_MISSING, 0.66), (Cause.CONTAINER_DRIVER_CAPABILITIES, 0.12)),
        "NVIDIA driver's README, chapter on device nodes; Container Device Interface, deviceNodes",
        pattern=(
            r"\b(?:missing|lacks?|without|no)\b.{0,12}\b(?:/dev/)?nvidia(?:-uvm|-modeset|ctl|-caps|0)\S{0,3}(?: \S?device\W?nodes?|$|[\s,.)])"
            r"|\b(?:/dev/)?nvidia(?:-uvm|-modeset|ctl|-caps|0)\b\W{0,3} (?:\w+ ){0,3}(?:not|never|n't) (?:\w+ )?(?:mounted|passed|injected|mapped|created|exposed|available)"
        ),
        level=Level.WARNING,
        unless=ADVICE,
        title="A device node that CUDA needs is missing",
        modifiers=(Modifier("utility-only", Cause.CONTAINER_DRIVER_CAPABILITIES, 30),),
        decisive_fact="which of /dev/nvidia0, nvidiactl and nvidia-uvm are there",
    ),
    Signature(
        "told.utility-only",
        _REPORTS,
        ("libnvidia-ml", "libcuda", "nvidia_driver_capabilities", "nvidia-debugdump"),
        ((Cause.CONTAINER_DRIVER_CAPABILITIES, 0.66), (Cause.CONTAINER_WITHOUT_GPU, 0.08)),
        "NVIDIA Container Toolkit, Specialized Configurations: by default an image gets the capability utility alone",
        pattern=(
            r"\bonly\b.{0,60}\b(?:libnvidia-ml|nvidia-debugdump|utility)\b|\b(?:libnvidia-ml|nvidia-debugdump)\S*.{0,60}\b(?:but|only|not)\b.{0,30}\b(?:no |not )?libcuda\b"
            r"|\blibcuda\S*.{0,20}\bnot (?:mounted|injected|mapped)\b|\bNVIDIA_DRIVER_CAPABILITIES\b.{0,30}\b(?:not set|unset|empty|missing|lacks)\b"
        ),
        level=Level.WARNING,
        evidence="utility-only",
        unless=ADVICE,
        title="The container was given the driver's tools, and not what CUDA needs",
        decisive_fact="NVIDIA_DRIVER_CAPABILITIES in the container: compute,utility is needed",
    ),
)
