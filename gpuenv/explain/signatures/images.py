"""Messages of containers and images about the GPU when they start, and of image builds."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

SIGNATURES = (
    Signature(
        "ngc.driver-release",
        "entry points of NGC images",
        ("this container was built for nvidia driver",),
        ((Cause.IMAGE_REQUIRES_OTHER_DRIVER, 0.93),),
        "nvidia_entrypoint.sh, 10-banner / 50-gpu-driver-check",
        pattern=r"this container was built for NVIDIA Driver Release (?P<release>[\d.]+) or later",
        title="The image was built for driver {release} or later",
        evidence="container",
    ),
    Signature(
        "ngc.compat-mode",
        "entry points of NGC images",
        (
            "cuda minor version compatibility mode",
            "cuda forward compatibility mode",
            "not yet supported in this version",
            "compatibility mode",
        ),
        ((Cause.IMAGE_REQUIRES_OTHER_DRIVER, 0.4), (Cause.FORWARD_COMPAT_UNSUPPORTED, 0.2)),
        "nvidia_entrypoint.sh, 50-gpu-driver-check",
        pattern=r"compatibility mode (?:is )?UNAVAILABLE|GPU.*not yet supported in this version of the container",
        evidence="container",
        level=Level.WARNING,
    ),
    Signature(
        "ngc.no-driver",
        "entry points of NGC images",
        ("nvidia driver was not detected",),
        ((Cause.CONTAINER_WITHOUT_GPU, 0.9),),
        "nvidia_entrypoint.sh, 50-gpu-driver-check",
        title="The container was started without access to the GPU",
        evidence="container",
    ),
    Signature(
        "container.capabilities",
        "NVIDIA container toolkit",
        ("driver capabilities", "unsupported capabilities", "nvidia_driver_capabilities", '"utility"'),
        ((Cause.CONTAINER_DRIVER_CAPABILITIES, 0.88),),
        "nvidia-container-toolkit, cmd/nvidia-container-runtime-hook/container_config.go",
        pattern=r"unsupported (?:driver )?capabilities|NVIDIA_DRIVER_CAPABILITIES.{0,60}(?:missing|does not|not include|must|unset|without|only)|\"utility\" (?:driver )?capability",
        evidence="container",
    ),
    Signature(
        "container.utility-only",
        "docker inspect, the variables of a container, compose files",
        ("capabilities",),
        ((Cause.CONTAINER_DRIVER_CAPABILITIES, 0.72),),
        "NVIDIA Container Toolkit, User Guide: driver capabilities; without compute no libcuda is mounted",
        pattern=(
            r"\"?Capabilities\"?: ?\[\[(?![^\]]*(?:compute|all))[^\]]*\butility\b|NVIDIA_DRIVER_CAPABILITIES[\"']?[=:] ?[\"']?(?!\S*(?:compute|all))[a-z,]*utility"
            r"|capabilities: ?\[(?![^\]]*(?:compute|all))[^\]]*\butility\b"
        ),
        title="The container was given the GPU without the compute capability, so without libcuda",
        evidence="capabilities-lack-compute",
    ),
    Signature(
        "container.video-library",
        "ld.so and ffmpeg",
        ("libnvcuvid", "libnvidia-encode", "libnvidia-opticalflow", "libnvoptix", "libnvidia-rtcore"),
        ((Cause.CONTAINER_DRIVER_CAPABILITIES, 0.6), (Cause.DRIVER_INSTALL_BROKEN, 0.25)),
        "ffmpeg, dynlink_loader.h; ld.so",
        pattern=r"(?:cannot load|cannot open|could not load|failed to load|unable to load).{0,40}lib(?:nvcuvid|nvidia-encode|nvidia-opticalflow|nvoptix|nvidia-rtcore)|lib(?:nvcuvid|nvidia-encode|nvoptix)\S*: cannot open",
        title="A library of the driver is missing that the container toolkit mounts for the video or graphics capability only",
        modifiers=(
            Modifier("host", Cause.CONTAINER_DRIVER_CAPABILITIES, 0.1),
            Modifier("host", Cause.DRIVER_INSTALL_BROKEN, 4),
            Modifier("container", Cause.CONTAINER_DRIVER_CAPABILITIES, 2.5),
        ),
        decisive_fact="whether this is a container, its NVIDIA_DRIVER_CAPABILITIES, and whether the host has the library",
    ),
    Signature(
        "smi.cuda-not-available",
        "nvidia-smi",
        ("cuda version: n/a", "cuda version : n/a", "cuda umd version: n/a", "cuda version          : not found"),
        ((Cause.CONTAINER_DRIVER_CAPABILITIES, 0.62), (Cause.DRIVER_INSTALL_BROKEN, 0.25)),
        "nvidia-smi: the CUDA column follows the libcuda that it finds",
        pattern=r"CUDA (?:UMD )?Version\s*: (?:N/A|Not Found)",
        title="nvidia-smi works, but finds no libcuda",
        evidence="smi-works",
        modifiers=(
            Modifier("host", Cause.CONTAINER_DRIVER_CAPABILITIES, 0.1),
            Modifier("host", Cause.DRIVER_INSTALL_BROKEN, 5),
            Modifier("container", Cause.CONTAINER_DRIVER_CAPABILITIES, 4),
        ),
        decisive_fact="whether this is a container: --assume container=yes or no",
    ),
    Signature(
        "apptainer.no-files",
        "Apptainer, Singularity",
        ("could not find any nv files", "could not find any nv libraries", "nvliblist"),
        ((Cause.NO_DRIVER, 0.7), (Cause.CONTAINER_TOOLKIT_BROKEN, 0.12)),
        "apptainer, internal/pkg/util/gpu: nvidia.go",
        title="--nv was given, and the host has no libraries of the driver",
        evidence="container",
    ),
    Signature(
        "docker.no-such-tag",
        "Docker, containerd, buildkit",
        ("nvidia/cuda", "nvcr.io"),
        ((Cause.DOCKERFILE_FAULT, 0.88),),
        "moby, distribution; the registry's answer: manifest unknown",
        pattern=r"manifest for (?:docker\.io/|nvcr\.io/)?nvidia/cuda\S* not found|(?:(?:docker\.io/)?nvidia/cuda|nvcr\.io/[\w./-]+):\S+: (?:not found|failed to resolve)|nvidia/cuda\S*.*(?:manifest unknown|no such manifest)|manifest unknown.{0,40}\bnvidia/cuda:",
        title="The image's tag does not exist",
    ),
    Signature(
        "docker.rotated-key",
        "apt",
        ("a4b469963bf863cc", "cuda/repos", "machine-learning/repos"),
        ((Cause.DOCKERFILE_FAULT, 0.82),),
        "apt; NVIDIA, Updating the CUDA Linux GPG Repository Key",
        pattern=r"NO_PUBKEY A4B469963BF863CC|(?:GPG error|not signed|public key).*(?:cuda/repos|machine-learning/repos)|cuda/repos\S*.*(?:not signed|public key is not available|NO_PUBKEY)",
        title="The signing key of NVIDIA's package source was replaced; the image has the old one",
    ),
    Signature(
        "compose.devices",
        "Docker Compose",
        ("deploy", "capabilities", "runtime", "gpus", "reservations", "device_requests"),
        ((Cause.DOCKERFILE_FAULT, 0.75),),
        "compose-spec, JSON schema: deploy.resources.reservations.devices, gpus, runtime",
        pattern=(
            r"services\.\S+ (?:Additional property (?:gpus|runtime|devices|deploy) is not allowed|.*capabilities is required)"
            r"|(?:deploy\.resources\.reservations|reservations)\b.*(?:devices|value).*(?:additional propert|does not allow|is required|unsupported|invalid)"
            r"|Unsupported config option for services\.?\S*: '(?:runtime|gpus|devices|device_requests|deploy)'|services\.\S+\.(?:runtime|gpus|devices|deploy)\S* contains unsupported option|services\.\S+: unsupported option '(?:gpus|runtime|deploy)"
        ),
        title="The compose file asks for the GPU in a form that this version does not read",
    ),
    Signature(
        "docker.build-no-gpu",
        "docker build",
        ("docker build", "dockerfile", "buildkit", "executor failed", "did not complete successfully"),
        ((Cause.DOCKERFILE_FAULT, 0.3),),
        "buildkit: a step that needs a GPU or toolkit at build time",
        pattern=r"process \\?\"/bin/sh -c .*(?:nvcc|cupy|nvidia-smi|cuda|GPU).* did not complete successfully",
        level=Level.WARNING,
        decisive_fact="the step's own messages above it",
    ),
    Signature(
        "nvidia-docker.old-cuda",
        "nvidia-docker 1",
        ("unsupported cuda version",),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.55), (Cause.IMAGE_REQUIRES_OTHER_DRIVER, 0.4)),
        "nvidia-docker 1, tools/src/nvidia-docker",
        pattern=r"unsupported CUDA version:? (?P<image>[\d.]+) [<>] (?P<driver>[\d.]+)|unsupported CUDA version",
        title="The image's CUDA is newer than the driver",
        evidence="container",
    ),
    Signature(
        "torch.no-runtime-found",
        "torch",
        ("no cuda runtime is found",),
        (
            (Cause.CONTAINER_WITHOUT_GPU, 0.36),
            (Cause.NO_DRIVER, 0.3),
            (Cause.CPU_ONLY_FRAMEWORK, 0.12),
            (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.08),
        ),
        "torch/utils/cpp_extension.py",
        title="torch finds a toolkit and no usable GPU",
        modifiers=(
            Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 6),
            Modifier("host", Cause.CONTAINER_WITHOUT_GPU, 0.05),
            Modifier("hidden", Cause.VISIBLE_DEVICES_HIDE_GPU, 30),
            Modifier("gpu-none", Cause.NO_DRIVER, 4),
        ),
        decisive_fact="whether this is a container: --assume container=yes or no",
    ),
)
