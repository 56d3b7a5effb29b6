"""Messages of pip, uv, Poetry and build tools about CuPy and what belongs to it."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Modifier, Signature
from gpuenv.model.causes import Cause

_PIP_SOURCE = "pip, resolution/resolvelib/factory.py and index/package_finder.py"
PLATFORM = (
    Modifier("darwin", Cause.PLATFORM_WHEEL_MISSING, 20),
    Modifier("musl", Cause.PLATFORM_WHEEL_MISSING, 15),
    Modifier("aarch64", Cause.PLATFORM_WHEEL_MISSING, 2),
    Modifier("aarch64", Cause.JETSON_TEGRA, 30),
    Modifier("jetson", Cause.JETSON_TEGRA, 60),
)
FIT = (
    Modifier("python-outside", Cause.PYTHON_UNSUPPORTED, 10),
    Modifier("python-inside", Cause.PYTHON_UNSUPPORTED, 0.3),
    Modifier("python-inside", Cause.PLATFORM_WHEEL_MISSING, 3),
    *PLATFORM,
)
_NOT_FOUND = r"(?:No matching distribution found for|satisfies the requirement)"
_GPU = r"(?:cupy(?:[-_]cuda\w+|[-_]rocm[\w-]+)?|(?:cudf|cuml|cugraph|rmm|pylibraft)(?:-cu\d\d)?|numba-cuda)(?![\w-])"
# What is installed for its GPU code, by wheels alone.
_FRAMEWORKS = (
    r"(?:torch(?:vision|audio)?|tensorflow(?:-gpu|-rocm)?|tensorrt(?:[-_]\w{2,8})?|jaxlib|jax[-_]cuda\d\d[-_]\w{4,8}|onnxruntime(?:[-_]gpu)?"
    r"|paddlepaddle-gpu|mxnet-cu\d{2,3}|xformers|triton|numba-cuda|(?:cudf|cuml|cugraph|cuspatial|rmm|pylibraft)-cu\d\d"
    r"|nvidia-(?:cuda|cu|nccl|nvjitlink)[\w-]{1,30})"
)
# PEP 425: a file for one Python alone has its name twice, but for the m up to 3.7.
_TAGS = r"(?:-(?P<wheel_python>cp3\d{1,2})-cp3\d{1,2}t?m?-[\w.]{3,80})?"
_TAGGED = (
    *FIT,
    Modifier("wheel-of-other-python", Cause.PYTHON_UNSUPPORTED, 10),
    Modifier("wheel-of-other-python", Cause.PLATFORM_WHEEL_MISSING, 0.2),
    Modifier("wheel-of-other-python", Cause.JETSON_TEGRA, 0.01),
    Modifier("wheel-of-this-python", Cause.PYTHON_UNSUPPORTED, 0.05),
)
_NAME_ENDS = r"(?=[=<>~! \[(;,]|$)"
# Every line that CuPy's own distributions had or have.
_LINES = r"(?:cuda(?:[789]\d|10[0-2]|11[0-7]|1[123]x)|rocm[-_]\d[-_]\d+)"
# A name that only looks like one (cupy-cuda128, cupy-cuda-12) is another's.
_A_LINE = rf"(?:[-_]{_LINES}(?![\w-]))"

SIGNATURES = (
    Signature(
        "pip.no-match",
        "pip",
        ("no matching distribution found for cupy", "requirement cupy"),
        ((Cause.PYTHON_UNSUPPORTED, 0.52), (Cause.PLATFORM_WHEEL_MISSING, 0.34), (Cause.JETSON_TEGRA, 0.03)),
        _PIP_SOURCE,
        pattern=rf"{_NOT_FOUND} (?P<name>cupy(?:[-_]cuda1[123]x)?){_NAME_ENDS}",
        title="The index has no {name} for this Python and platform",
        modifiers=FIT,
        decisive_fact="the Python, the architecture and the C library: --assume python=, --assume arch=, --assume libc=",
    ),
    Signature(
        "pip.no-match-old",
        "pip",
        ("no matching distribution found for cupy", "requirement cupy"),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.52), (Cause.PYTHON_UNSUPPORTED, 0.34), (Cause.JETSON_TEGRA, 0.08)),
        f"{_PIP_SOURCE}; the lines up to cupy-cuda117 ended with CuPy 12",
        pattern=rf"{_NOT_FOUND} (?P<name>cupy[-_](?:cuda(?:[789]\d|10[0-2]|11[0-7])|rocm[-_]\d[-_]\d+)){_NAME_ENDS}",
        title="The index has no {name} for this Python and platform; the line has ended",
        modifiers=PLATFORM,
        decisive_fact="the Python, the architecture and the C library: --assume python=, --assume arch=, --assume libc=",
    ),
    Signature(
        "pip.no-match-name",
        "pip",
        ("no matching distribution found for cupy", "requirement cupy"),
        ((Cause.UNTRUSTED_PACKAGE_NAME, 0.7), (Cause.PLATFORM_WHEEL_MISSING, 0.1)),
        f"{_PIP_SOURCE}; matrix.yaml, wheel lines",
        pattern=rf"{_NOT_FOUND} (?P<name>cupy[-_](?!{_LINES}(?:{_NAME_ENDS}|(?-i:[A-Z])))(?:gpu|nvidia|rocm|cu(?:da)?)[-_]?[\w.-]*?){_NAME_ENDS}",
        title="{name} is not a distribution of CuPy's own",
    ),
    Signature(
        "pip.no-match-framework",
        "pip",
        ("no matching distribution found for", "satisfies the requirement"),
        ((Cause.PYTHON_UNSUPPORTED, 0.6), (Cause.PLATFORM_WHEEL_MISSING, 0.22), (Cause.JETSON_TEGRA, 0.03)),
        _PIP_SOURCE,
        pattern=rf"{_NOT_FOUND} (?P<name>{_FRAMEWORKS})(?:\[[\w,-]{{1,40}}\])?{_NAME_ENDS}",
        title="The index has no such {name} for this Python and platform",
        modifiers=(Modifier("python-outside", Cause.PYTHON_UNSUPPORTED, 10), *PLATFORM),
        decisive_fact="the Python that runs pip, and for which Pythons and platforms that release has wheels",
    ),
    Signature(
        "pip.not-supported-wheel",
        "pip",
        ("is not a supported wheel on this platform",),
        ((Cause.PYTHON_UNSUPPORTED, 0.5), (Cause.PLATFORM_WHEEL_MISSING, 0.45)),
        "pip, req/req_install.py",
        pattern=rf"(?:cupy\S*?|\b{_FRAMEWORKS}-\d\S*?){_TAGS}\.whl is not a supported wheel on this platform",
        modifiers=_TAGGED,
        decisive_fact="the tags in the file's name against pip debug --verbose",
    ),
    Signature(
        "pip.other-wheel",
        "pip",
        ("is not a supported wheel on this platform",),
        ((Cause.PYTHON_UNSUPPORTED, 0.4), (Cause.PLATFORM_WHEEL_MISSING, 0.4)),
        "pip, req/req_install.py",
        pattern=rf"^(?!.*(?:cupy|\b{_FRAMEWORKS}-\d)).*?{_TAGS}\.whl is not a supported wheel on this platform",
        modifiers=_TAGGED,
        requires=("cupy", "cuda", "jetson"),
        decisive_fact="the tags in the file's name against pip debug --verbose",
    ),
    Signature(
        "pip.requires-python",
        "pip and uv",
        ("requires a different python", "requires-python", "requires python", "no solution found", "python version"),
        ((Cause.PYTHON_UNSUPPORTED, 0.92),),
        "pip, resolution/resolvelib; uv-resolver, pubgrub/report.rs",
        pattern=(
            rf"Package '?{_FRAMEWORKS}'? requires a different Python|"
            r"(?:Package )?'?cupy\S*'? requires (?:a different )?Python|Ignored the following versions that require a different python version:.*cupy"
            r"|cupy\S* (?:depends on|requires) Python ?[<>=]|ERROR: cupy\S* .*requires Python|no versions? of cupy\S* .*Python ?[<>]|cupy\S* requires-python '?[<>=]"
        ),
        title="This CuPy is not made for this Python",
    ),
    Signature(
        "uv.python-tag",
        "uv",
        (
            "matching python",
            "wheels for",
            "for the current python",
            "python abi tag",
            "python implementation tag",
            "only has wheels",
        ),
        ((Cause.PYTHON_UNSUPPORTED, 0.92),),
        "uv-resolver, pubgrub/report.rs and error.rs",
        pattern=(
            rf"\b{_GPU}\S* ha(?:s|ve) no wheels with a matching Python (?:ABI|implementation|version) ?tag|we only found wheels for `?{_GPU}\b.*(?:Python|ABI) tag"
            r"|cupy.*(?:only has wheels with the following Python|doesn't have a source distribution or wheel for the current Python)"
        ),
        title="A package there has no wheel for this Python",
    ),
    Signature(
        "uv.platform-tag",
        "uv, Poetry, pdm",
        ("matching platform tag", "current platform", "following platform", "unable to find installation candidates"),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.85), (Cause.PYTHON_UNSUPPORTED, 0.08)),
        "uv-resolver, pubgrub/report.rs; poetry, installation/chooser.py",
        pattern=(
            rf"\b{_GPU}\S* ha(?:s|ve) no wheels with a matching platform tag|wheels are available for `?{_GPU}\b.*following platform"
            rf"|\b{_GPU}\b.*only has wheels for the following platform"
            r"|cupy.*doesn't have a source distribution or wheel for the current platform"
            r"|Unable to find installation candidates for cupy"
        ),
        title="A package there has no wheel for this platform",
        modifiers=(Modifier("jetson", Cause.JETSON_TEGRA, 5),),
    ),
    Signature(
        "pip.cuda-conflict",
        "pip and uv",
        ("nvidia-", "conflict"),
        ((Cause.TORCH_CUPY_CONFLICT, 0.85),),
        "pip, commands/install.py: dependency conflicts; uv-resolver, pubgrub/report.rs",
        pattern=(
            r"(?:torch|tensorflow|jax\S*|cupy\S*|cuda-toolkit|numba-cuda|\S+-cu1\d) \S+ (?:requires|depends on|has requirement) (?:nvidia-|cuda-)\S+.*but you(?:'ll)? have"
            r"|(?:torch|jax|tensorflow)\S* \S+ requires nvidia-\S+==\S+.*incompatible"
        ),
        title="CuPy and another framework want different CUDA packages",
    ),
    Signature(
        "cupy.two-lines",
        "CuPy",
        ("multiple cupy packages",),
        ((Cause.MULTIPLE_CUPY_PACKAGES, 0.96),),
        "CuPy, cupy/_environment.py: _detect_duplicate_installation",
        title="Two CuPy distributions share one environment",
    ),
    Signature(
        "pip.untrusted",
        "pip and uv",
        ("cupy",),
        ((Cause.UNTRUSTED_PACKAGE_NAME, 0.85),),
        "matrix.yaml, wheel lines: every distribution of CuPy's own ends in 11x, 12x, 13x, an old minor, or rocm-*",
        pattern=(
            r"(?:(?:Collecting|Successfully installed|Installing collected packages:|Downloading|\+) (?:.*[ ,])?|^(?=\S+(?:==| +)\d[\w.]*(?: |$)))"
            rf"(?P<name>cupy-?cuda(?:1[1234]|-?gpu)?|cupy[-_](?!{_LINES}(?![\w-])|cuda1\dx)cuda[-_]?\d[\w-]*?|cupy[-_]cu(?:dnn|dart|blas|fft)|cupy-gpu|python-cupy|cupy-cu1[1234]|cupy-cuda-1\S+|cupy-nvidia)(?==?[=-]\d|[ ,]|$)"
        ),
        title="{name} is not a distribution of CuPy's own",
        evidence="foreign-name",
    ),
    Signature(
        "python.other-abi",
        "CPython",
        ("python version mismatch", "compile time python version", "bad magic number", "undefined symbol: _py"),
        ((Cause.PYTHON_UNSUPPORTED, 0.72), (Cause.CORRUPT_INSTALLATION, 0.1)),
        "Cython, module initialisation; CPython, importlib",
        pattern=r"Python version mismatch: module was compiled for|compile ?time (?:Python )?version \S+ of module '\S+' does not match runtime|cupy\S*: undefined symbol: _?Py\w+",
        requires=("cupy",),
        title="CuPy's files were built for another Python",
    ),
    Signature(
        "pip-list.two-lines",
        "pip list, pip freeze and conda list",
        ("cupy-cuda", "cupy_cuda", "cupy-rocm"),
        ((Cause.MULTIPLE_CUPY_PACKAGES, 0.92),),
        "pip, commands/list.py and freeze.py: the names are sorted, so the two stand together",
        pattern=(
            rf"^cupy(?P<one>{_A_LINE})?(?:==|\s+)v?\d[\w.]{{2,20}}(?: +\S{{1,40}}){{0,2}}? +cupy(?!(?P=one)\b){_A_LINE}(?:==|\s+)v?\d[\w.]{{2,20}}\s*(?:\S{{1,40}}\s*){{0,2}}$"
            rf"|^cupy(?:==|\s+)v?\d[\w.]{{2,20}} +cupy{_A_LINE}(?:==|\s+)v?\d[\w.]{{2,20}}\s*$"
        ),
        evidence="two-cupys",
        title="Two distributions of CuPy are installed side by side",
    ),
)
