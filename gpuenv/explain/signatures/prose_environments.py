"""Problems of machines, environments and programs described in the user's own words."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.explain.signatures.phrases import gap
from gpuenv.explain.signatures.prose_devices import ADVICE
from gpuenv.model.causes import Cause

_REPORTS = "reports"
_HERE = ("gpu", "cuda", "cupy", "torch-error")
_BROKEN = r"(?:(?:does|do|did|is|was|will)(?: not|n't) (?:work|start|run|find|see|available)\w*|stop(?:s|ped) working|no longer (?:works?|finds?|sees?|available)|fails?|failed|broken|gone|dead|lost|disappear\w*|unavailable|unusable)"
_CUPY = r"cupy(?:-cuda\d\d\w|-rocm-\S+)?"

SIGNATURES = (
    Signature(
        "told.off-the-bus",
        _REPORTS,
        (" the bus", " the pci"),
        ((Cause.GPU_HARDWARE_FAULT, 0.76),),
        "NVIDIA, Xid Errors: 79, retold",
        pattern=rf"\b(?:GPU|card|board|NVIDIA|A100|H100|V100|RTX \d+\w*|GTX \d+\w*)\b{gap(100)}\b(?:falls?|fell|falling|drop(?:s|ped|ping)?) (?:off|out|from) (?:of )?the (?:PCIe? )?bus\b",
        level=Level.WARNING,
        unless=ADVICE,
        title="The GPU fell off the bus",
        decisive_fact="what the kernel's log says of the GPU: Xid 79",
    ),
    Signature(
        "told.after-sleep",
        _REPORTS,
        ("suspend", "sleep", "hibernat", "resum", "wake", "waking", "woke"),
        ((Cause.SUSPEND_RESUME_LOST_GPU, 0.7),),
        "NVIDIA driver's README, chapter Configuring Power Management Support",
        pattern=(
            rf"\b(?:after|since|upon|when|once) (?:\W?\w+\W? ){{0,4}}(?:suspend\w*|sleep\w*|hibernat\w*|resum\w+|wak\w+|woke)\b.{{0,100}}\b(?:GPU|CUDA|nvidia\S*|cupy|torch)\b.{{0,60}}{_BROKEN}"
            rf"|\b(?:GPU|CUDA|nvidia\S*|cupy|torch)\b.{{0,60}}{_BROKEN}.{{0,60}}\b(?:after|since|upon|when|once) (?:\w+ ){{0,4}}(?:suspend\w*|sleep\w*|hibernat\w*|resum\w+|wak\w+|woke)\b"
            rf"|{_BROKEN}.{{0,30}}\b(?:GPU|CUDA|nvidia)\b.{{0,6}}\b(?:after|since|upon) (?:\W?\w+\W? ){{0,4}}(?:suspend\w*|sleep\w*|hibernat\w*|resum\w+|wak\w+)\b"
        ),
        level=Level.WARNING,
        unless=ADVICE,
        decisive_fact="whether reloading the module cures it: rmmod nvidia_uvm and modprobe nvidia_uvm, or a reboot",
    ),
    Signature(
        "told.not-rebooted",
        _REPORTS,
        ("mismatch", "not match", "n't match", "differ"),
        ((Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.76),),
        "NVML, NVML_ERROR_LIB_RM_VERSION_MISMATCH, retold",
        pattern=(
            r"\b(?:NVML|nvidia-smi|driver)\b.{0,60}\bversions? (?:\w+ ){0,3}(?:mismatch|(?:does|do)(?: not|n't) match|differ)|\b(?:driver|kernel module)\b.{0,40}\b(?:and|/) (?:the )?(?:\w+ )?librar\w+.{0,40}\b(?:mismatch|not match|differ\w*)"
        ),
        requires=_HERE,
        level=Level.WARNING,
        unless=rf"{ADVICE}|/ ?library version mismatch",
        decisive_fact="whether it is gone after a reboot",
    ),
    Signature(
        "told.no-communication",
        _REPORTS,
        ("communicate", "talk to"),
        ((Cause.DRIVER_MODULE_NOT_LOADED, 0.5), (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.22), (Cause.NOUVEAU_LOADED, 0.08)),
        "nvidia-smi: what it says where no module is loaded, retold",
        pattern=r"\bnvidia-smi\b.{0,40}\b(?:cannot|could not|couldn't|can't|unable to|not) (?:communicate|talk)\b.{0,30}\bdrivers?\b(?!.{0,4}Make sure)",
        level=Level.WARNING,
        unless=ADVICE,
        modifiers=(
            Modifier("new-kernel", Cause.DRIVER_KERNEL_INCOMPATIBLE, 6),
            Modifier("secure-boot", Cause.DRIVER_KERNEL_INCOMPATIBLE, 10),
            Modifier("nouveau", Cause.NOUVEAU_LOADED, 15),
        ),
        decisive_fact="what modprobe nvidia says, and dkms status",
    ),
    Signature(
        "told.container-lost",
        _REPORTS,
        ("daemon-reload", "lost", "loses", "lose ", "losing", "disappear", "vanish", "gone"),
        ((Cause.CONTAINER_CGROUP_LOST_GPU, 0.66),),
        "NVIDIA Container Toolkit, Troubleshooting: containers lose access to GPUs",
        pattern=(
            rf"\b(?:containers?|pods?)\b.{{0,60}}\b(?:los\w+|lost)\b (?:\w+ ){{0,3}}(?:GPUs?|CUDA|access to)|\bGPUs?\b.{{0,40}}\b(?:disappear\w*|gone|lost|vanish\w*)\b.{{0,40}}\b(?:from|in|inside|of) (?:the |a |my |our |running )*(?:containers?|pods?)\b"
            rf"|\bafter (?:\w+ ){{0,3}}daemon-reload\b.{{0,80}}\b(?:GPU|NVML|nvidia\S*|CUDA|containers?)\b.{{0,60}}{_BROKEN}"
        ),
        requires=("gpu", "cuda"),
        level=Level.WARNING,
        unless=rf"{ADVICE}|\b(?:lost|loses|losing) (?:its|their|the) (?:\w+ )?(?:ports?|network|address|mounts?|volumes?)\b",
        title="A running container has lost the GPU: its cgroup was set anew",
        decisive_fact="whether it comes back with a new container, and systemctl daemon-reload takes it away",
    ),
    Signature(
        "told.two-cupys",
        _REPORTS,
        ("and cupy", ", cupy"),
        ((Cause.MULTIPLE_CUPY_PACKAGES, 0.72),),
        "CuPy documentation, Installation: only one of its packages may be installed",
        pattern=rf"\b(?:both|have|shows?|lists?|contains?|installed:?|pip list:?)(?:(?<=:)|\b).{{0,30}}\b(?P<one>{_CUPY})(?:[= ]+\d[\w.]*)?(?:,? and|,(?= cupy\S* ?[= ]+\d)) (?P<other>{_CUPY})(?![\w-])",
        weights_fn=lambda values: (
            ((Cause.MULTIPLE_CUPY_PACKAGES, 0.72),) if values["one"].lower() != values["other"].lower() else ()
        ),
        level=Level.WARNING,
        unless=ADVICE,
        evidence="two-cupys",
        title="Two packages of CuPy own the same files",
    ),
    Signature(
        "told.cpu-build",
        _REPORTS,
        ("cpu version", "cpu-only", "cpu only", "cpu build", "cpu wheel", "cpu variant"),
        ((Cause.CPU_ONLY_FRAMEWORK, 0.72),),
        "PyTorch, Get Started: the index decides whether a build with CUDA comes",
        pattern=(
            r"\b(?:py)?(?:torch|tensorflow|jax|jaxlib|onnxruntime|paddle(?:paddle)?|xgboost|lightgbm)\b.{0,80}\b(?:installs?|installed|installing|resulted in|got|gets|pulls?|is|was|downloads?|gives)\b.{0,24}\bCPU(?:[- ]only)? (?:version|build|wheel|variant)"
        ),
        level=Level.WARNING,
        unless=rf"{ADVICE}|\b(?:want|wanted|prefer|need|enough)\b",
        title="The framework there is a build for the CPU",
        decisive_fact="torch.version.cuda: None is a build without CUDA",
    ),
    Signature(
        "told.host-library",
        _REPORTS,
        ("cupy",),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.56), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.15)),
        "CuPy documentation, Interoperability: arrays are copied to the host when the program says so",
        pattern=(
            r"\b(?:np|numpy)\.(?:as)?array\(\w{0,20}cupy\w{0,20}\).{0,30}\b(?:raises?|fails?|errors?)\b"
            r"|\b(?:matplotlib|scikit-learn|sklearn|pandas|scipy|opencv|cv2|pillow|seaborn|plotly)\b.{0,60}\b(?:(?:can|do|does|could)(?:not| not|n't)|fails?|error|unable)\b.{0,60}\bcupy(?:\.nd)?[ -]?arrays?\b"
        ),
        level=Level.WARNING,
        unless=ADVICE,
        title="A library that works on the host was given a GPU array",
    ),
    Signature(
        "told.cupy-broke",
        _REPORTS,
        ("cupy v", "cupy 1", "cupy 9", "cupy 8", "cupy 7", "cupy>"),
        ((Cause.CUPY_BUG, 0.4), (Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.34)),
        "CuPy documentation, Upgrade Guide: what changes from release to release",
        pattern=(
            r"\b(?:broke(?:n)?|breaks|regress\w*|stopped working|no longer works?|fails?)\b(?: \w+){0,3} (?:in|from|since|with|after|on|by) (?:(?:the )?(?:upgrad\w+|updat\w+)(?: to)? )?cupy ?(?:v|>=?|==)? ?\d"
            r"|\bcupy (?:v|version )?\d+[\d.]* (?:breaks|broke|regression|fails)\b"
        ),
        level=Level.WARNING,
        unless=ADVICE,
        title="What worked with another release of CuPy does not with this one",
        decisive_fact="whether it is CuPy's fault or the program above uses what was removed: the release notes",
    ),
    Signature(
        "told.not-of-cupy",
        _REPORTS,
        ("cupy-", "cupy_", "cupy package", "named cupy", "named `cupy"),
        ((Cause.UNTRUSTED_PACKAGE_NAME, 0.8),),
        "matrix.yaml, wheel lines; CuPy documentation, Installation: the names of its packages",
        pattern=(
            r"\bcupy[-_]?\w*\b.{0,60}\b(?:not|NOT|never)\b(?: \w+){0,3} (?:uploaded|published|released|maintained|provided|owned|distributed|built|made) by (?:the )?CuPy"
            r"|\b(?:malicious|typo-?squat\w*|unofficial|fake|hijacked|squatt\w+)\b.{0,60}\bcupy[-_]\w+|\bcupy[-_]\w+\b.{0,80}\b(?:is|are|was) (?:an? )?(?:malicious|typo-?squat\w*|fake|malware|not (?:an )?official)\b"
        ),
        unless=r"\bnot (?:malicious|fake)\b",
        title="A distribution with such a name is not one of CuPy's own",
    ),
    Signature(
        "told.type-of-kernel",
        _REPORTS,
        ("garbage", "nonsense", "wrong", "zero", "incorrect", " nan"),
        ((Cause.DTYPE_MISMATCH, 0.6),),
        "CuPy documentation, User-Defined Kernels: a raw kernel takes the bytes of its arguments as they are",
        pattern=(
            r"\bkernel\b.{0,60}\b(?:float(?:32)?|double|int(?:32)?)\b.{0,80}\b(?:float64|float32|double|int64|complex\d*)\b.{0,60}\b(?:garbage|wrong|zeros?|nonsense|nan|incorrect)\b"
            r"|\b(?:garbage|wrong|zeros|incorrect)\b.{0,80}\bkernel\b.{0,60}\b(?:float64|float32|double|int64)\b.{0,40}\b(?:instead|although|but|array)"
        ),
        requires=("cupy", "cuda"),
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
        requires=("cupy", "cuda", "torch-error"),
        level=Level.WARNING,
        unless=ADVICE,
        title="Work on two streams, or of host and device, is not ordered",
    ),
)
