"""Messages of package managers and setup scripts about a release that does not fit this Python or platform."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Modifier, Signature
from gpuenv.explain.signatures.package_managers import PLATFORM
from gpuenv.model.causes import Cause

# What is made for NVIDIA's GPUs, or as a rule needed beside it: none of these names has another meaning.
_GPU_PACKAGE = (
    r"(?:cupy[\w-]{0,20}|torch(?:vision|audio)?|tensorflow(?:-gpu)?|tensorrt[\w-]{0,20}|jaxlib|jax|jax-cuda\d\d-\w+|onnxruntime(?:-gpu)?"
    r"|vllm|xformers|triton|flash-attn|numba(?:-cuda)?|llvmlite|chainer|mxnet[\w-]{0,8}|paddlepaddle-gpu|bitsandbytes|spacy|thinc"
    r"|(?:rapids-)?(?:cudf|cuml|cugraph|cuspatial|cucim|rmm|pylibraft|dask-cuda|raft-dask)[\w-]{0,8}|nvidia-[\w-]{2,40}|cuda-(?:python|bindings|core|toolkit))"
)

SIGNATURES = (
    Signature(
        "setup.python-guard",
        "setup scripts of numba, llvmlite and others",
        ("cannot install on python version",),
        ((Cause.PYTHON_UNSUPPORTED, 0.92),),
        "numba and llvmlite, setup.py: _guard_py_ver",
        pattern=r"Cannot install on Python version [\d.]+\w*; only versions",
        title="A package there is not made for this Python",
    ),
    Signature(
        "resolver.other-python",
        "pip, uv, Poetry, PDM, conda",
        (
            *("requires a different python", "which requires python", "needs python", "would require"),
            *("requires-python '", "-> python[version", "requires python ", "requires python>"),
            "depends on python",
        ),
        ((Cause.PYTHON_UNSUPPORTED, 0.88),),
        "pip, resolution/resolvelib/candidates.py; poetry, mixology/failure.py; conda and libmamba: problems of a solve",
        pattern=(
            rf"\b{_GPU_PACKAGE}['`\"]?(?: ?[(=<>~!]{{0,3}}[\d.*]+\w*\)?)?['`\"]? (?:\(?from .{{0,80}}\)? )?(?:requires a different Python|which requires Python ?[<>=~!]|depends on Python ?[<>=~!]|(?:needs|requires) Python ?[<>=~!].{{0,60}}(?:solving failed|your project|not satisfied|unsatisfiable|\bbut\b))"
            rf"|\bvLLM\b.{{0,6}}requires a different Python|\b{_GPU_PACKAGE}[ =][\d.*]*\d?\S* would require\W+python(?:_abi)? |Requires-Python '[^']{{1,40}}' not satisfied by"
            rf"|\b{_GPU_PACKAGE}=\S+ -> python\[version"
        ),
        title="A package there is not made for this Python",
        unless=r"\bSuccessfully installed\b",
    ),
    Signature(
        "resolver.other-platform",
        "uv, Poetry, PDM",
        ("matching platform tag", "installation candidates for", "candidatenotfound", "on the following platform"),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.85), (Cause.PYTHON_UNSUPPORTED, 0.08)),
        "uv-resolver, pubgrub/report.rs; poetry, installation/chooser.py; pdm, exceptions.py",
        pattern=(
            rf"\b{_GPU_PACKAGE}(?:[=<>~!]\S+)? ha(?:s|ve) no wheels with a matching platform tag"
            rf"|Unable to find installation candidates for {_GPU_PACKAGE}|CandidateNotFound.{{0,40}}\b{_GPU_PACKAGE}"
            rf"|[Ww]heels are available for [`']?{_GPU_PACKAGE}[`']?.{{0,40}} on the following platform"
        ),
        title="A package there has no wheel for this platform",
        modifiers=(Modifier("jetson", Cause.JETSON_TEGRA, 5),),
    ),
    Signature(
        "pip.no-match-any",
        "pip",
        ("from versions: none",),
        ((Cause.PYTHON_UNSUPPORTED, 0.5), (Cause.PLATFORM_WHEEL_MISSING, 0.3)),
        "pip, resolution/resolvelib/factory.py: of a name that the index has, no file fits",
        pattern=r"satisfies the requirement (?:onnxruntime|vllm|flash-attn|numba|llvmlite|chainer|bitsandbytes|thinc|spacy|cucim[\w-]{0,8}|cuda-(?:python|bindings|core))(?![\w-]).{0,40}\(from versions: none\)",
        title="The index has that package, and no file of it for this Python and platform",
        modifiers=PLATFORM,
        decisive_fact="the Python, the architecture and the C library: --assume python=, --assume arch=, --assume libc=",
    ),
    Signature(
        "conda.not-there",
        "conda",
        ("resolvepackagenotfound",),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.66), (Cause.PYTHON_UNSUPPORTED, 0.1)),
        "conda, exceptions.py: ResolvePackageNotFound, of a file of packages that was made on another platform",
        pattern=r"ResolvePackageNotFound:?(?=.{0,300}\b(?:cuda|cudatoolkit|cudnn|nccl|cupy|cutensor))",
        title="The channels have no such package for this platform",
    ),
    Signature(
        "musl.loader-gone",
        "ld.so of musl and of other architectures, qemu",
        ("ld-linux-",),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.62), (Cause.IMAGE_REQUIRES_OTHER_DRIVER, 0.2)),
        "musl, ldso/dynlink.c; qemu-user, linux-user/elfload.c; ld.so: the loader of another architecture or of glibc",
        pattern=r"ld-linux-[\w-]+\.so\.\d: (?:No such file|cannot open)|(?:cannot open shared object(?: file)?|loading shared library):? ld-linux-|['\"]\S*ld-linux-[\w-]+\.so\.\d['\"]: No such file",
        title="The files are made for another C library or architecture",
        requires=("cupy", "cuda", "container", "aarch64", "musl"),
        modifiers=(
            Modifier("foreign-container", Cause.IMAGE_REQUIRES_OTHER_DRIVER, 12),
            Modifier("foreign-container", Cause.PLATFORM_WHEEL_MISSING, 0.3),
        ),
        decisive_fact="the machine's architecture (uname -m) and C library",
    ),
    Signature(
        "image.other-architecture",
        "Docker, containerd, Podman, Apptainer",
        ("exec format error", "does not match the detected host platform", "no manifest for arch", "qemu-x86_64"),
        ((Cause.IMAGE_REQUIRES_OTHER_DRIVER, 0.72), (Cause.DOCKERFILE_FAULT, 0.08)),
        "runc and tini: exec of a file of another architecture; moby, builder: platform of the image",
        pattern=(
            r"\bexec (?:user process caused[: ]{1,3}\"?|/\S{1,80}: )exec format error|requested image's platform \([\w/]+\) does not match"
            r"|No manifest for arch|\bqemu-(?:x86_64|aarch64)\S*: Could not open '"
        ),
        title="The image is made for another architecture",
        requires=("container", "kubernetes", "cuda", "gpu", "nvidia-card", "jetson", "aarch64"),
        evidence="foreign-container",
        decisive_fact="the image's architecture (docker image inspect) and the machine's (uname -m)",
    ),
)
