"""Messages of Docker, Podman, Apptainer, Kubernetes, the NVIDIA container toolkit and images."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_CLI = "libnvidia-container, nvidia-container-cli"


def _no_device_weights(values: Mapping[str, str]) -> Weights:
    """Where libcuda answered, the driver's libraries are there: its module is not loaded, or there is no GPU."""
    if "libcuda" in values:
        return (
            (Cause.DRIVER_MODULE_NOT_LOADED, 0.38),
            (Cause.NO_NVIDIA_GPU, 0.26),
            (Cause.NO_DRIVER, 0.25),
            (Cause.WSL_LIBCUDA, 0.08),
        )
    return ((Cause.NO_DRIVER, 0.4), (Cause.NO_NVIDIA_GPU, 0.2), (Cause.DRIVER_MODULE_NOT_LOADED, 0.18))


def _unknown_device_weights(values: Mapping[str, str]) -> Weights:
    """GPU:INSTANCE is how an instance of MIG is named."""
    if "instance" in values:
        return ((Cause.MIG_MISCONFIGURED, 0.8), (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.12))
    return ((Cause.VISIBLE_DEVICES_HIDE_GPU, 0.8), (Cause.MIG_MISCONFIGURED, 0.08))


SIGNATURES = (
    Signature(
        "docker.no-device-driver",
        "Docker",
        ("could not select device driver",),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.95),),
        "moby, daemon/devices_linux.go",
        title="Docker has no device driver for GPUs: the NVIDIA container toolkit is missing or not configured",
        evidence="container",
    ),
    Signature(
        "docker.no-runtime",
        "Docker, containerd, CRI-O",
        (
            "runtime specified",
            "runtime nvidia",
            "oci runtime",
            "runtimeclass",
            "unknown or invalid runtime name",
            "runtimehandler",
            "runtime handler",
            "no runtime for ",
        ),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.95),),
        "moby, daemon/runtime_unix.go; containerd, CRI plugin: getRuntimeHandler",
        pattern=(
            r"unknow?n? (?:or invalid )?runtime (?:specified|name):? \\?\"?nvidia|OCI runtime \\?\"?nvidia\S* not found|RuntimeClass(?:\S{0,20})? \\?\"?nvidia\S* not found|unknown runtime nvidia|RuntimeHandler \\?\"?nvidia[\w-]*\\?\"? not (?:supported|found)"
            r"|no runtime for \\?\"?nvidia\\?\"? is configured|runtime handler \\?\"?nvidia\S* not found"
        ),
        title="The engine has no runtime named nvidia",
        evidence="container",
    ),
    Signature(
        "container.hook-missing",
        "runc and Docker",
        ("nvidia-container", "nvidia-docker"),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.9),),
        "runc, execvp; the shell",
        pattern=(
            r"nvidia-(?:container-(?:runtime|cli|toolkit|runtime-hook)|docker2?|ctk)\b\S*:? (?:command not found|not found|executable file not found|no such file)"
            r"|exec: \\?\"?nvidia-container-runtime\S*: executable file not found|fork/exec \S*nvidia-container-runtime\S*: no such file"
            r"|Unit nvidia-docker\S* not found|Unable to locate package nvidia-(?:container-toolkit|docker2)"
        ),
        evidence="container",
    ),
    Signature(
        "nvidia-cli.requirement",
        _CLI,
        ("unsatisfied condition", "requirement error"),
        ((Cause.IMAGE_REQUIRES_OTHER_DRIVER, 0.95),),
        "libnvidia-container, src/cli/dsl.c; NVIDIA_REQUIRE_* of the image",
        pattern=r"unsatisfied condition: (?P<condition>\w+ ?[<>=!~]+ ?[\w.]+)|requirement error",
        title="The image demands what this machine does not have: {condition}",
        evidence="container",
    ),
    Signature(
        "nvidia-cli.ldcache",
        _CLI,
        ("ldcache error", "ldconfig"),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.88),),
        "libnvidia-container, src/nvc_ldcache.c",
        pattern=r"ldcache error|nvidia-container-cli(?!.{0,160}--ldconfig).*ldconfig",
        title="The container toolkit's hook cannot run ldconfig",
        evidence="container",
    ),
    Signature(
        "nvidia-cli.container",
        _CLI,
        ("nvidia-container-cli", "auto-detected mode", "nvidia-container-runtime-hook", "cgroup subsystem devices"),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.5), (Cause.NO_DRIVER, 0.15), (Cause.DRIVER_MODULE_NOT_LOADED, 0.1)),
        "libnvidia-container, src/cli; nvidia-container-toolkit, cmd/nvidia-container-runtime-hook",
        pattern=(
            r"nvidia-container-cli: (?:container error|mount error|initialization error|detection error|permission error|input error|device error)"
            r"|cgroup subsystem devices not found|error running (?:prestart )?hook.*nvidia"
        ),
        level=Level.WARNING,
        title="The NVIDIA container toolkit could not prepare the container",
        evidence="container",
        modifiers=(Modifier("wsl", Cause.WSL_LIBCUDA, 2),),
        decisive_fact="whether nvidia-smi works on the host",
    ),
    Signature(
        "nvidia-cli.setup",
        _CLI,
        ("container error", "mount error", "detection error", "cgroup subsystem"),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.82),),
        "libnvidia-container, src/nvc_mount.c and nvc_container.c",
        pattern=r"nvidia-container-cli: (?:container|detection) error|cgroup subsystem devices not found|nvidia-container-cli: mount error: (?!.*/dev/nvidia)",
        evidence="container",
    ),
    Signature(
        "nvidia-cli.no-device",
        _CLI,
        ("no cuda-capable device", "failed to process request"),
        (
            (Cause.NO_DRIVER, 0.4),
            (Cause.NO_NVIDIA_GPU, 0.2),
            (Cause.DRIVER_MODULE_NOT_LOADED, 0.18),
            (Cause.WSL_LIBCUDA, 0.08),
        ),
        "libnvidia-container, src/nvc.c: cuda error, driver error",
        pattern=r"initialization error: (?:(?P<libcuda>cuda error: no cuda-capable device)|driver (?:rpc )?error: failed to process request)",
        title="The host of the container has no usable GPU driver",
        weights_fn=_no_device_weights,
        evidence="container",
        modifiers=(Modifier("wsl", Cause.WSL_LIBCUDA, 15),),
        decisive_fact="whether nvidia-smi works on the host",
    ),
    Signature(
        "nvidia-cli.unknown-device",
        _CLI,
        ("unknown device", "no such device", "invalid device"),
        ((Cause.VISIBLE_DEVICES_HIDE_GPU, 0.8), (Cause.MIG_MISCONFIGURED, 0.08)),
        "libnvidia-container, src/cli/common.c: device error",
        pattern=r"(?:nvidia-container-cli: )?device error: (?P<instance>\d{1,2}:\d{1,2}): unknown device|nvidia-container-cli: device error: .*(?:unknown|no such|invalid) device|device error: (?:GPU-)?\S+: unknown device",
        title="NVIDIA_VISIBLE_DEVICES or --gpus names a GPU that is not there",
        weights_fn=_unknown_device_weights,
        evidence="container",
        modifiers=(Modifier("mig", Cause.MIG_MISCONFIGURED, 12),),
    ),
    Signature(
        "cdi.unresolvable",
        "Docker, Podman, containerd",
        ("unresolvable cdi", "cdi device", "known gpu vendor", "cdi spec"),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.92),),
        "container-device-interface, pkg/cdi; moby, daemon/cdi.go",
        pattern=(
            r"unresolvable CDI devices?:? (?=\S*nvidia)|unresolvable CDI devices?\W*$|no known GPU vendor found"
            r"|(?:failed to inject|setting up) CDI devices?(?!.*unresolvable)"
            r"|CDI (?:device )?(?:injection|spec\w*)(?!.*(?:NVML|libcuda|driver version|unresolvable)).*(?:fail|not found|disabled|error)"
        ),
        title="The engine finds no CDI description of the GPUs",
        evidence="container",
    ),
    Signature(
        "podman.cdi-as-path",
        "Podman",
        ("stat nvidia.com/", "nvidia.com/gpu"),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.82),),
        "libpod, specgen: a Podman before 4.1 takes the name of a CDI device for a path",
        pattern=r"(?:stat|lstat) nvidia\.com/gpu\S*: no such file|error (?:gathering device information|adding device).{0,40}nvidia\.com/gpu",
        title="The engine is too old for CDI devices, or not configured to look for them",
        evidence="container",
    ),
    Signature(
        "nvidia-cli.root",
        _CLI,
        ("failed to change root directory", "/run/nvidia/driver"),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.84),),
        "libnvidia-container, src/nvc.c: the setting root of /etc/nvidia-container-runtime/config.toml",
        pattern=r"failed to change root directory|(?:no such file|not found|does not exist).{0,40}/run/nvidia/driver|/run/nvidia/driver\S*: (?:no such|not found)",
        title="The container toolkit is configured to look for the driver where no driver container put one",
        evidence="container",
        requires=("container", "cuda"),
    ),
    Signature(
        "docker.device-missing",
        "Docker, Podman",
        ("gathering device information", "error adding device", "stat /dev/nvidia"),
        ((Cause.DEVICE_NODE_MISSING, 0.62), (Cause.DRIVER_MODULE_NOT_LOADED, 0.2)),
        "moby, daemon/oci_linux.go; libpod, specgen",
        pattern=r"error gathering device information while adding custom device \\?\"?/dev/(?:nvidia|dxg)|stat /dev/nvidia\S*: no such file",
        title="A device node that the container shall get is not there",
        evidence="container",
    ),
    Signature(
        "nvidia-docker.plugin",
        "Docker and nvidia-docker 1",
        ("volume plugin nvidia-docker", "volumedriver.", "nvidia-docker-plugin"),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.72), (Cause.DRIVER_INSTALL_BROKEN, 0.1)),
        "moby, volume/drivers; nvidia-docker 1, src/nvidia-docker-plugin",
        pattern=r"looking up volume plugin nvidia-docker|nvidia_driver_\S* ?.*VolumeDriver\.\w+|nvidia-docker-plugin.*(?:error|failed|not found)",
        title="The plug-in of nvidia-docker 1 does not answer; the container toolkit replaces it",
        evidence="container",
    ),
    Signature(
        "docker.no-gpus-flag",
        "Docker",
        ("--gpus",),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.62),),
        "docker/cli: --gpus came with 19.03; Podman before 5.0 has no such option",
        pattern=r"unknown (?:flag|option|shorthand flag)[: ]+'?\"?--gpus",
        title="The engine is too old for --gpus, or wants CDI devices in its place",
        evidence="container",
    ),
)
