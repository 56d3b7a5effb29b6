"""Environments of public reports that no machine profile can simulate: conda, Windows and installed libraries.

Facts that a report omits are healthy; the cause is the one that its thread settled on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuenv.model.reading import known, missing
from gpuenv.model.snapshot import Library, Snapshot, Source, SourceState, Toolkit
from gpuenv.model.versions import CudaVersion
from tests.doctor.test_user_machines import SITE, conda, unchanged

Change = Callable[[Snapshot], Snapshot]
LINUX, WINDOWS = ("os=linux", "arch=x86_64", "libc=glibc-2.35"), ("os=windows", "arch=x86_64")
NAMES = ("nvrtc", "cublas", "cufft", "curand", "cusolver", "cusparse")
RELEASES = {
    11: ("11.2", "11", "10", "10", "11", "11"),
    12: ("12", "12", "11", "10", "11", "12"),
    13: ("13", "13", "12", "10", "12", "12"),
}
NOWHERE = "cannot open shared object file: No such file or directory"
CONDA_LIB = "/opt/conda/envs/a/lib"


@dataclass(frozen=True, slots=True)
class Reported:
    """An environment from a public report.

    Attributes:
        cause: the root cause on which its thread settled.
        facts: what is known of it.
        fix_text: words of the first fix.
        change: further facts.
        error: whether the cause is the primary finding; otherwise it is a warning.
    """

    cause: str
    facts: tuple[str, ...]
    fix_text: str
    change: Change = unchanged
    error: bool = True


def changed(*changes: Change) -> Change:
    def change_all(snapshot: Snapshot) -> Snapshot:
        for change in changes:
            snapshot = change(snapshot)
        return snapshot

    return change_all


def libraries(
    major: int,
    *further: Library,
    release: str | None = None,
    at: str = SITE,
    errors: Mapping[str, str] | None = None,
    gone: bool = False,
) -> Change:
    """The CUDA libraries of a major; those with an error, or all if `gone`, are missing."""
    messages = errors or {}

    def one(name: str, number: str) -> Library:
        soname = f"lib{name}.so.{number}"
        if gone or name in messages:
            return Library(name, soname, error=messages.get(name, f"{soname}: {NOWHERE}"))
        return Library(name, soname, f"{at}/{soname}", "loader", release=release if name == "nvrtc" else None)

    probed = tuple(one(*entry) for entry in zip(NAMES, RELEASES[major], strict=True))
    source = Source("libraries", SourceState.ANSWERED)
    return lambda snapshot: snapshot._replace(
        target=snapshot.target._replace(libraries=(*probed, *further)), sources=(*snapshot.sources, source)
    )


def toolkit(release: str, path: str) -> Change:
    kit = Toolkit(path, "/usr/local/cuda", known(CudaVersion.parse(release), "x"), has_nvrtc=True, has_headers=True)
    return lambda snapshot: snapshot._replace(toolkits=(*snapshot.toolkits, kit))


def headers(*folders: str, cuda: str | None = None) -> Change:
    release = known(CudaVersion.parse(cuda), "x") if cuda else Snapshot().target.headers_cuda
    return lambda snapshot: snapshot._replace(
        target=snapshot.target._replace(headers=known(folders, "x"), headers_cuda=release)
    )


def unloadable(expected: str) -> Change:
    """CuPy's extension module fails to load with this message."""
    return lambda snapshot: snapshot._replace(target=snapshot.target._replace(extension=missing(expected)))


def on(system: tuple[str, ...], *options: str) -> tuple[str, ...]:
    return (*system, *options)


BUILTINS_12 = Library("nvrtc-builtins", "nvrtc-builtins64_129.dll", error="failed to open nvrtc-builtins64_129.dll")
OTHER_BUILTINS = Library("nvrtc-builtins", "libnvrtc-builtins.so.11.8", "/usr/local/cuda/lib64/x", "dependency")
NO_BUILTINS = Library("nvrtc-builtins", "libnvrtc-builtins.so.11.6", error="failed to open libnvrtc-builtins.so.11.6")
NO_RUNTIME = Library("cudart", "libcudart.so.13", error=f"libcudart.so.13: {NOWHERE}")


def linker(symbol: str, folder: str) -> Change:
    """cuSPARSE from a wheel loads an older nvJitLink from a toolkit."""
    result = f"{SITE}/nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: {symbol}, version libnvJitLink.so.12"
    older = Library("nvJitLink", "libnvJitLink.so.12", f"{folder}/libnvJitLink.so.12", "dependency")
    return libraries(12, older, release="12.4", errors={"cusparse": result})


