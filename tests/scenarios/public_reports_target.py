"""Machines of public reports: the environment that CuPy lives in."""

from __future__ import annotations

from gpuenv.simulate.profile import ContainerEngine
from tests.scenarios.driver_states import NUMPY, NUMPY_1
from tests.scenarios.public_reports import (
    H100,
    H200,
    L4,
    LINE_12,
    T4,
    V100,
    card,
    case,
    cuda_path_of,
    directory_of_another_user,
    driver_release,
    gpu_copies,
    missing_modules,
)
from tests.scenarios.scenario import combine, files, host, target
from tests.scenarios.target_setups import conda_package, cupy_requirements

TARGET = (
    case(
        "explosion/spaCy#5778",
        "cupy-not-installed",
        V100,
        combine(gpu_copies(4), target("spacy==2.3.2", NUMPY_1, toolkit="12.4")),
        fix_text="cupy-cuda12x",
    ),
    case(
        "cupy/cupy#7907",
        "corrupt-installation",
        L4,
        target("cupy-cuda12x==12.2.0", NUMPY_1, toolkit="12.4"),
        missing_modules("cupy/__init__.py", "cupy/cuda/__init__.py", "cupy/_core/__init__.py"),
        fix_text="--force-reinstall",
    ),
    case(
        "cupy/cupy#1057",
        "cuda-path-wrong",
        V100,
        combine(driver_release("390.46", level=9010), target("cupy-cuda91==4.0.0", "numpy==1.14.2", toolkit=None)),
        cuda_path_of("8.0"),
        error=False,
        python="3.6",
        fix_text="CUDA_PATH",
    ),
    case(
        "NVIDIA/cudf#3905",
        "mixed-pip-conda",
        T4,
        target("cupy-cuda100==7.1.1", "numpy==1.17.5", toolkit=None),
        conda_package("cupy-6.0.0-py36h_0", "cudatoolkit-10.0.130-0"),
        python="3.6",
        fix_text="uninstall",
    ),
    case(
        "gpustack/gpustack#5459",
        "multiple-cupy-packages",
        H200,
        combine(host(container=ContainerEngine.DOCKER), target(LINE_12, "cupy-cuda13x==14.2.0", NUMPY, toolkit="13.0")),
        fix_text="uninstall",
    ),
    case(
        "cupy/cupy#2296",
        "kernel-cache-unwritable",
        V100,
        setup=directory_of_another_user("home-of-all", 0o555, "HOME"),
        unprivileged=True,
        needs_root=True,
        fix_text="CUPY_CACHE_DIR",
    ),
    case(
        "NVIDIA/accelerated-computing-hub#263",
        "kernel-cache-unwritable",
        L4,
        host(container=ContainerEngine.DOCKER),
        directory_of_another_user("tmp/cupy_cache", 0o755, "CUPY_CACHE_DIR", "72f86c41.cubin"),
        unprivileged=True,
        needs_root=True,
        fix_text="CUPY_CACHE_DIR",
    ),
    case(
        "ANR-COMPASS/shesha#61",
        "numpy-incompatible",
        L4,
        target("cupy-cuda112==9.6.0", "numpy==1.24.4", toolkit="11.8"),
        cupy_requirements("numpy (<1.24,>=1.17)"),
        python="3.8",
        fix_text="the CuPy that fits this NumPy",
    ),
    case(
        "lllyasviel/Fooocus#4167",
        "numpy-incompatible",
        "colab-t4",
        target("cupy-cuda12x==14.0.1", "numpy==1.26.4", toolkit="12.4"),
        fix_text="numpy",
    ),
    case(
        "cupy/cupy#8589",
        "rocm-mismatch",
        "amd-mi210-rocm",
        combine(
            target("cupy-rocm-5-0==12.3.0", NUMPY_1, toolkit=None), files(**{"opt__rocm__.info__version": "6.0.0-91\n"})
        ),
        python="3.9",
        fix_text="ROCm",
    ),
    case(
        "cupy/cupy#7358",
        "rocm-mismatch",
        "amd-mi210-rocm",
        combine(
            target("cupy-rocm-5-0==11.3.0", NUMPY_1, toolkit=None), files(**{"opt__rocm__.info__version": "5.1.0-36\n"})
        ),
        python="3.8",
        fix_text="ROCm",
    ),
    case(
        "cupy/cupy#9318",
        "wrong-cupy-wheel-for-cuda-major",
        "gtx1080ti-580",
        combine(
            host(container=ContainerEngine.DOCKER),
            driver_release("580.95.05", level=13000),
            card("NVIDIA GeForce RTX 4090", "8.9", "2684"),
            target("cupy-cuda13x==13.6.0", NUMPY_1, toolkit="12.2"),
        ),
        python="3.10",
        fix_text="cupy-cuda1",
    ),
    case(
        "KiseKloset/DM-VTON#17",
        "wrong-cupy-wheel-for-cuda-major",
        "colab-t4",
        target("cupy-cuda11x==11.0.0", "numpy==1.23.5", toolkit="12.4"),
        python="3.10",
        fix_text="cupy-cuda1",
    ),
    case(
        "SYSTRAN/faster-whisper#1278",
        "driver-too-old-for-cuda",
        H100,
        combine(
            host(container=ContainerEngine.DOCKER),
            driver_release("535.183.01", level=12020),
            card("NVIDIA GeForce RTX 3050", "8.6", "2507"),
            target("cupy-cuda13x==14.2.0", NUMPY, toolkit="13.0"),
        ),
        fix_text="cupy-cuda12x",
    ),
    case(
        "cupy/cupy#9252",
        "driver-too-old-for-cuda",
        V100,
        combine(driver_release("440.33.01", level=10020), target("cupy-cuda11x==13.6.0", NUMPY_1, toolkit="11.8")),
        fix_text="driver",
    ),
)
