"""What people tell of a machine, an environment or a program in words of their own."""

from __future__ import annotations

from gpuenv.explain.records import Level, Signature, Sway
from gpuenv.explain.signatures.told import ADVICE
from gpuenv.model.causes import Cause

_REPORTS = "reports"
_HERE = ("gpu", "cuda", "cupy", "torch-error")
_BROKEN = r"(?:(?:does|do|did|is|was|will)(?: not|n't) (?:work|start|run|find|see|available)\w*|stop(?:s|ped) working|no longer (?:works?|finds?|sees?|available)|fails?|failed|broken|gone|dead|lost|disappear\w*|unavailable|unusable)"
_CUPY = r"cupy(?:-cuda\d\d\w|-rocm-\S+)?"

SIGNATURES = (
    Signature(
        "told.after-sleep",
        _REPORTS,
        ("suspend", "sleep", "hibernat", "resum", "wake", "waking", "woke"),
        ((Cause.SUSPEND_RESUME_LOST_GPU, 0.7),),
        "NVIDIA driver's README, chapter Configuring Power Management Support",
        pattern=(
            rf"\b(?:after|since|upon|when|once) (?:\w+ ){{0,4}}(?:suspend\w*|sleep\w*|hibernat\w*|resum\w+|wak\w+|woke)\b.{{0,100}}\b(?:GPU|CUDA|nvidia\S*|cupy|torch)\b.{{0,60}}{_BROKEN}"
            rf"|\b(?:GPU|CUDA|nvidia\S*|cupy|torch)\b.{{0,60}}{_BROKEN}.{{0,60}}\b(?:after|since|upon|when|once) (?:\w+ ){{0,4}}(?:suspend\w*|sleep\w*|hibernat\w*|resum\w+|wak\w+|woke)\b"
        ),
        level=Level.WARNING,
        unless=ADVICE,
        decides="whether reloading the module cures it: rmmod nvidia_uvm and modprobe nvidia_uvm, or a reboot",
    ),
    Signature(
        "told.not-rebooted",
        _REPORTS,
        ("mismatch", "match"),
        ((Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.76),),
        "NVML, NVML_ERROR_LIB_RM_VERSION_MISMATCH, retold",
        pattern=(
            r"\b(?:NVML|nvidia-smi|driver)\b.{0,60}\bversions? (?:\w+ ){0,3}(?:mismatch|(?:does|do)(?: not|n't) match|differ)|\b(?:driver|kernel module)\b.{0,40}\b(?:and|/) (?:the )?(?:\w+ )?librar\w+.{0,40}\b(?:mismatch|not match|differ\w*)"
        ),
        needs=_HERE,
        level=Level.WARNING,
        unless=ADVICE,
        decides="whether it is gone after a reboot",
    ),
    Signature(
        "told.no-communication",
        _REPORTS,
        ("communicate", "talk to"),
        ((Cause.DRIVER_MODULE_NOT_LOADED, 0.5), (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.22), (Cause.NOUVEAU_LOADED, 0.08)),
        "nvidia-smi: what it says where no module is loaded, retold",
        pattern=r"\bnvidia-smi\b.{0,40}\b(?:cannot|could not|couldn't|can't|unable to|not) (?:communicate|talk)\b.{0,30}\bdriver\b(?!.{0,4}Make sure)",
        level=Level.WARNING,
        unless=ADVICE,
        sways=(
            Sway("new-kernel", Cause.DRIVER_KERNEL_INCOMPATIBLE, 6),
            Sway("secure-boot", Cause.DRIVER_KERNEL_INCOMPATIBLE, 10),
            Sway("nouveau", Cause.NOUVEAU_LOADED, 15),
        ),
        decides="what modprobe nvidia says, and dkms status",
    ),
    Signature(
        "told.container-lost",
        _REPORTS,
        ("container", "pod", "daemon-reload"),
        ((Cause.CONTAINER_CGROUP_LOST_GPU, 0.66),),
        "NVIDIA Container Toolkit, Troubleshooting: containers lose access to GPUs",
        pattern=(
            rf"\b(?:containers?|pods?)\b.{{0,60}}\b(?:los\w+|lost)\b (?:\w+ ){{0,3}}(?:GPUs?|CUDA|access to)|\bGPUs?\b.{{0,40}}\b(?:disappear\w*|gone|lost|vanish\w*)\b.{{0,40}}\b(?:from|in|inside|of) (?:the |a |my |our |running )*(?:containers?|pods?)\b"
            rf"|\bafter (?:\w+ ){{0,3}}daemon-reload\b.{{0,80}}\b(?:GPU|NVML|nvidia\S*|CUDA|containers?)\b.{{0,60}}{_BROKEN}"
        ),
        level=Level.WARNING,
        unless=ADVICE,
        title="A running container has lost the GPU: its cgroup was set anew",
        decides="whether it comes back with a new container, and systemctl daemon-reload takes it away",
    ),
    Signature(
        "told.two-cupys",
        _REPORTS,
        ("both", "cupy"),
        ((Cause.MULTIPLE_CUPY_PACKAGES, 0.72),),
        "CuPy documentation, Installation: only one of its packages may be installed",
        pattern=rf"\b(?:both|have|shows?|lists?|contains?|installed:?)\b.{{0,30}}\b(?P<one>{_CUPY})(?:[= ]+\d[\w.]*)?,? and (?P<other>{_CUPY})(?![\w-])",
        judge=lambda values: ((Cause.MULTIPLE_CUPY_PACKAGES, 0.72),) if values["one"] != values["other"] else (),
        level=Level.WARNING,
        unless=ADVICE,
        title="Two packages of CuPy own the same files",
    ),
    Signature(
        "told.type-of-kernel",
        _REPORTS,
        ("float", "double", "int32", "int64"),
        ((Cause.DTYPE_MISMATCH, 0.6),),
        "CuPy documentation, User-Defined Kernels: a raw kernel takes the bytes of its arguments as they are",
        pattern=(
            r"\bkernel\b.{0,60}\b(?:float(?:32)?|double|int(?:32)?)\b.{0,80}\b(?:float64|float32|double|int64|complex\d*)\b.{0,60}\b(?:garbage|wrong|zeros?|nonsense|nan|incorrect)\b"
            r"|\b(?:garbage|wrong|zeros|incorrect)\b.{0,80}\bkernel\b.{0,60}\b(?:float64|float32|double|int64)\b.{0,40}\b(?:instead|although|but|array)"
        ),
        needs=("cupy", "cuda"),
        level=Level.WARNING,
        unless=ADVICE,
        title="The kernel reads an array of one type as one of another",
    ),
    Signature(
        "told.needs-waiting",
        _REPORTS,
        ("synchroni",),
        ((Cause.STREAM_RACE, 0.6),),
        "CUDA C++ Programming Guide, Asynchronous Concurrent Execution",
        pattern=(
            r"\b(?:results?|values?|data|output)\b.{0,40}\b(?:wrong|incorrect|stale|garbage|differ\w*|random|corrupt\w*|nan)\b.{0,40}\b(?:unless|without|if I (?:do not|don't)|when I (?:do not|don't)) .{0,40}\bsynchroni[sz]e"
            r"|\b(?:only|correct|right|fine) (?:if|when|after|with) .{0,40}\bsynchroni[sz]e\b"
        ),
        needs=("cupy", "cuda", "torch-error"),
        level=Level.WARNING,
        unless=ADVICE,
        title="Work on two streams, or of host and device, is not ordered",
    ),
)
