"""What pip, uv, conda, Poetry and build tools print of CuPy and what belongs to it."""

from __future__ import annotations

from gpuenv.explain.records import Level, Signature, Sway
from gpuenv.model.causes import Cause

_PIP_SOURCE = "pip, resolution/resolvelib/factory.py and index/package_finder.py"
_PLATFORM = (
    Sway("darwin", Cause.PLATFORM_WHEEL_MISSING, 20),
    Sway("musl", Cause.PLATFORM_WHEEL_MISSING, 15),
    Sway("aarch64", Cause.PLATFORM_WHEEL_MISSING, 2),
    Sway("aarch64", Cause.JETSON_TEGRA, 30),
    Sway("jetson", Cause.JETSON_TEGRA, 60),
)
_FIT = (
    Sway("python-outside", Cause.PYTHON_UNSUPPORTED, 10),
    Sway("python-inside", Cause.PYTHON_UNSUPPORTED, 0.3),
    Sway("python-inside", Cause.PLATFORM_WHEEL_MISSING, 3),
    *_PLATFORM,
)
_NOT_FOUND = r"(?:No matching distribution found for|satisfies the requirement)"
_NAME_ENDS = r"(?=[=<>~! \[(;,]|$)"

SIGNATURES = (
    Signature(
        "pip.no-match",
        "pip",
        ("no matching distribution found for cupy", "requirement cupy"),
        ((Cause.PYTHON_UNSUPPORTED, 0.52), (Cause.PLATFORM_WHEEL_MISSING, 0.34), (Cause.JETSON_TEGRA, 0.03)),
        _PIP_SOURCE,
        pattern=rf"{_NOT_FOUND} (?P<name>cupy(?:[-_]cuda1[123]x)?){_NAME_ENDS}",
        title="The index has no {name} for this Python and platform",
        sways=_FIT,
        decides="the Python, the architecture and the C library: --assume python=, --assume arch=, --assume libc=",
    ),
    Signature(
        "pip.no-match-old",
        "pip",
        ("no matching distribution found for cupy", "requirement cupy"),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.52), (Cause.PYTHON_UNSUPPORTED, 0.34), (Cause.JETSON_TEGRA, 0.08)),
        f"{_PIP_SOURCE}; the lines up to cupy-cuda117 ended with CuPy 12",
        pattern=rf"{_NOT_FOUND} (?P<name>cupy[-_]?(?:cuda(?:[789]\d|1[01]\d)|rocm[-_]\d[-_]\d+)){_NAME_ENDS}",
        title="The index has no {name} for this Python and platform; the line has ended",
        sways=_PLATFORM,
        decides="the Python, the architecture and the C library: --assume python=, --assume arch=, --assume libc=",
    ),
    Signature(
        "pip.no-match-name",
        "pip",
        ("no matching distribution found for cupy", "requirement cupy"),
        ((Cause.UNTRUSTED_PACKAGE_NAME, 0.7), (Cause.PLATFORM_WHEEL_MISSING, 0.1)),
        f"{_PIP_SOURCE}; matrix.yaml, wheel lines",
        pattern=rf"{_NOT_FOUND} (?P<name>cupy[-_](?:gpu|nvidia|cuda|cu\d+|cuda[-_]?(?:1[0-4](?:[._-]\d+)?))){_NAME_ENDS}",
        title="{name} is not a distribution of CuPy's own",
    ),
    Signature(
        "pip.not-supported-wheel",
        "pip",
        ("is not a supported wheel on this platform",),
        ((Cause.PYTHON_UNSUPPORTED, 0.5), (Cause.PLATFORM_WHEEL_MISSING, 0.45)),
        "pip, req/req_install.py",
        pattern=r"cupy\S*\.whl is not a supported wheel on this platform",
        sways=_FIT,
        decides="the tags in the file's name against pip debug --verbose",
    ),
    Signature(
        "pip.requires-python",
        "pip and uv",
        ("requires a different python", "requires-python", "requires python", "no solution found", "python version"),
        ((Cause.PYTHON_UNSUPPORTED, 0.92),),
        "pip, resolution/resolvelib; uv-resolver, pubgrub/report.rs",
        pattern=(
            r"(?:Package )?'?cupy\S*'? requires (?:a different )?Python|Ignored the following versions that require a different python version:.*cupy"
            r"|cupy\S* (?:depends on|requires) Python ?[<>=]|ERROR: cupy\S* .*requires Python|no versions? of cupy\S* .*Python ?[<>]"
        ),
        title="This CuPy is not made for this Python",
    ),
    Signature(
        "uv.python-tag",
        "uv",
        ("matching python", "we only found wheels for", "python abi tag", "python implementation tag"),
        ((Cause.PYTHON_UNSUPPORTED, 0.92),),
        "uv-resolver, pubgrub/report.rs and error.rs",
        pattern=r"cupy\S* has no wheels with a matching Python (?:ABI|implementation|version) ?tag|we only found wheels for `?cupy\S*.*(?:Python|ABI) tag",
        title="This CuPy has no wheel for this Python",
    ),
    Signature(
        "uv.platform-tag",
        "uv, Poetry, pdm",
        ("matching platform tag", "current platform", "following platform", "unable to find installation candidates"),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.85), (Cause.PYTHON_UNSUPPORTED, 0.08)),
        "uv-resolver, pubgrub/report.rs; poetry, installation/chooser.py",
        pattern=(
            r"cupy\S* has no wheels with a matching platform tag|wheels are available for `?cupy\S*.*following platform"
            r"|cupy\S*.*(?:can't be installed because it )?doesn't have a source distribution or wheel for the current platform"
            r"|Unable to find installation candidates for cupy"
        ),
        title="This CuPy has no wheel for this platform",
        sways=(Sway("jetson", Cause.JETSON_TEGRA, 1),),
    ),
    Signature(
        "conda.no-cuda",
        "conda, mamba",
        ("__cuda", "packagesnotfounderror", "nothing provides"),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.5), (Cause.NO_DRIVER, 0.42)),
        "conda, exceptions.py: UnsatisfiableError; libmamba, solver problems",
        pattern=r"__cuda\b.{0,80}(?:missing on the system|nothing provides|not installed|which requires)|nothing provides (?:requested )?__cuda|feature:\S*__cuda",
        title="conda finds no driver that is new enough (the virtual package __cuda)",
        sways=(
            Sway("driver-none", Cause.NO_DRIVER, 10),
            Sway("gpu-none", Cause.NO_DRIVER, 6),
            Sway("driver-older", Cause.DRIVER_TOO_OLD_FOR_CUDA, 8),
            Sway("cuda-missing-on-system", Cause.NO_DRIVER, 2.5),
        ),
        decides="what conda info shows for __cuda",
    ),
    Signature(
        "conda.not-found",
        "conda, mamba",
        ("cupy",),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.6), (Cause.PYTHON_UNSUPPORTED, 0.15), (Cause.UNTRUSTED_PACKAGE_NAME, 0.1)),
        "conda, exceptions.py: PackagesNotFoundError; libmamba",
        pattern=(
            r"(?:nothing provides|package|The following packages? (?:is|are) not available).{0,40}\bcupy\b.{0,60}(?:does not exist|not available|no candidates|nothing provides)"
            r"|nothing provides (?:requested )?cupy\b|- cupy\S*.*(?:does not exist|is not installable|can't be installed)|(?:not available from current channels|ResolvePackageNotFound):? +- (?:\S+::)?cupy"
            r"|\bcupy\S* was not found in the (?:package registry|provided package locations)|there (?:is|are) no versions? of cupy|No candidates were found for cupy"
        ),
        sways=_FIT,
        decides="the platform and the Python of the environment",
    ),
    Signature(
        "conda.glibc",
        "conda, mamba",
        ("__glibc",),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.85),),
        "conda, exceptions.py; libmamba, solver problems",
        pattern=r"__glibc.{0,80}(?:missing on the system|nothing provides|conflict|but|your installed version|which requires)|nothing provides __glibc",
        title="The C library is older than the packages need",
        needs=("cupy", "cuda"),
    ),
    Signature(
        "pip.cuda-conflict",
        "pip and uv",
        ("nvidia-", "conflict"),
        ((Cause.TORCH_CUPY_CONFLICT, 0.85),),
        "pip, commands/install.py: dependency conflicts; uv-resolver, pubgrub/report.rs",
        pattern=(
            r"(?:torch|tensorflow|jax\S*|cupy\S*|cuda-toolkit|numba-cuda|\S+-cu1\d) \S+ (?:requires|depends on|has requirement) (?:nvidia-|cuda-)\S+.*but you(?:'ll)? have"
            r"|Because .*(?:cupy|torch|jax)\S* .*depends on (?:nvidia-|cuda-)\S+.*|(?:torch|jax|tensorflow)\S* \S+ requires nvidia-\S+==\S+.*incompatible"
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
        "conda.pypi-cuda",
        "conda list",
        ("pypi",),
        ((Cause.MIXED_PIP_CONDA, 0.6), (Cause.MULTIPLE_CUPY_PACKAGES, 0.1)),
        "conda list: the channel column",
        pattern=r"^(?:cupy-cuda\S+|nvidia-\S+-cu1\d|cuda-toolkit) +\S+ +pypi_0 +pypi",
        level=Level.WARNING,
        needs=("conda-cuda",),
        title="pip and conda each put a part of CUDA or CuPy into this environment",
    ),
    Signature(
        "conda.mixed-files",
        "conda and pip",
        ("conda", "clobbererror", "uninstall", "distutils installed"),
        ((Cause.MIXED_PIP_CONDA, 0.8),),
        "conda, exceptions.py: ClobberWarning; pip, req/req_uninstall.py",
        pattern=(
            r"Clobber(?:Error|Warning).*(?:cupy|cuda|nvidia)|Cannot uninstall '?cupy\S*'?|cannot uninstall.*cupy.*(?:no RECORD|distutils|conda)"
            r"|cupy.*(?:installed (?:by|with|from) (?:both )?(?:pip|conda).*(?:and|conda|pip))"
        ),
    ),
    Signature(
        "pip.untrusted",
        "pip and uv",
        ("cupy",),
        ((Cause.UNTRUSTED_PACKAGE_NAME, 0.85),),
        "matrix.yaml, wheel lines: every distribution of CuPy's own ends in 11x, 12x, 13x, an old minor, or rocm-*",
        pattern=(
            r"(?:Collecting|Successfully installed|Installing collected packages:|Downloading|\+) (?:.*[ ,])?"
            r"(?P<name>cupy-?cuda(?:1[1234]|-?gpu)?|cupy-gpu|python-cupy|cupy-cu1[1234]|cupy-cuda-1\S+|cupy-nvidia)(?=[=-]\d|[ ,]|$)"
        ),
        title="{name} is not a distribution of CuPy's own",
    ),
    Signature(
        "python.other-abi",
        "CPython",
        ("python version mismatch", "compile time python version", "bad magic number", "undefined symbol: _py"),
        ((Cause.PYTHON_UNSUPPORTED, 0.72), (Cause.CORRUPT_INSTALLATION, 0.1)),
        "Cython, module initialisation; CPython, importlib",
        pattern=r"Python version mismatch: module was compiled for|compile ?time (?:Python )?version \S+ of module '\S+' does not match runtime|cupy\S*: undefined symbol: _?Py\w+",
        needs=("cupy",),
        title="CuPy's files were built for another Python",
    ),
)
