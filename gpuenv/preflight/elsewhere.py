"""Which causes are the host's: the same job may succeed on another one, so CI should try there. Data.

A cause that is not listed goes with the job, or with the image or the environment that it brings: on every host it
would be met again. A requirement says of itself whether another host could meet it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding, Severity
from gpuenv.model.requirement import RequirementResult, RequirementStatus

HOST_CAUSES: Mapping[Cause, str] = {
    Cause.NO_NVIDIA_GPU: "another host may have a GPU",
    Cause.NO_DRIVER: "another host may have a driver",
    Cause.DRIVER_MODULE_NOT_LOADED: "the host's administrator must load the module",
    Cause.DRIVER_INSTALL_BROKEN: "the host's driver must be installed again",
    Cause.DRIVER_KERNEL_INCOMPATIBLE: "the host's kernel and driver must be made to fit",
    Cause.NOUVEAU_LOADED: "the host must be set up for NVIDIA's driver",
    Cause.DRIVER_LIBRARY_VERSION_MISMATCH: "the host waits for a restart",
    Cause.SUSPEND_RESUME_LOST_GPU: "the host must load a module again",
    Cause.DRIVER_UNRESPONSIVE: "the host's driver hangs or crashes",
    Cause.CUDA_INITIALIZATION_FAILED: "the host's driver does not start",
    Cause.GPU_REMOVED_FROM_DRIVER: "the host's driver does not support the host's GPU",
    Cause.GPU_TOO_NEW_FOR_DRIVER: "the host's driver does not support the host's GPU",
    Cause.GPU_TOO_OLD_FOR_ANY_DRIVER: "the host's GPU is out of support",
    Cause.COMPUTE_MODE_EXCLUSIVE: "the host's GPU is taken",
    Cause.MIG_MISCONFIGURED: "the host's GPU is partitioned without usable instances",
    Cause.FABRIC_MANAGER_NOT_RUNNING: "the host's fabric manager must be started",
    Cause.GPU_THROTTLED: "the host's GPU is slowed down by heat, power or its link",
    Cause.GPU_BUSY: "others use the host's GPU",
    Cause.GPU_HARDWARE_FAULT: "the host's GPU is broken",
    Cause.CONTAINER_TOOLKIT_BROKEN: "the host's container toolkit is missing or not configured",
    Cause.CONTAINER_CGROUP_LOST_GPU: "the container has lost its GPU on this host",
    Cause.DEVICE_NODE_PERMISSION: "the host's device nodes are closed to this user",
    Cause.DEVICE_NODE_MISSING: "the host lacks device nodes of its driver",
}
BUSY_CAUSES = frozenset((Cause.GPU_BUSY, Cause.COMPUTE_MODE_EXCLUSIVE))
"""The causes that may pass by themselves, once others have left the GPU."""


def reason_to_retry(findings: Sequence[Finding], requirements: Sequence[RequirementResult]) -> str | None:
    """Why another host should be tried; None where it would be no better there."""
    for finding in findings:
        if finding.severity is Severity.ERROR and finding.cause in HOST_CAUSES:
            return f"{finding.cause}: {HOST_CAUSES[finding.cause]}"
    job_bound = _of_the_job(findings)
    for result in requirements:
        if result.status is RequirementStatus.VIOLATED and result.of_host and result.text not in job_bound:
            return f"{result.text}: another host may meet it"
    return None


def _of_the_job(findings: Sequence[Finding]) -> frozenset[str]:
    """The requirements that are not met because of what goes with the job, such as a variable that hides the GPU."""
    host_codes = {finding.code for finding in findings if finding.cause in HOST_CAUSES}
    following = [f for f in findings if f.follows_from is not None and f.follows_from not in host_codes]
    return frozenset(
        str(entry.value) for finding in following for entry in finding.evidence if entry.fact == "required"
    )
