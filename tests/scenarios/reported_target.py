"""Machines of public reports: the environment that CuPy lives in."""

from __future__ import annotations

from gpuenv.simulate.profile import ContainerEngine
from tests.scenarios.ground import both, files, host, target
from tests.scenarios.reported import (
    H100,
    H200,
    L4,
    LINE_12,
    T4,
    V100,
    card,
    case,
    cuda_path_of,
    files_gone,
    folder_of_another,
    many,
    on,
)
from tests.scenarios.spoiling import conda_package, requiring
from tests.scenarios.states import NUMPY, NUMPY_1

TARGET = (
    case(
        "explosion/spaCy#5778",
        "cupy-not-installed",
        V100,
        both(many(4), target("spacy==2.3.2", NUMPY_1, toolkit="12.4")),
        cure="cupy-cuda12x",
    ),
    case(
        "cupy/cupy#7907",
        "corrupt-installation",
        L4,
        target("cupy-cuda12x==12.2.0", NUMPY_1, toolkit="12.4"),
        files_gone("cupy/__init__.py", "cupy/cuda/__init__.py", "cupy/_core/__init__.py"),
        cure="--force-reinstall",
    ),
    case(
        "cupy/cupy#1057",
        "cuda-path-wrong",
        V100,
        both(on("390.46", level=9010), target("cupy-cuda91==4.0.0", "numpy==1.14.2", toolkit=None)),
        cuda_path_of("8.0"),
        error=False,
        python="3.6",
        cure="CUDA_PATH",
    ),
    case(
        "NVIDIA/cudf#3905",
        "mixed-pip-conda",
        T4,
        target("cupy-cuda100==7.1.1", "numpy==1.17.5", toolkit=None),
        conda_package("cupy-6.0.0-py36h_0", "cudatoolkit-10.0.130-0"),
        python="3.6",
        cure="uninstall",
    ),
    case(
        "gpustack/gpustack#5459",
        "multiple-cupy-packages",
        H200,
        both(host(container=ContainerEngine.DOCKER), target(LINE_12, "cupy-cuda13x==14.2.0", NUMPY, toolkit="13.0")),
        cure="uninstall",
    ),
    case(
        "cupy/cupy#2296",
        "kernel-cache-unwritable",
        V100,
        spoil=folder_of_another("home-of-all", 0o555, "HOME"),
        without_rights=True,
        root=True,
        cure="CUPY_CACHE_DIR",
    ),
    case(
        "NVIDIA/accelerated-computing-hub#263",
        "kernel-cache-unwritable",
        L4,
        host(container=ContainerEngine.DOCKER),
        folder_of_another("tmp/cupy_cache", 0o755, "CUPY_CACHE_DIR", "72f86c41.cubin"),
        without_rights=True,
        root=True,
        cure="CUPY_CACHE_DIR",
    ),
    case(
        "ANR-COMPASS/shesha#61",
        "numpy-incompatible",
        L4,
        target("cupy-cuda112==9.6.0", "numpy==1.24.4", toolkit="11.8"),
        requiring("numpy (<1.24,>=1.17)"),
        python="3.8",
        cure="numpy<1.24",
    ),
    case(
        "lllyasviel/Fooocus#4167",
        "numpy-incompatible",
        "colab-t4",
        target("cupy-cuda12x==14.0.1", "numpy==1.26.4", toolkit="12.4"),
        cure="numpy",
    ),
    case(
        "cupy/cupy#8589",
        "rocm-mismatch",
        "amd-mi210-rocm",
        both(
            target("cupy-rocm-5-0==12.3.0", NUMPY_1, toolkit=None), files(**{"opt__rocm__.info__version": "6.0.0-91\n"})
        ),
        python="3.9",
        cure="ROCm",
    ),
    case(
        "cupy/cupy#7358",
        "rocm-mismatch",
        "amd-mi210-rocm",
        both(
            target("cupy-rocm-5-0==11.3.0", NUMPY_1, toolkit=None), files(**{"opt__rocm__.info__version": "5.1.0-36\n"})
        ),
        python="3.8",
        cure="ROCm",
    ),
    case(
        "cupy/cupy#9318",
        "wrong-cupy-wheel-for-cuda-major",
        "gtx1080ti-580",
        both(
            host(container=ContainerEngine.DOCKER),
            on("580.95.05", level=13000),
            card("NVIDIA GeForce RTX 4090", "8.9", "2684"),
            target("cupy-cuda13x==13.6.0", NUMPY_1, toolkit="12.2"),
        ),
        python="3.10",
        cure="cupy-cuda1",
    ),
    case(
        "KiseKloset/DM-VTON#17",
        "wrong-cupy-wheel-for-cuda-major",
        "colab-t4",
        target("cupy-cuda11x==11.0.0", "numpy==1.23.5", toolkit="12.4"),
        python="3.10",
        cure="cupy-cuda1",
    ),
    case(
        "SYSTRAN/faster-whisper#1278",
        "driver-too-old-for-cuda",
        H100,
        both(
            host(container=ContainerEngine.DOCKER),
            on("535.183.01", level=12020),
            card("NVIDIA GeForce RTX 3050", "8.6", "2507"),
            target("cupy-cuda13x==14.2.0", NUMPY, toolkit="13.0"),
        ),
        cure="cupy-cuda12x",
    ),
    case(
        "cupy/cupy#9252",
        "driver-too-old-for-cuda",
        V100,
        both(on("440.33.01", level=10020), target("cupy-cuda11x==13.6.0", NUMPY_1, toolkit="11.8")),
        cure="driver",
    ),
)
