"""Messages of conda, mamba, pixi and rattler about CuPy, CUDA and the machine's virtual packages."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.explain.signatures.package_managers import FIT
from gpuenv.model.causes import Cause

_TOOLS = "conda, mamba, pixi"
_CONDA = "conda 4 to 25, exceptions.py"
_SOLVER = "libmamba, satisfiability_error.cpp; libsolv; rattler, resolvo's conflicts"


def _uninstallable_weights(values: Mapping[str, str]) -> Weights:
    """No package of conda's bears the name of a wheel line: its record is gone for another reason."""
    if "wheel" in values:
        return ((Cause.CORRUPT_INSTALLATION, 0.5), (Cause.MIXED_PIP_CONDA, 0.4))
    return ((Cause.MIXED_PIP_CONDA, 0.8),)


SIGNATURES = (
    Signature(
        "conda.cpu-build",
        _TOOLS,
        ("pytorch", "torchvision", "jaxlib", "tensorflow", "xgboost", "lightgbm", "faiss", "mxnet"),
        ((Cause.CPU_ONLY_FRAMEWORK, 0.9),),
        "the build strings of the packages of pytorch, conda-forge and defaults",
        pattern=(
            r"\b(?:pytorch|torchvision|jaxlib|tensorflow(?:-base)?|(?:lib|py-)?xgboost|lightgbm|(?:lib)?faiss|(?:lib)?mxnet)[= ]{1,30}\d[\w.]{0,20}[= ]{1,30}"
            r"(?:\w{0,30}?(?:_|\b)cpu(?:_\w{1,30})?|(?:mkl|eigen)_py\w{1,30})\b"
        ),
        title="conda installed the framework's build without CUDA",
        requires=("cuda",),
    ),
    Signature(
        "conda.no-cuda",
        _TOOLS,
        ("__cuda",),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.5), (Cause.NO_DRIVER, 0.42)),
        f"{_CONDA}: UnsatisfiableError; {_SOLVER}",
        pattern=(
            r"__cuda\b.{0,80}(?:missing on the system|nothing provides|not installed|which requires|for which no candidates)"
            r"|nothing provides (?:requested )?__cuda|feature:\S*__cuda"
        ),
        title="conda finds no driver that is new enough (the virtual package __cuda)",
        modifiers=(
            Modifier("driver-none", Cause.NO_DRIVER, 10),
            Modifier("gpu-none", Cause.NO_DRIVER, 6),
            Modifier("driver-older", Cause.DRIVER_TOO_OLD_FOR_CUDA, 8),
            Modifier("cuda-missing-on-system", Cause.NO_DRIVER, 2.5),
        ),
        decisive_fact="what conda info shows for __cuda",
    ),
    Signature(
        "conda.old-cuda",
        _TOOLS,
        ("__cuda",),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.9),),
        f"{_CONDA}: UnsatisfiableError; {_SOLVER}",
        pattern=(
            r"has constraint __cuda\b.{0,40}conflicting with __cuda-|would constrain\W+__cuda\b"
            r"|__cuda [^,]{0,30}, which conflicts with any installable|-> __cuda\[version=.{0,40}\] (?!.*not available).*installed version is: \d"
            r"|^- \S+ -> __cuda\[version="
        ),
        title="A package wants a newer driver than conda sees (the virtual package __cuda)",
    ),
    Signature(
        "conda.not-found",
        _TOOLS,
        ("cupy",),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.6), (Cause.PYTHON_UNSUPPORTED, 0.15), (Cause.UNTRUSTED_PACKAGE_NAME, 0.1)),
        f"{_CONDA}: PackagesNotFoundError; {_SOLVER}",
        pattern=(
            r"(?:nothing provides|package|The following packages? (?:is|are) not available).{0,40}\bcupy\b.{0,60}(?:does not exist|not available|no candidates|nothing provides)"
            r"|nothing provides (?:requested )?cupy\b|- cupy\S*.*(?:does not exist|is not installable|can't be installed)|(?:not available from current channels|ResolvePackageNotFound):? +- (?:\S+::)?cupy"
            r"|\bcupy\S* was not found in the (?:package registry|provided package locations)|there (?:is|are) no versions? of cupy|No candidates were found for cupy"
            r"|cupy\S* is excluded by strict (?:repo|channel) priority"
        ),
        modifiers=FIT,
        decisive_fact="the platform and the Python of the environment",
    ),
    Signature(
        "conda.packages-not-found",
        _TOOLS,
        (
            *("packagesnotfounderror", "resolvepackagenotfound", "not available from current channels"),
            "missing from the target environment",
        ),
        (),
        f"{_CONDA}: PackagesNotFoundError; the packages follow in a list",
        level=Level.EVIDENCE,
        evidence="conda-not-found",
    ),
    Signature(
        "conda.listed",
        _TOOLS,
        ("cupy",),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.55), (Cause.UNTRUSTED_PACKAGE_NAME, 0.2), (Cause.PYTHON_UNSUPPORTED, 0.15)),
        f"{_CONDA}: PackagesNotFoundError",
        pattern=r"^- (?:\S+::)?cupy\S*$",
        title="The channels have no such CuPy for this platform",
        requires=("conda-not-found",),
        modifiers=FIT,
        decisive_fact="the platform and the Python of the environment; conda's package is named cupy, without the CUDA version",
    ),
    Signature(
        "conda.listed-framework",
        _TOOLS,
        ("cudatoolkit", "pytorch", "torchvision", "tensorflow", "jaxlib", "cudnn", "nccl", "cuda-"),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.52), (Cause.PYTHON_UNSUPPORTED, 0.2)),
        f"{_CONDA}: PackagesNotFoundError",
        pattern=r"^- (?:\S+::)?(?:cudatoolkit|pytorch(?:-cuda|-gpu)?|torchvision|tensorflow(?:-gpu)?|jaxlib|cudnn|nccl|cuda-[\w-]{1,30})(?:[=<>~! ]\S*)?$",
        title="The channels have no such package for this platform",
        requires=("conda-not-found",),
        modifiers=FIT,
        decisive_fact="the platform and the Python of the environment",
    ),
    Signature(
        "conda.python",
        _TOOLS,
        ("python",),
        ((Cause.PYTHON_UNSUPPORTED, 0.88),),
        _SOLVER,
        pattern=(
            r"\bcupy[\w-]*(?: \S+)? would require\W+python(?:_abi)? [^|]{1,60}(?:which conflicts|which cannot be installed|for which no candidates)"
            r"|package cupy-\S+ requires python(?:_abi)? .*but none of the providers can be installed"
        ),
        title="No build of CuPy in these channels is for this Python",
    ),
    Signature(
        "conda.glibc",
        _TOOLS,
        ("__glibc",),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.85),),
        f"{_CONDA}; {_SOLVER}",
        pattern=(
            r"__glibc.{0,80}(?:missing on the system|nothing provides|conflict|but|your installed version|which requires|for which no candidates)"
            r"|nothing provides __glibc|feature:\S*__glibc==|-> __glibc\[version"
        ),
        title="The C library is older than the packages need",
        requires=("cupy", "cuda"),
    ),
    Signature(
        "conda.corrupt",
        "conda",
        ("appears to be corrupted", "safetyerror", "condaverificationerror"),
        ((Cause.CORRUPT_INSTALLATION, 0.9),),
        f"{_CONDA}: CondaVerificationError; conda/core/path_actions.py: SafetyError",
        pattern=r"The package for (?:cupy|cuda|libcu|cudnn|nccl|cutensor|nvidia|libnv)\S* located at .*appears to be corrupted",
        title="A package in conda's cache is damaged",
    ),
    Signature(
        "conda.pypi-cuda",
        "conda list",
        ("pypi",),
        ((Cause.MIXED_PIP_CONDA, 0.6), (Cause.MULTIPLE_CUPY_PACKAGES, 0.1)),
        "conda list: the channel column",
        pattern=r"^(?:cupy-cuda\S+|nvidia-\S+-cu1\d|cuda-toolkit) +\S+ +pypi_0 +pypi",
        level=Level.WARNING,
        requires=("conda-cuda",),
        title="pip and conda each put a part of CUDA or CuPy into this environment",
    ),
    Signature(
        "conda.mixed-files",
        "conda and pip",
        ("conda", "clobbererror", "uninstall", "distutils installed"),
        ((Cause.MIXED_PIP_CONDA, 0.8),),
        f"{_CONDA}: ClobberWarning; pip, req/req_uninstall.py",
        pattern=(
            r"Clobber(?:Error|Warning).*(?:cupy|cuda|nvidia)|Cannot uninstall '?cupy(?P<wheel>[-_]cuda\S*)?'?|cannot uninstall.*cupy.*(?:no RECORD|distutils|conda)"
            r"|cupy.*(?:installed (?:by|with|from) (?:both )?(?:pip|conda).*(?:and|conda|pip))"
        ),
        weights_fn=_uninstallable_weights,
        modifiers=(Modifier("pip-and-conda", Cause.MIXED_PIP_CONDA, 6),),
    ),
)
