"""Messages of Kubernetes, its device plug-in and its operator about GPUs."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause


def _scheduler_weights(values: Mapping[str, str]) -> Weights:
    """The weights by the scheduler's line about all nodes.

    A node that has fewer than the pod asks for, however idle it is, is one that preemption does not help (kube-scheduler,
    noderesources/fit.go: InsufficientResource.Unresolvable); one that is full has victims, or none that are found.
    Nodes that a selector leaves out are not those with GPUs.
    """
    if "mig" in values:
        return (Cause.MIG_MISCONFIGURED, 0.45), (Cause.GPU_BUSY, 0.25), (Cause.CONTAINER_TOOLKIT_BROKEN, 0.2)
    total, lacking, helpless, victims = (
        int(values.get(name, 0)) for name in ("total", "lacking", "helpless", "victims")
    )
    if total and helpless == total:
        return (Cause.CONTAINER_TOOLKIT_BROKEN, 0.72), (Cause.GPU_BUSY, 0.1)
    if "tainted" in values:
        return (Cause.GPU_BUSY, 0.3), (Cause.CONTAINER_TOOLKIT_BROKEN, 0.2)
    if "selected" in values or (victims and victims >= lacking < total):
        return (Cause.GPU_BUSY, 0.5), (Cause.CONTAINER_TOOLKIT_BROKEN, 0.4)
    if total and lacking == total and not victims:
        return (Cause.CONTAINER_TOOLKIT_BROKEN, 0.6), (Cause.GPU_BUSY, 0.33)
    return (Cause.CONTAINER_TOOLKIT_BROKEN, 0.55), (Cause.GPU_BUSY, 0.38)


SIGNATURES = (
    Signature(
        "kubernetes.insufficient",
        "Kubernetes",
        ("insufficient nvidia.com/",),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.55), (Cause.GPU_BUSY, 0.38)),
        "kube-scheduler, plugin NodeResourcesFit",
        pattern=(
            r"(?:\b0/(?P<total>\d{1,5}) nodes are available:"
            r"(?=(?:.{0,900}(?P<tainted>taints? \{nvidia\.com/gpu))?)"
            r"(?=(?:.{0,900}(?P<selected>didn't match (?:Pod's )?node (?:affinity|selector)))?)"
            r"(?=(?:.{0,900}\b(?P<helpless>\d{1,5}) Preemption is not helpful)?)"
            r"(?=(?:.{0,900}\b(?P<victims>\d{1,5}) No preemption victims)?)"
            r".{0,600}?\b(?P<lacking>\d{1,5}) )?Insufficient nvidia\.com/(?:gpu|(?P<mig>mig-))"
        ),
        title="No node offers a free GPU: the device plugin does not advertise it, or all are taken",
        weights_fn=_scheduler_weights,
        modifiers=(
            Modifier("gpu-advertised", Cause.GPU_BUSY, 5),
            Modifier("gpu-allocated", Cause.GPU_BUSY, 5),
        ),
        evidence="kubernetes",
        decisive_fact="whether kubectl describe node lists nvidia.com/gpu under Allocatable",
    ),
    Signature(
        "kubernetes.gpu-taint",
        "Kubernetes",
        ("taint",),
        ((Cause.REQUIREMENT_NOT_MET, 0.62),),
        "kube-scheduler, plugin TaintToleration; the taint that clouds give to nodes with GPUs",
        pattern=r"had (?:untolerated )?taints? \{nvidia\.com/gpu\b",
        title="The nodes with GPUs are tainted, and the pod does not tolerate nvidia.com/gpu",
        evidence="kubernetes",
        decisive_fact="whether the pod has a toleration of nvidia.com/gpu, and how many GPUs those nodes have free",
    ),
    Signature(
        "kubernetes.advertised",
        "Kubernetes",
        ("nvidia.com/gpu:",),
        (),
        "kubectl describe node: Capacity and Allocatable, in columns",
        pattern=r"^\s*nvidia\.com/gpu:\s{4,}[1-9]\d{0,3}\s*$",
        level=Level.EVIDENCE,
        evidence="gpu-advertised",
    ),
    Signature(
        "kubernetes.allocated",
        "Kubernetes",
        ("nvidia.com/gpu",),
        (),
        "kubectl describe node: Allocated resources",
        pattern=r"^\s*nvidia\.com/gpu\s{2,}(?P<requested>[1-9]\d{0,3})\s{2,}(?P=requested)\s*$",
        level=Level.EVIDENCE,
        evidence="gpu-allocated",
    ),
    Signature(
        "kubernetes.none-advertised",
        "Kubernetes",
        ("nvidia.com/gpu",),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.66), (Cause.DRIVER_MODULE_NOT_LOADED, 0.12)),
        "kubectl describe node: Capacity and Allocatable, which the device plugin fills",
        pattern=r"\bnvidia\.com/gpu(?::\s*0\b|\s{2,}0\b(?!\s+\d))",
        title="The device plugin runs on the node and finds no GPU",
        evidence="kubernetes",
        decisive_fact="the plugin's log, and whether nvidia-smi works on the node",
    ),
    Signature(
        "kubernetes.allocate",
        "kubelet",
        ("nvidia.com/gpu",),
        ((Cause.GPU_BUSY, 0.45), (Cause.GPU_HARDWARE_FAULT, 0.25), (Cause.CONTAINER_TOOLKIT_BROKEN, 0.15)),
        "kubelet, cm/devicemanager: UnexpectedAdmissionError",
        pattern=r"requested number of devices unavailable for nvidia\.com/gpu|(?P<unhealthy>no healthy devices present); cannot allocate unhealthy devices nvidia\.com/gpu",
        weights_fn=lambda values: (
            ((Cause.GPU_HARDWARE_FAULT, 0.55), (Cause.CONTAINER_TOOLKIT_BROKEN, 0.2))
            if "unhealthy" in values
            else ((Cause.GPU_BUSY, 0.45), (Cause.GPU_HARDWARE_FAULT, 0.25), (Cause.CONTAINER_TOOLKIT_BROKEN, 0.15))
        ),
        evidence="kubernetes",
        decisive_fact="the log of the device plugin, which marks GPUs unhealthy after an Xid",
    ),
    Signature(
        "kubernetes.platform",
        "NVIDIA device plugin",
        (
            *("incompatible platform detected", "configure the nvidia container toolkit", "detected non-nvml platform"),
            *("could not load nvml", "docker default runtime to", "nvml init failed", "unable to load nvml"),
        ),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.66), (Cause.NO_DRIVER, 0.2)),
        "k8s-device-plugin, cmd/nvidia-device-plugin/main.go and internal/rm",
        pattern=(
            r"incompatible platform detected|did you (?:configure the NVIDIA Container Toolkit|set the docker default runtime to)"
            r"|could not load NVML|nvml init failed: .*LIBRARY_NOT_FOUND|Unable to load NVML"
        ),
        title="The device plugin's container was not given the driver's libraries",
        modifiers=(Modifier("wsl", Cause.WSL_LIBCUDA, 3), Modifier("driver-none", Cause.NO_DRIVER, 10)),
        decisive_fact="whether nvidia-smi works on the node, and whether nvidia is the engine's default runtime",
    ),
    Signature(
        "kubernetes.plugin-strategy",
        "NVIDIA device plug-in for Kubernetes",
        ("incompatible strategy detected", "is a gpu node, did you"),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.8),),
        "k8s-device-plugin, cmd/nvidia-device-plugin: factory.go and server start",
        title="The device plug-in runs without the NVIDIA runtime",
        evidence="kubernetes",
    ),
    Signature(
        "kubernetes.unhealthy",
        "NVIDIA device plug-in for Kubernetes",
        ("unhealthy",),
        ((Cause.GPU_HARDWARE_FAULT, 0.7), (Cause.MIG_MISCONFIGURED, 0.05)),
        "k8s-device-plugin, internal/rm/health.go and internal/plugin/server.go",
        pattern=(
            r"device handle from UUID: .*marking it as unhealthy|nvidia\.com/\S* device marked unhealthy|Marking device (?:GPU|MIG)-\S+ as unhealthy"
            r"|waiting for event: .*marking all devices as unhealthy"
        ),
        title="The device plug-in took a GPU out of service",
        evidence="kubernetes",
        decisive_fact="the Xid in the kernel's log of that node",
    ),
    Signature(
        "kubernetes.no-devices",
        "NVIDIA device plug-in for Kubernetes",
        ("no devices found. waiting indefinitely",),
        (
            (Cause.CONTAINER_TOOLKIT_BROKEN, 0.4),
            (Cause.NO_NVIDIA_GPU, 0.2),
            (Cause.NO_DRIVER, 0.15),
            (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.05),
        ),
        "k8s-device-plugin, cmd/nvidia-device-plugin/main.go: startPlugins",
        title="The device plug-in sees no GPU on its node",
        evidence="kubernetes",
        decisive_fact="what nvidia-smi -L lists on the node",
    ),
    Signature(
        "operator.driver-validation",
        "NVIDIA GPU operator",
        ("validating driver installation", "failed to run command"),
        ((Cause.NO_DRIVER, 0.86), (Cause.DRIVER_MODULE_NOT_LOADED, 0.05)),
        "gpu-operator, validator: driver; coreutils, chroot",
        pattern=r"error validating driver installation|chroot: failed to run command \W?nvidia-smi",
        title="The operator's validation finds no driver on the node",
        evidence="kubernetes",
    ),
    Signature(
        "slurm.gres-file",
        "Slurm",
        ("stat gres.conf file",),
        ((Cause.DEVICE_NODE_MISSING, 0.8), (Cause.DRIVER_MODULE_NOT_LOADED, 0.12)),
        "slurm 22.05, gres.c",
        pattern=r"can(?:'t| not) stat gres\.conf file \(?/dev/nvidia",
        title="A device node that gres.conf names does not exist",
    ),
    Signature(
        "slurm.gres-count",
        "Slurm",
        ("gres/gpu", "gres.conf", "slurm.conf"),
        ((Cause.GPU_HARDWARE_FAULT, 0.36), (Cause.DRIVER_MODULE_NOT_LOADED, 0.3), (Cause.DEVICE_NODE_MISSING, 0.15)),
        "slurmctld, node_mgr.c and gres.c: fewer GPUs on the node than configured",
        pattern=r"low real gres/gpu count|gres/gpu:? count (?:changed|reported lower|too low|mismatch)|AutoDetect the amount of GPUs configured .* does not match",
        title="A node of the cluster has fewer GPUs than it is configured with",
        decisive_fact="what nvidia-smi -L lists on that node",
    ),
    Signature(
        "slurm.gres-requested",
        "Slurm",
        ("generic resource",),
        ((Cause.VISIBLE_DEVICES_HIDE_GPU, 0.36), (Cause.REQUIREMENT_NOT_MET, 0.3)),
        "slurm_errno.c: ESLURM_INVALID_GRES",
        pattern=r"Invalid generic resource \(gres\) specification",
        title="The job asks for GPUs that it was not granted, or that the cluster does not name so",
        decisive_fact="the --gres or --gpus of the job, and those of scontrol show node",
    ),
)
