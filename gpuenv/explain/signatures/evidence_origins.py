"""Evidence about the origin of an error: whose libraries, which image, how a build ended."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.explain.explanation_types import Level, Signature
from gpuenv.explain.signatures.evidence_common import alternative, evidence

_OTHER = r"(?:torch|tensorflow|jax|paddle|mxnet)"
_OF_CONDA = (
    r"(?:\bconda-forge\b|\bconda's\b|\bfrom (?:the )?(?:ana)?conda\b|\bthe conda channel\b|\(anaconda\)|\bcudatoolkit\b"
    r"|\b(?:conda|mamba) (?:install|update|list)\b|\bconda: \w|conda\d?/(?:envs/[^/\s]{1,40}/)?lib/lib\w+\.so)"
)
_OF_PIP = (
    r"(?:\bpypi(?:_0)?\b|\bpip3? install\b|\bpip's\b|\bpip-installed\b|\(pip\)|\b(?:from|by) pip\b|\bnvidia-cu\w+-cu1\d\b"
    r"|site-packages/(?:\S{1,40}/)?nvidia/cu\w)"
)

_TEXT = "the text around an error"
_FINE = r"(?<!not )(?:works|worked|runs|ran)\b(?: \w+){0,2}"

SIGNATURES = (
    evidence("dll-named", (".dll",), r"\w\.dll\b"),
    # Whose source an old interpreter cannot read: an installed package's, that is not the user's own program.
    evidence(
        "old-python-package",
        ("-packages",),
        r"[/\\]python(?:2\.?\d|3\.?[0-8])[/\\](?:lib[/\\])?(?:site|dist)-packages[/\\]"
        r"(?:cupyx?|cupy_backends|numpy|numba|chainer|cuda|jax|torch|spacy|thinc)[/\\]",
    ),
    # Whose library is whose: conda's beside pip's.
    evidence(
        "pip-and-conda",
        ("conda", "mamba", "cudatoolkit"),
        rf"{_OF_CONDA}.{{0,160}}?{_OF_PIP}|{_OF_PIP}.{{0,160}}?{_OF_CONDA}",
    ),
    evidence(
        "cupy-of-conda-and-pip",
        ("cupy",),
        r"\bcupy(?:-core)?\s+\d\S*\s+(?:\S+\s+)?conda-forge\s+cupy-\S+\s+\d\S*\s+(?:\S+\s+)?pypi",
    ),
    # Both in one process, and not only both installed.
    evidence(
        "two-frameworks",
        ("cupy", "two frameworks", "same process", "one process", "same interpreter"),
        rf"\bimport {_OTHER}\b.{{0,40}}\bimport cupy|\bimport cupy\b.{{0,40}}\bimport {_OTHER}\b|\bimport (?:cupy, ?{_OTHER}|{_OTHER}, ?cupy)\b"
        rf"|\b(?:two|both) frameworks\b.{{0,20}}\b(?:one|same|single) (?:process|interpreter)|\bcupy and {_OTHER}\b.{{0,40}}\b(?:process|interpreter)|\b{_OTHER} and cupy\b.{{0,40}}\b(?:process|interpreter)"
        rf"|{_OTHER}\b.{{0,160}}\bcupy\S* (?:was |is |had been )?(?:imported|loaded) (?:earlier|first|before)|\bcupy\b.{{0,160}}\b{_OTHER} (?:was |is |had been )?(?:imported|loaded) (?:earlier|first|before)",
    ),
    # What becomes of an image, as a Dockerfile and the log of its build show.
    evidence("driver-in-image", ("run ",), r"^RUN .*\binstall\b.*\bnvidia-(?:driver|utils|kernel|dkms)"),
    # NVIDIA's images of this flavour have CUDA's runtime library alone.
    evidence("base-image", ("-base",), r"\bcuda\w*:\d+\.\d\S*-base\b"),
    evidence("stubs-in-image", ("stubs",), r"^ENV LD_LIBRARY_PATH[ =]\S*/stubs\b"),
    evidence(
        "building-image",
        ("cuda_home", "cuda_path", "run pip", "from "),
        r"^#\d+ (?:\d+\.\d+ )?\w|^FROM [\w./-]+:\S+.{0,80}\bRUN pip",
    ),
    evidence("rocm-image", ("rocm/",), r"\b(?:docker|podman) (?:run|create|pull)\b.*\srocm/\w"),
    evidence("mig-capability-missing", ("/capabilities/",), r"/nvidia/capabilities/gpu\d+/mig\S*: no such file"),
    evidence(
        "driver-file-missing",
        ("libnvidia-", "libcuda"),
        r"(?:open|stat|mount) (?:operation )?failed: \S*/lib(?:nvidia-[\w-]+|cuda)\.so[.\d]*: no such file",
    ),
    # A build that ended well, and a configuration in which CUDA was found.
    evidence(
        "cupy-built",
        ("cupy",),
        r"Building wheel for cupy\b(?!-)(?!.{0,60}error).{0,60}\bdone\b|Successfully (?:built|installed) (?:\S+ ){0,20}?cupy\b(?!-cuda|-rocm)",
    ),
    evidence("cupy-configured", (" yes",), r"^\W*cuda\s*: Yes\b"),
    evidence(
        "no-nvswitch",
        ("nvswitch", "any switch", "no switch", "without switch"),
        r"\bnvswitch\b(?: count| devices)?[^\w]{1,12}(?:0\b|\(?(?:empty|nothing|none|no output)\b)|\b(?:no|without(?: an?| any)?|0|zero) (?:nv)?switch(?:es)?\b(?!.{0,12}(?:port|statement))",
    ),
    evidence("python-itself", ("required by",), r"\(required by \S*/python[\d.]*\)"),
    # What uses one folder together.
    evidence(
        "many-workers",
        ("workers", "joblib", "loky", "n_jobs", "processpool", "mpirun", "srun", "dask", "ranks", "xdist", "array job"),
        r"\b\d+ (?:parallel )?workers\b|\bjoblib\b|\bloky\b|\bn_jobs\b|ProcessPool|\bmpirun\b|\bsrun\b|dask[-_.](?:cuda|worker)|\b\d+ ranks\b|\bxdist\b|\barray job",
    ),
    alternative(
        "many-workers",
        "many-people",
        ("people", "users", "colleagues", "students", "accounts", "shared "),
        r"\b(?:multiple|several|many|other|different|two|three|all) (?:people|users|colleagues|students|accounts)\b|\bshared (?:\w+ )?(?:machine|server|workstation|host|box|node|computer)\b",
    ),
    evidence(
        "reported-present",
        ("although", "though", " but ", "yet ", "while "),
        r"\b(?:al|even )?(?:though|but|yet|while) (?:\w+ )?(?:it|they|the (?:file|library|\w+ package)|lib\S{1,40}|nvidia-\S{1,40}) (?:is|are|was|does|do) (?!not\b)(?:\w+ )?(?:there|present|installed|exist\w*|(?:in|at|under) \S*[/\\]\S+)",
    ),
    # A library's file by its path, where no line says that it was not found there.
    Signature(
        "mark.library-there",
        _TEXT,
        ("libcudnn", "libnccl", "libcutensor", "libcusparselt", "libnvshmem"),
        (),
        _TEXT,
        pattern=(
            r"^(?!.*(?:cannot|can't|could not|couldn't|no such file|not found|failed|error|unable|required by|undefined|searched|tried|copy|rm |ln |export))"
            r".*?[/\\](?P<there>lib(?:nccl|cudnn\w*|cutensor\w*|cusparseLt|nvshmem\w*)\.so[.\d]*)(?=\s|$|['\"`,;)])"
        ),
        level=Level.EVIDENCE,
        evidence="library-there",
        weights_fn=lambda _: (),  # each of them counts
    ),
    evidence(
        "dangling",
        ("symlink", "symbolic link"),
        r"\b(?:dangling|broken|dead) (?:sym|symbolic )link|\bsymlink to .{0,60}\b(?:gone|missing|unmounted)",
    ),
    # CuPy's setup, and a compile of its sources.
    replace(
        evidence(
            "cupy-sources",
            ("include files not found", "cupy"),
            r"\bpip3? install (?:\S+ ){0,6}(?:py-)?cupy(?![\w-]).{0,40}\b(?:fail\w*|exit(?:ed)? (?:code|with|status)|did not)|\b(?:Command|ProcessError|CalledProcessError)\b.{0,60}\bpip3? install .{0,40}\b(?:py-)?cupy(?![\w-])|\bbuilder for '\S*-cupy-\d\S*' failed|"
            r"\bbuilding '(?:cupy|cupyx|cupy_backends)[\w.]*' extension\b|"
            r"Include files not found: \[|\bcupy(?:_backends|x)?/\S{1,80}\.(?:h|hpp|c|cpp|cu|pyx):\d+(?::\d+)?: fatal error",
        ),
        evidence="building-cupy",
    ),
    # What the container was given cannot be what it lacks; where it is named as the fix, it was not given before.
    replace(
        evidence(
            "capability-given",
            ("nvidia_driver_capabilities",),
            r"NVIDIA_DRIVER_CAPABILITIES\W{1,4}(?:all\b|(?=[\w,]*\bcompute)(?=[\w,]*\bvideo)[\w,]+)(?!.{0,120}\b(?:works?|worked|help\w*|(?:re)?solv\w*|fix\w*|cure\w*|needed|missing|lack\w*|did (?:it|the trick))\b)",
        ),
        unless=r"\b(?:without|lack\w*|missing|must|should|try|need(?:s|ed)?|ha(?:s|ve|d) to|please|add|adding|(?:re)?solv\w*|fix(?:es|ed)?|work(?:s|ed)|cures?)\b.{0,80}NVIDIA_DRIVER_CAPABILITIES",
    ),
    # A line of CuPy's own Python files in a traceback; its __init__.py only answers for what is not there.
    evidence(
        "cupy-file-frame",
        ("cupy",),
        # A user's folder may be called cupy too: CuPy's lies among packages, or in a folder cupy of its source.
        r"File \"(?:[^\"]*(?:-packages|\.egg|\bcupy|\.\.\.)[/\\])?cupyx?[/\\](?!__init__\b)[^\"]+\", line \d",
    ),
    # Programs that are named for the platform of AMD's cards.
    alternative(
        "amd", "roc-program", ("roc",), r"\broc(?:hpcg|hpl|blas|sparse|solver|fft|rand|thrust|prim|minfo|alution)\b"
    ),
    # Where it works there, the error is of another machine.
    replace(
        evidence("colab", ("colab",), r"\b(?:in|on|with|using) (?:Google(?:'s)? )?[Cc]olab\b|/content/"),
        unless=rf"{_FINE}.{{0,40}}\bcolab\b|\bcolab\b[^.]{{0,40}}{_FINE}",
    ),
    replace(
        evidence(
            "reported-without-nvidia",
            ("without a", "with no ", "has no ", "have no ", "without any"),
            r"\b(?:machine|host|server|laptop|computer|PC|VM|node|box)\b[^.\n]{0,30}\b(?:without an?y?|with no|has no|have no) (?:NVIDIA|[Nn]vidia) (?:graphics )?(?:card|GPU)s?\b"
            r"(?! (?:\w+ )?(?:drivers?|problems?|issues?|troubles?|errors?|support|memory|process\w*|free|available|left|in|with|attached|assigned)\b)",
        ),
        unless=rf"{_FINE} (?:on|in) (?:an?|the|my|any|another) (?:\w+ )?(?:machine|host|server|laptop|computer|PC|VM|node|box)\b",
    ),
    alternative(
        "mig",
        "mig-reported-enabled",
        ("mig ",),
        r"\bMIG\b(?: (?!not\b|never\b|cannot\b|persistence\b|ECC\b|if\b)\w+){1,8} enabled\b(?! by default)",
    ),
    # Who caught the error of an import says in his own words that he goes on without it.
    evidence(
        "import-caught",
        ("load cupy", "import cupy"),
        r"\b(?:[Cc]ould not|[Cc]annot|[Uu]nable to|[Ff]ailed to) (?:load|import) (?:optional )?[Cc]u[Pp]y\b\W{0,3}No module named '?cupy",
    ),
    # One function of CuPy's is called on what another one gives.
    evidence(
        "cupy-given-cupy",
        ("cupy.", "cp."),
        r"^(?:>>> ?|In \[\d+\]: ?)?(?:\w{1,20} ?= ?)?(?:cupy|cp)\.\w[\w.]*\((?:cupy|cp)\.\w+\([^()]*\)[^()]{0,40}\)\s*$",
    ),
    replace(
        evidence(
            "driver-put-inside",
            ("in the container", "inside the container", "into the container"),
            r"\b(?:install\w*|added|put) (?:the |an? )?(?:nvidia[- ]?(?:driver|utils|smi)\S*|drivers?) (?:\w+ ){0,2}?(?:in|inside|into) the container\b",
        ),
        unless=r"(?:\b(?:not|never|without|nobody|no need)|n't)\b(?: (?:to|need|have|had|be|been|ever|even|necessary|required)){0,3} (?:install\w*|added|put) ",
    ),
)