WRONG, LACKING, OLD_DRIVER = "wrong-cupy-wheel-for-cuda-major", "cuda-library-missing", "driver-too-old-for-cuda"
CONFLICT, BUILTINS = "library-path-conflict", "nvrtc-builtins-mismatch"
A6000 = on(LINUX, "driver=550.163.01", "gpu=RTX A6000", "python=3.12", "numpy=2.1.0", "cupy=cupy-cuda12x==14.1.0")
OF_PYTHON_37 = on(LINUX, "driver=440.33.01", "gpu=V100", "python=3.7", "numpy=1.19.5", "cupy=none")
REPORTED = {
    "NVIDIA/cuda-quantum#5111": Reported(
        "cuda-headers-missing",
        on(LINUX, "driver=550.163.01", "gpu=A100", "python=3.11", "numpy=2.1.0", "cupy=cupy-cuda12x==13.6.0"),
        "nvidia-cuda-runtime-cu12==12.6.*",
        changed(libraries(12, release="12.6"), headers("/usr/local/cuda/include")),
    ),
    "cupy/cupy#9755": Reported(
        "cuda-path-wrong",
        on(LINUX, "driver=550.163.01", "gpu=A100", "python=3.12", "numpy=2.1.0", "cupy=cupy-cuda12x==14.0.1"),
        "CUDA_PATH=/usr/local/cuda-12.6",
        changed(libraries(12, release="12.6"), headers(), toolkit("12.6", "/usr/local/cuda-12.6")),
    ),
    "conda/conda#10480": Reported(
        OLD_DRIVER,
        on(LINUX, "driver=440.33.01", "gpu=V100", "python=3.9", "numpy=1.21.0", "cupy=none"),
        "cudatoolkit=10.2",
        conda(cupy="9.6.0", cudatoolkit="11.1.1", numpy="1.21.0"),
    ),
    "cupy/cupy#5179": Reported(
        OLD_DRIVER,
        on(WINDOWS, "driver=451.48", "gpu=RTX 2080", "python=3.8", "numpy=1.19.5", "cupy=none"),
        "cudatoolkit=11.0",
        conda(cupy="9.0.0", cudatoolkit="11.2.2", numpy="1.19.5"),
    ),
    "NVIDIA/cutile-python#57": Reported(
        LACKING,
        on(WINDOWS, "driver=591.44", "gpu=RTX 5090", "python=3.12", "numpy=2.2.0", "cupy=cupy-cuda13x==13.6.0"),
        "cupy-cuda13x[ctk]==14",
        libraries(13, gone=True),
    ),
    "kijai/ComfyUI-GIMM-VFI#17": Reported(
        LACKING,
        on(WINDOWS, "driver=566.36", "gpu=RTX 4070", "python=3.11", "numpy=1.26.4", "cupy=cupy-cuda12x==13.3.0"),
        "toolkit",
        libraries(12, gone=True),
    ),
    "cupy/cupy#9547": Reported(
        LACKING,
        on(LINUX, "driver-cuda=13.0", "gpu=A100", "python=3.12", "numpy=2.4.0", "cupy=cupy-cuda13x==14.0.0rc1"),
        "cupy-cuda13x[ctk]==14.",
        libraries(13, NO_RUNTIME, release="13.1"),
    ),
    "NVIDIA/cuda-python#821": Reported(
        BUILTINS,
        on(WINDOWS, "driver=576.52", "gpu=RTX 4070", "python=3.12", "numpy=2.2.0", "cupy=cupy-cuda12x==13.4.1"),
        "NVRTC and its builtins",
        libraries(12, BUILTINS_12, release="12.9"),
    ),
    "cupy/cupy#7560": Reported(
        BUILTINS,
        on(LINUX, "driver=525.85.12", "gpu=V100", "python=3.10", "numpy=1.23.5", "cupy=cupy-cuda11x==11.6.0"),
        "one CUDA toolkit",
        libraries(11, OTHER_BUILTINS, release="11.6", at=CONDA_LIB),
    ),
    "lfranke/TRIPS#13": Reported(
        BUILTINS,
        on(LINUX, "driver=535.104.05", "gpu=RTX 3090", "python=3.10", "numpy=1.23.5", "cupy=cupy-cuda11x==11.6.0"),
        "NVRTC and its builtins",
        libraries(11, NO_BUILTINS, release="11.6", at=CONDA_LIB),
    ),
    "infiniflow/ragflow#4466": Reported(
        CONFLICT,
        (*A6000, "package.torch=2.5.1", "env.LD_LIBRARY_PATH=/usr/local/cuda-12.1/lib64:"),
        "LD_LIBRARY_PATH",
        linker("__nvJitLinkAddData_12_1", "/usr/local/cuda-12.1/lib64"),
    ),
    "pytorch/pytorch#134929": Reported(
        CONFLICT,
        (*A6000, "package.torch=2.4.0"),
        "LD_LIBRARY_PATH",
        linker("__nvJitLinkComplete_12_4", "/opt/conda/lib"),
    ),
    "pytorch/pytorch#144244": Reported(
        CONFLICT,
        (*A6000, "package.torch=2.5.1"),
        "LD_LIBRARY_PATH",
        linker("__nvJitLinkComplete_12_4", "/usr/local/cuda-12.2/lib64"),
    ),
    "cupy/cupy#9962": Reported(
        CONFLICT,
        on(LINUX, "driver=575.57.08", "gpu=H100", "python=3.13", "numpy=2.4.6", "cupy=none"),
        "Activate",
        changed(
            conda(cupy="14.1.0", cuda_version="12.9", cuda_cudart_dev="12.9.79", numpy="2.4.6"),
            libraries(12, release="12.9", at=CONDA_LIB),
            headers("/usr/local/cuda/include", cuda="12.4"),
        ),
        error=False,
    ),
    "Comfy-Org/ComfyUI#999": Reported(
        "libstdcxx-mismatch",
        on(LINUX, "driver=535.104.05", "gpu=A100", "python=3.9", "numpy=1.24.4", "cupy=none"),
        "libstdc++",
        changed(
            conda(cupy="12.2.0", cuda_version="11.8", numpy="1.24.4"),
            libraries(11, release="11.8", at=CONDA_LIB),
            unloadable("/usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.26' not found (required by core.so)"),
        ),
    ),
    "AnacondaRecipes/aggregate#126": Reported(
        WRONG,
        OF_PYTHON_37,
        "cudatoolkit=9.0",
        changed(conda(cupy="7.8.0", cudatoolkit="9.2", numpy="1.19.5"), unloadable(f"libcudart.so.9.0: {NOWHERE}")),
    ),
    "cupy/cupy#2110": Reported(
        WRONG,
        OF_PYTHON_37,
        "cudatoolkit=9.0",
        changed(conda(cupy="6.0.0", cudatoolkit="9.2", numpy="1.19.5"), unloadable(f"libcudart.so.9.0: {NOWHERE}")),
    ),
}
