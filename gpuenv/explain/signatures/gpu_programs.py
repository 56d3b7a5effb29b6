"""Messages of programs with their own GPU code: ONNX Runtime, XGBoost, FAISS, OpenMM, llama.cpp, DeepSpeed, ffmpeg."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

_ABSENT = (
    Modifier("hidden", Cause.VISIBLE_DEVICES_HIDE_GPU, 30),
    Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 8),
    Modifier("started-without-gpu", Cause.CONTAINER_WITHOUT_GPU, 12),
    Modifier("host", Cause.CONTAINER_WITHOUT_GPU, 0.05),
    Modifier("wsl", Cause.WSL_LIBCUDA, 12),
    Modifier("driver-none", Cause.NO_DRIVER, 15),
    Modifier("gpu-none", Cause.NO_NVIDIA_GPU, 8),
    Modifier("cpu-torch", Cause.CPU_ONLY_FRAMEWORK, 20),
)

SIGNATURES = (
    Signature(
        "program.cpu-build",
        "ONNX Runtime, MXNet, LightGBM, FAISS, OpenMM, llama.cpp, OpenCV",
        (
            *(
                "this ort build has",
                "use_cuda=1 to enable",
                "tree learner was not enabled",
                "recompile with cmake option",
                "module 'faiss' has no",
            ),
            *(
                "registered platform called",
                "without gpu offload",
                "without gpu support",
                "module 'cv2.cuda'",
                "no cuda support",
            ),
            *("not in available provider names", "'cpuexecutionprovider'"),
        ),
        ((Cause.CPU_ONLY_FRAMEWORK, 0.88),),
        "onnxruntime_inference_collection.py; mxnet, storage.cc; LightGBM, cuda_tree_learner.h; OpenMM, Platform.cpp; llama.cpp",
        pattern=(
            r"This ORT build has \[(?![^\]]*CUDA)[^\]]{1,160}\] enabled|'CUDAExecutionProvider' is not in available provider names(?!.{0,80}Available providers: .{0,60}CUDA)"
            r"|Compile with USE_CUDA=1 to enable GPU usage|[Rr]ecompile with CMake option -DUSE_(?:GPU|CUDA)=1|(?:CUDA|GPU) Tree Learner was not enabled in this build"
            r"|module 'faiss' has no attribute '(?:StandardGpuResources|GpuIndex\w*|index_cpu_to_(?:all_)?gpus?\w*|get_num_gpus|GpuClonerOptions)'"
            r"|no registered Platform called \"?CUDA|compiled without GPU (?:offload )?support"
        ),
        title="The program there is built without CUDA",
        evidence="cpu-torch",
    ),
    Signature(
        "aer.built-without-cuda",
        "Qiskit Aer",
        ('simulation device \\"gpu\\" is', 'simulation device "gpu" is'),
        ((Cause.CPU_ONLY_FRAMEWORK, 0.9),),
        "Qiskit Aer, aer_controller.hpp: set_config, where AER_THRUST_CUDA is not defined",
        pattern=r"Simulation device \\?\"GPU\\?\" is not supported on this system",
        title="The installed Qiskit Aer is built without CUDA: qiskit-aer is installed, and qiskit-aer-gpu is not, or its files were overwritten",
        evidence="cpu-torch",
    ),
    Signature(
        "aer.built-without-custatevec",
        "Qiskit Aer",
        ("does not support custatevec on this system",),
        ((Cause.OPTIONAL_LIBRARY_MISSING, 0.7), (Cause.CPU_ONLY_FRAMEWORK, 0.15)),
        "Qiskit Aer, aer_controller.hpp: set_config, where AER_CUSTATEVEC is not defined",
        title="The Qiskit Aer there is built without cuStateVec",
    ),
    Signature(
        "program.sees-no-gpu",
        "XGBoost, llama.cpp, ollama",
        (
            "must have at least one device",
            "no visible gpu is found",
            "no usable gpu found",
            "no compatible gpus were",
            "no gpu found. a",
        ),
        (
            (Cause.NO_DRIVER, 0.26),
            (Cause.CPU_ONLY_FRAMEWORK, 0.2),
            (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.16),
            (Cause.CONTAINER_WITHOUT_GPU, 0.14),
            (Cause.NO_NVIDIA_GPU, 0.1),
        ),
        "xgboost, src/common and src/context.cc; llama.cpp, common/arg.cpp; ollama, discover/gpu.go",
        pattern=(
            r"Must have at least one device|No visible GPU is found, setting device to CPU|no usable GPU found, --gpu-layers"
            r"|no compatible GPUs were discovered|No GPU found\. A GPU is needed"
        ),
        title="The program found no GPU that it can use",
        modifiers=_ABSENT,
        level=Level.WARNING,
        decisive_fact="what nvidia-smi -L lists in the same place, and whether the program is a build with CUDA",
    ),
    Signature(
        "program.other-toolkit",
        "DeepSpeed and other builders of extensions",
        ("does not match the version torch was compiled", "cudamismatchexception", "missingcudaexception"),
        ((Cause.CUDA_PATH_WRONG, 0.8), (Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.03)),
        "deepspeed, ops/op_builder/builder.py: assert_no_cuda_mismatch, installed_cuda_version",
        pattern=(
            r"Installed CUDA version (?P<found>[\d.]+) does not match the version torch was compiled with (?P<built>\d+\.\d+)(?!\d)(?! but since)"
            r"|CUDAMismatchException|MissingCUDAException"
        ),
        title="The toolkit that CUDA_HOME names is of another CUDA than torch was built with, or none",
    ),
    Signature(
        "triton.no-compiler",
        "Triton",
        ("failed to find c compiler",),
        ((Cause.CUDA_PATH_WRONG, 0.42), (Cause.CUDA_HEADERS_MISSING, 0.15)),
        "triton 2 and 3, runtime/build.py: it compiles its launcher with the compiler of the host",
        title="Triton finds no C compiler for its launcher",
        decisive_fact="whether gcc or clang is in PATH, or the variable CC names one",
    ),
    Signature(
        "xla.no-dnn",
        "TensorFlow and XLA",
        ("dnn library is not found",),
        (
            (Cause.OPTIONAL_LIBRARY_MISSING, 0.52),
            (Cause.LIBRARY_PATH_CONFLICT, 0.2),
            (Cause.LIBRARY_NOT_INITIALIZED, 0.12),
        ),
        "xla/stream_executor/stream_executor: no DNN support was registered, since cuDNN was not loaded or is of another version",
        title="XLA has no cuDNN: it is not there, or another version than it was built for",
        decisive_fact="the cuDNN that is installed, and which one the program was built with",
    ),
    Signature(
        "tf.capability-ignored",
        "TensorFlow",
        ("ignoring visible gpu device",),
        ((Cause.NO_KERNEL_IMAGE, 0.8), (Cause.GPU_REMOVED_FROM_TOOLKIT, 0.1)),
        "tensorflow, core/common_runtime/gpu/gpu_device.cc: GetValidDeviceIds",
        pattern=r"Ignoring visible gpu device \(.{0,160} with (?:Cuda compute capability [\d.]+\. The minimum required|AMDGPU version)",
        title="This build of TensorFlow holds no code for the GPU",
        modifiers=(Modifier("amd", Cause.ROCM_MISMATCH, 8),),
    ),
    Signature(
        "nvenc.driver-too-old",
        "ffmpeg",
        ("required nvenc api version", "minimum required nvidia driver for"),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.78), (Cause.CONTAINER_DRIVER_CAPABILITIES, 0.05)),
        "ffmpeg, libavcodec/nvenc.c: nvenc_print_driver_requirement",
        pattern=(
            r"Driver does not support the required nvenc API version|The minimum required Nvidia driver for nvenc is \S+ or newer"
        ),
        title="The driver is older than the video encoder's interface that ffmpeg was built for",
        modifiers=(
            Modifier("video-library", Cause.CONTAINER_DRIVER_CAPABILITIES, 20),
            Modifier("video-library", Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.2),
        ),
    ),
    Signature(
        "video.library-named",
        "ffmpeg and the loader",
        ("libnvidia-encode", "libnvcuvid"),
        (),
        "ffmpeg says it beside the driver that it wants, where the library is missing",
        pattern=r"Cannot load lib(?:nvidia-encode|nvcuvid)",
        level=Level.EVIDENCE,
        evidence="video-library",
    ),
    Signature(
        "told.video-library",
        "reports",
        ("libnvcuvid", "libnvidia-encode", "libnvidia-opticalflow", "libnvoptix", "libnvidia-rtcore", "libegl_nvidia"),
        ((Cause.CONTAINER_DRIVER_CAPABILITIES, 0.6), (Cause.CONTAINER_TOOLKIT_BROKEN, 0.12)),
        "NVIDIA Container Toolkit, User Guide: driver capabilities; video and graphics are mounted when they are requested",
        pattern=(
            r"lib(?:nvcuvid|nvidia-encode|nvidia-opticalflow|nvoptix|nvidia-rtcore|EGL_nvidia)\b\S*(?: \w+){0,3}? (?:is |are )?(?:not|isn't|aren't|never|missing|absent)\b"
            r"(?: \w+){0,4} ?(?:inject\w*|mount\w*|found|available|present|there|exist\w*|visible|in|inside|from)\b"
            r"|(?:missing|no|without) lib(?:nvcuvid|nvidia-encode|nvidia-opticalflow|nvoptix|nvidia-rtcore|EGL_nvidia)\b.{0,40}\b(?:container|image|docker|pod)"
        ),
        requires=("container", "kubernetes"),
        level=Level.WARNING,
        title="A library of the driver is not mounted: the video or graphics capability was not requested",
    ),
    Signature(
        "nvenc.sessions",
        "ffmpeg",
        ("openencodesessionex failed",),
        ((Cause.GPU_BUSY, 0.5), (Cause.OUT_OF_MEMORY, 0.25)),
        "ffmpeg, libavcodec/nvenc.c; NVIDIA Video Codec SDK, NVENC Application Note: sessions at once",
        pattern=r"OpenEncodeSessionEx failed: (?:out of memory|incompatible client key)",
        title="All encoder sessions of the GPU are taken, or its memory is",
        decisive_fact="which programs encode on the GPU: nvidia-smi encodersessions",
    ),
    Signature(
        "julia.no-runtime",
        "CUDA.jl, MATLAB, Blender",
        ("find an appropriate cuda runtime", "was found, but it is too old", "cuda binary kernel for this"),
        ((Cause.CUDA_LIBRARY_MISSING, 0.42), (Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.34)),
        "CUDA.jl, CUDA_Runtime_Discovery and initialization.jl; MATLAB, gpuDevice; Blender, intern/cycles/device/cuda",
        pattern=(
            r"could not find an appropriate CUDA runtime to use|CUDA driver was found, but it is (?P<old>too old)"
            r"|CUDA binary kernel for this graphics card compute capability \((?P<capability>[\d.]+)\) not found"
        ),
        weights_fn=lambda values: (
            ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.88),)
            if "old" in values
            else ((Cause.NO_KERNEL_IMAGE, 0.7), (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.12))
        ),
        title="The program has no CUDA that fits this GPU and driver",
        decisive_fact="the driver's version and the GPU",
    ),
    Signature(
        "rapids.own-library",
        "ld.so, of the libraries of RAPIDS",
        ("libcudf", "libcuml", "libcugraph", "librmm", "libraft", "libcuspatial", "libcuvs"),
        ((Cause.CORRUPT_INSTALLATION, 0.46), (Cause.LIBRARY_PATH_CONFLICT, 0.2), (Cause.CUDA_LIBRARY_MISSING, 0.15)),
        "glibc, elf/dl-load.c and dl-lookup.c, of files that the packages of RAPIDS bring themselves",
        pattern=(
            r"\blib(?:cudf|cuml(?:\+\+)?|cugraph|rmm|raft|cuspatial|cuvs)\.so\S*: (?:cannot open shared object|undefined symbol: _Z\w{0,12}(?:4raft|4cudf|3rmm|2ML|7cugraph))"
        ),
        title="A library of RAPIDS is missing, or of another release than the one that wants it",
        decisive_fact="whether all packages of RAPIDS there are of one release",
    ),
    Signature(
        "pycuda.no-nvcc",
        "PyCUDA",
        ("error invoking 'nvcc", "nvcc preprocessing of", "nvcc compilation of"),
        ((Cause.CUDA_PATH_WRONG, 0.6), (Cause.CUDA_HEADERS_MISSING, 0.1)),
        "pycuda, compiler.py and pytools.prefork",
        pattern=r"error invoking 'nvcc .{0,200}No such file|nvcc preprocessing of \S+ failed",
        title="PyCUDA could not run nvcc",
        decisive_fact="whether a toolkit is installed, and whether its bin folder is in PATH",
    ),
)
