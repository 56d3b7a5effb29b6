"""Messages of the NVIDIA container toolkit, its hooks and nvidia-ctk, and of engines about their runtimes."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Modifier, Signature
from gpuenv.model.causes import Cause

_CTK = "NVIDIA container toolkit"
_CLI = "libnvidia-container, nvidia-container-cli"

SIGNATURES = (
    Signature(
        "engine.runtime-gone",
        "Podman, crun, Docker and Kubernetes",
        ("oci runtime", "did not terminate successfully", "runtimeclass", "executing hook", "open executable"),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.92),),
        "podman 4.3, libpod/runtime.go; crun 1.8, error executing hook; kube-apiserver, admission of a RuntimeClass",
        pattern=(
            r"(?:default|requested) OCI runtime \"?nvidia\S* (?:not found|is not available)|no valid executable found for OCI runtime \S*nvidia"
            r"|nvidia-container-runtime\S* did not terminate successfully|RuntimeClass \\?\"?nvidia\\?\"? not found"
            r"|error executing hook `?\S*nvidia-\S+|open executable: .*nvidia-container-\S+"
        ),
        title="The engine cannot run NVIDIA's runtime or hook",
        evidence="container",
    ),
    Signature(
        "hook.wrong-way",
        _CTK,
        ("nvidia container runtime hook directly",),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.85),),
        "nvidia-container-toolkit, cmd/nvidia-container-runtime-hook/hook_config.go: assertModeIsLegacy",
        title="--gpus does not work in this mode of the container toolkit: --runtime=nvidia does",
        evidence="container",
        modifiers=(Modifier("jetson", Cause.JETSON_TEGRA, 2),),
    ),
    Signature(
        "hook.failed",
        _CTK,
        ("nvidia-cdi-hook", "ldcache", "nvidia-container-runtime/config.toml", "binary nvidia-container-cli"),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.9),),
        "nvidia-container-toolkit 1.17, cmd/nvidia-cdi-hook, cmd/nvidia-container-runtime-hook/main.go and internal/config",
        pattern=(
            r"nvidia-cdi-hook\S*:? .*(?:error|fail|not found|no such)|(?:error updating|failed to update) ldcache"
            r"|(?:could not|cannot|failed|error).*nvidia-container-runtime/config\.toml|couldn't find binary nvidia-container-cli"
        ),
        title="A hook of the container toolkit failed",
        evidence="container",
    ),
    Signature(
        "cdi.none-found",
        _CTK,
        ("found 0 cdi devices",),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.8), (Cause.NO_DRIVER, 0.08)),
        "nvidia-container-toolkit, cmd/nvidia-ctk/cdi/list",
        title="There is no CDI description of GPUs: nvidia-ctk cdi generate writes one",
        evidence="container",
    ),
    Signature(
        "hook.mig-devices",
        _CTK,
        ("mig_config_devices", "mig_monitor_devices"),
        ((Cause.MIG_MISCONFIGURED, 0.75), (Cause.CONTAINER_TOOLKIT_BROKEN, 0.15)),
        "nvidia-container-toolkit, cmd/nvidia-container-runtime-hook/container_config.go",
        pattern=r"cannot set MIG_(?:CONFIG|MONITOR)_DEVICES in non privileged container",
        title="The container wants to manage MIG without being privileged",
        evidence="container",
    ),
    Signature(
        "hook.devices-ignored",
        _CTK,
        ("ignoring devices specified in nvidia_visible_devices",),
        ((Cause.CONTAINER_WITHOUT_GPU, 0.82), (Cause.CONTAINER_TOOLKIT_BROKEN, 0.1)),
        "nvidia-container-toolkit, accept-nvidia-visible-devices-envvar-when-unprivileged",
        title="The toolkit's configuration forbids containers to ask for GPUs with a variable",
        evidence="container",
    ),
    Signature(
        "cli.load-library",
        _CLI,
        ("load library failed",),
        ((Cause.NO_DRIVER, 0.93),),
        "libnvidia-container, src/driver.c: driver_init, xdlopen",
        pattern=r"initialization error: load library failed: lib(?:nvidia-ml|cuda)\.so",
        title="The host of the container has no library of the driver",
        evidence="container",
        modifiers=(Modifier("wsl", Cause.WSL_LIBCUDA, 40),),
    ),
    Signature(
        "cli.nvml-unknown",
        _CLI,
        ("nvml error: unknown error",),
        (
            (Cause.DRIVER_INSTALL_BROKEN, 0.36),
            (Cause.GPU_HARDWARE_FAULT, 0.28),
            (Cause.CONTAINER_TOOLKIT_BROKEN, 0.15),
            (Cause.DRIVER_UNRESPONSIVE, 0.1),
        ),
        "libnvidia-container, src/driver.c: NVML_ERROR_UNKNOWN on the host",
        pattern=r"container-cli\S*: (?:initialization|detection) error: (?:driver rpc error: )?nvml error: unknown error",
        title="NVML does not answer on the host of the container",
        evidence="container",
        decisive_fact="what nvidia-smi says on the host",
    ),
    Signature(
        "ctk.no-driver",
        _CTK,
        ("libcuda.so", "driver version"),
        ((Cause.NO_DRIVER, 0.88), (Cause.WSL_LIBCUDA, 0.03)),
        "nvidia-container-toolkit, pkg/nvcdi and internal/lookup: the driver's root is searched on the host",
        pattern=r"failed to get driver version: |failed to locate libcuda\.so|Could not locate libcuda\.so: pattern",
        title="nvidia-ctk finds no driver on the host",
    ),
    Signature(
        "toolkit.package-source",
        "apt and dnf",
        ("libnvidia-container", "nvidia-container", "nvidia-docker", "ddcae044f796ecb0"),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.88),),
        "apt 2.6 and dnf 4; NVIDIA Container Toolkit, Installation Guide: its package source",
        pattern=(
            r"NO_PUBKEY DDCAE044F796ECB0|(?:libnvidia-container|nvidia-docker|nvidia-container-runtime)/\S*.*(?:does not have a Release file|not signed|public key is not available)"
            r"|GPG error: \S*(?:libnvidia-container|nvidia-docker|nvidia-container-runtime)"
            r"|(?:No match for argument|Unable to find a match|Unable to locate package|target not found):? (?:lib)?nvidia-(?:container|docker)"
        ),
        title="The container toolkit's package source is missing or not trusted",
    ),
)
