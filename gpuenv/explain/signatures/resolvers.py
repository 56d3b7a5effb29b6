"""Messages of uv, pip, Poetry and PDM where no set of packages fits."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

_UV = "uv 0.4 to 0.13, uv-resolver, pubgrub/report.rs"
_PIP = "pip 20.3 to 26, resolution/resolvelib/factory.py and commands/check.py"
_POETRY = "poetry 2, mixology/failure.py"
# CUDA's own distributions, and the frameworks that pin them.
_CUDA = r"(?:nvidia-[\w-]+|cuda-(?:toolkit|bindings|python|core)\b)"
_FRAMEWORK = r"(?:torch|tensorflow|jax|jaxlib|jax-cuda\d\d-\w+|cupy[\w-]*|numba-cuda|cuda-toolkit|[\w-]+-cu1\d)"

SIGNATURES = (
    Signature(
        "resolver.numpy",
        "uv, pip, Poetry and conda",
        (
            *("depends on numpy", "numpy>", "numpy<", "numpy=", "numpy~", "requires numpy"),
            *("would require", "and numpy", "numpy and"),
        ),
        ((Cause.NUMPY_INCOMPATIBLE, 0.88),),
        f"{_UV}; {_PIP}; {_POETRY}; libmamba, satisfiability_error.cpp",
        pattern=(
            r"\bcupy[\w-]{0,40}(?:\[[\w,-]{1,40}\])?(?: ?\(?[<>=~!^]{0,2}\d[^\s()]{0,60}\)?)? depends on numpy ?\(?[<>=~!]\S+ and .{0,120}\bnumpy ?\(?[<>=~!]"
            r"|\bnumpy ?\(?[<>=~!].{0,160}\bcupy[\w-]{0,40}(?:\[[\w,-]{1,40}\])?(?: ?\(?[<>=~!^]{0,2}\d[^\s()]{0,60}\)?)? depends on numpy ?\(?[<>=~!]"
            r"|package [`']?cupy[\w-]*[`']? requires [`']?numpy\S*, but [`']?\S+ is installed"
            r"|cupy\S* \S+ requires numpy\S*, which is not installed"
            r"|package cupy-\S+ requires numpy [^,]*(?:,[^ ][^,]*)*, but none of the providers"
            r"|cupy[\w-]* \S+ would require\W+numpy [^|]{1,60} which conflicts"
            r"|Cannot install (?=.*\bcupy)(?=.*\bnumpy\b).* because these package versions have conflicting"
        ),
        title="CuPy and something else there want different versions of NumPy",
    ),
    Signature(
        "resolver.cuda-packages",
        "uv, pip and Poetry",
        (
            *("have conflicting dependencies", "depends on nvidia-", "depends on cuda-", "is installed"),
            "requirement nvidia-",
        ),
        ((Cause.TORCH_CUPY_CONFLICT, 0.88),),
        f"{_UV}; {_PIP}; {_POETRY}",
        pattern=(
            rf"(?<!tag )(?<!wheels )\b{_FRAMEWORK}(?:\[[\w,-]+\])? ?\(?[\w.+*,<>=~!^]+\)? depends on {_CUDA}(?!.*no (?:usable )?wheels)"
            rf"|\b{_FRAMEWORK} \S+ has requirement {_CUDA}\S*, but you have"
            rf"|package [`']?{_FRAMEWORK}[`']? requires [`']?{_CUDA}.*, but [`']?\S+ is installed"
            rf"|Cannot install (?=.*\b{_FRAMEWORK}\b)(?=.*\b(?:{_CUDA}|cupy\b)).* and .* because these package versions have conflicting"
        ),
        title="Packages there pin different versions of CUDA's libraries",
    ),
    Signature(
        "resolver.no-usable-wheels",
        "uv",
        ("no usable wheels", "not compatible with the current platform"),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.5), (Cause.PYTHON_UNSUPPORTED, 0.3), (Cause.CUPY_SDIST_BUILD_FAILURE, 0.1)),
        _UV,
        pattern=(
            r"\bcupy\S* ha(?:s|ve) no usable wheels|has no usable wheels and cupy\S* depends on"
            r"|cupy\S*\.whl is not compatible with the current platform"
        ),
        title="No wheel there fits this Python and platform, and building from source is switched off",
        modifiers=(
            Modifier("python-outside", Cause.PYTHON_UNSUPPORTED, 10),
            Modifier("python-inside", Cause.PYTHON_UNSUPPORTED, 0.3),
            Modifier("jetson", Cause.JETSON_TEGRA, 5),
        ),
        decisive_fact="the Python, the architecture and the C library: --assume python=, --assume arch=, --assume libc=",
    ),
    Signature(
        "resolver.no-such-version",
        "uv and Poetry",
        (
            *("which doesn't match any versions", "is available and you require", "there is no version of cupy"),
            "matching version of package",
        ),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.5), (Cause.PYTHON_UNSUPPORTED, 0.35)),
        f"{_UV}; {_POETRY}",
        pattern=(
            r"cupy[\w-]* \([^()]*\) which doesn't match any versions|only cupy\S* (?:is|are) available and you require cupy"
            r"|there is no version of cupy|find a matching version of package cupy"
        ),
        title="No release of this line matches the request",
        decisive_fact="the releases of that line: gpuenv matrix show --full",
    ),
    Signature(
        "resolver.extra-unknown",
        "pip and uv",
        ("does not provide the extra", "does not have an extra named"),
        ((Cause.CUDA_LIBRARY_MISSING, 0.6), (Cause.CUDA_HEADERS_MISSING, 0.25)),
        "pip 26, resolution/resolvelib/candidates.py; uv, uv-resolver, resolution",
        pattern=r"cupy\S* \S* ?(?:does not provide the extra|does not have an extra named) [`'](?:ctk|all)|cupy\S*` does not have an extra named",
        title="This CuPy has no such extra, so CUDA's libraries do not come with it",
        level=Level.WARNING,
    ),
    Signature(
        "resolver.name",
        "uv",
        ("was not found in the package registry", "was not found in the cache"),
        ((Cause.UNTRUSTED_PACKAGE_NAME, 0.75), (Cause.PLATFORM_WHEEL_MISSING, 0.1)),
        f"{_UV}; matrix.yaml, wheel lines",
        pattern=r"\b(?P<name>cupy[-_](?:gpu|nvidia|cuda|cu\d+|cuda[-_]?\d[\w.-]*)) was not found in the (?:package registry|cache)",
        title="{name} is not a distribution of CuPy's own",
    ),
    Signature(
        "installed.remains",
        "pip",
        ("ignoring invalid distribution", "is invalid", "no metadata found in"),
        ((Cause.CORRUPT_INSTALLATION, 0.88),),
        "pip 20.3 to 26, metadata/base.py and pkg_resources.py; operations/install/wheel.py",
        pattern=(
            r"Ignoring invalid distribution [~-](?:upy|vidia)[\w-]*|Wheel '(?:cupy|nvidia)[\w-]*' located at .* is invalid"
            r"|No metadata found in \S*(?:cupy|nvidia)_\w+-\S+"
        ),
        title="An install or removal of CuPy or of CUDA's packages was left half done",
    ),
)
