"""Fixes of environment variables: the right value or none, where a variable is set, and a job's own option."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable

from gpuenv.doctor.fixes.table import steps_of
from gpuenv.model.causes import OWN_FOLDER, SHELL_FILES
from gpuenv.model.finding import Fix
from gpuenv.model.gpus import accessible_gpus, is_old_instance, parse_visible, uuids_of
from gpuenv.model.snapshot import Container, Gpu, Snapshot
from gpuenv.model.strings import pattern

_DEVICES, _LOADER_PATH = "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"
_SCHEDULERS = ("slurm", "htcondor", "lsf", "pbs")
NOT_GRANTED = "NoDevFiles"
"""By this value Slurm hides every GPU from a job or a step that requested none."""
_BY_SCHEDULER = ("", "-1", NOT_GRANTED)
_VALUE_OF_JOB = Fix(
    "Use the value that the scheduler sets for this job on this node; do not carry one over from another node or job."
)
_STARTED_WITH = {
    **dict.fromkeys((Container.DOCKER, Container.PODMAN), "its -e or --env-file option, or ENV in its image"),
    Container.KUBERNETES: "env in the pod's specification",
}
_TOOLKIT = pattern(r"(.*/cuda)((-\d+)\.\d+)/")  # CUDA's packages add links without the minor, and without a number
# What people write around and between the entries, none of which CUDA understands.
_PUNCTUATION = pattern(r"[\s,;\"'()\[\]{}]+|\b(?:cuda|gpu):?(?=\d)", re.IGNORECASE)


def variable_fixes(snapshot: Snapshot, name: str, value: str | None = None, text: str | None = None) -> tuple[Fix, ...]:
    """How to give a variable its right value, or to unset it, now and where it is set."""
    return (change_fix(snapshot, name, value, text), *origin_fixes(snapshot, name))


def change_fix(snapshot: Snapshot, name: str, value: str | None = None, text: str | None = None) -> Fix:
    """A line for the user's shell that sets a variable, or unsets it if ``value`` is None."""
    verb = "Unset" if value is None else "Set"
    return Fix(
        text or f"{verb} {name} in the shell that starts the program.", shell_line=_shell_line(snapshot, name, value)
    )


def unset_all_fix(snapshot: Snapshot, prefix: str) -> Fix:
    """A line for the user's shell that unsets the variables whose names begin with a prefix."""
    is_windows = snapshot.host.os.value == "windows"  # for PowerShell
    line = f"Remove-Item Env:{prefix}*" if is_windows else f"unset $(env | grep -o '^{prefix}[A-Z_]*')"
    return Fix(f"Unset the variables whose names begin with {prefix}.", shell_line=line)


def _shell_line(snapshot: Snapshot, name: str, value: str | None) -> str:
    if snapshot.host.os.value == "windows":  # for PowerShell
        quoted = (value or "").replace("'", "''")
        return f"Remove-Item Env:{name}" if value is None else f"$env:{name} = '{quoted}'"
    return f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}"


def origin_fixes(snapshot: Snapshot, name: str) -> tuple[Fix, ...]:
    """How to find where a variable is set; empty if it is not set."""
    if name not in snapshot.environment:
        return ()
    if snapshot.host.os.value == "windows":
        text = "Then correct it where it is set: for your account, for the system, or in a script."
        return (Fix(text, ("rundll32", "sysdm.cpl,EditEnvironmentVariables")),)
    started_with = _STARTED_WITH.get(snapshot.host.container.value or Container.NONE)
    if started_with:
        text = f"If the container was started with it, which this shows, correct {started_with}."
        return (Fix(text, shell_line=f"tr '\\0' '\\n' < /proc/1/environ | grep ^{name}="),)
    script = "the job script" if scheduler_of(snapshot) else "an env file, a service or a notebook"
    text = f"Then correct it where it is set: in a file that shells read, which this finds, or in {script}."
    return (Fix(text, shell_line=f"grep -rns {name} {_shell_files(snapshot)}"),)


def _shell_files(snapshot: Snapshot) -> str:
    """The files that set variables in new shells, and in an activated environment."""
    target = snapshot.target
    script = {"conda": "etc/conda", "venv": "bin/activate"}.get(target.kind.value or "")
    return f"{SHELL_FILES} {shlex.quote(f'{target.prefix.value}/{script}')}" if script else SHELL_FILES


def own_folder(path: str) -> str:
    """A line for the user's shell that makes a folder and its files the user's own."""
    return OWN_FOLDER.format(shlex.quote(path))


def without_folders_fixes(
    snapshot: Snapshot, unwanted: Callable[[str], bool], name: str = "LD_LIBRARY_PATH"
) -> tuple[Fix, ...]:
    """How to remove folders from a search path; empty if it has none of them."""
    entries = [entry for entry in snapshot.environment.get(name, "").split(":") if entry]
    gone = tuple(dict.fromkeys(entry for entry in entries if unwanted(entry.rstrip("/"))))
    if not gone:
        return ()
    rest = ":".join(entry for entry in entries if entry not in gone)
    return variable_fixes(snapshot, name, rest or None, f"Remove {' and '.join(gone)} from {name}.")


def without_folder_of_fixes(snapshot: Snapshot, path: str) -> tuple[Fix, ...]:
    """How to keep the loader from a file by LD_LIBRARY_PATH; empty if no folder in it is the file's.

    Paths of loaded files are real ones, and a toolkit's folders are links: ``/usr/local/cuda/lib64`` leads to
    ``/usr/local/cuda-12.4/targets/x86_64-linux/lib``.
    """
    folder, toolkit = path.rpartition("/")[0], _TOOLKIT.match(path)
    names = {f"{toolkit[1]}{release}" for release in ("", *toolkit.group(2, 3))} if toolkit else set()
    exact = without_folders_fixes(snapshot, lambda entry: entry == folder)
    return exact or without_folders_fixes(snapshot, lambda entry: any(entry.startswith(f"{name}/") for name in names))


def with_folder_fix(snapshot: Snapshot, folder: str, text: str) -> Fix:
    """Puts a folder first on the loader's path."""
    return change_fix(snapshot, _LOADER_PATH, path_with_folder(snapshot, folder), text)


def path_with_folder(snapshot: Snapshot, folder: str) -> str:
    """The loader's path with a folder first, and the present ones after it."""
    entries = [entry for entry in snapshot.environment.get(_LOADER_PATH, "").split(":") if entry not in ("", folder)]
    return ":".join((folder, *entries))


def select_fixes(snapshot: Snapshot, gpus: Iterable[Gpu], text: str) -> tuple[Fix, ...]:
    """A line for the user's shell that shows programs only these GPUs; empty if their numbers are unknown.

    NVML's index follows the bus, CUDA's own numbers do not: by default, the fastest GPU comes first (CUDA Programming
    Guide, CUDA Environment Variables, CUDA_DEVICE_ORDER). CUDA does not count GPUs that this process may not open.
    """
    counted = sorted(gpu.index.value for gpu in accessible_gpus(snapshot.gpus) if gpu.index.value is not None)
    numbers = [str(counted.index(gpu.index.value)) for gpu in gpus if gpu.index.value in counted]
    if not numbers:
        return ()
    settings = (("CUDA_DEVICE_ORDER", "PCI_BUS_ID"), (_DEVICES, ",".join(numbers)))
    return (Fix(text, shell_line="; ".join(_shell_line(snapshot, name, value) for name, value in settings)),)


def scheduler_of(snapshot: Snapshot) -> str | None:
    """The scheduler whose job this is: slurm, htcondor, lsf or pbs; None outside of a job."""
    by, environment = snapshot.grant.by.value, snapshot.environment
    if by in _SCHEDULERS:
        return by
    jobs = {"LSB_JOBID": "lsf", "PBS_JOBID": "pbs"}
    in_job = next((name for variable, name in jobs.items() if variable in environment), None)
    return in_job or ("slurm" if environment.get(_DEVICES) == NOT_GRANTED else None)


def visible_devices_fixes(snapshot: Snapshot, value: str) -> tuple[Fix, ...]:
    """Fixes of a CUDA_VISIBLE_DEVICES that hides GPUs; in a job, a value of the scheduler is never unset."""
    scheduler = scheduler_of(snapshot)
    granted = granted_devices(snapshot)
    if scheduler is not None and granted is None and (scheduler == "slurm" or value in _BY_SCHEDULER):
        return steps_of("request-gpu", (scheduler,))
    if value == NOT_GRANTED:
        return (step_fix(snapshot),)
    if scheduler is not None:
        named = change_fix(snapshot, _DEVICES, granted, "Name the GPUs that the job was granted.")
        return (named if granted else _VALUE_OF_JOB, *origin_fixes(snapshot, _DEVICES))
    chosen, every = _chosen_devices(snapshot, value), _every_device(snapshot)
    if every is None:
        return variable_fixes(snapshot, _DEVICES)
    if chosen is None and not value.startswith(("GPU-", "MIG-")):
        first, *origin = variable_fixes(snapshot, _DEVICES, text="Unset it, and every GPU is visible.")
        return (first, change_fix(snapshot, _DEVICES, every, "Or name GPUs that exist."), *origin)
    of_mig = (chosen or every).startswith("MIG-")  # without the variable, CUDA uses the first instance
    text = "Name a MIG instance that exists." if of_mig else "Name GPUs that exist."
    unset = () if of_mig else (change_fix(snapshot, _DEVICES, text="Or unset it, and every GPU is visible."),)
    right, *origin = variable_fixes(snapshot, _DEVICES, chosen or every, text)
    return (right, *unset, *origin)


def step_fix(snapshot: Snapshot) -> Fix:
    """Requests the GPUs of a Slurm job in its step as well."""
    return Fix(
        "Request the GPUs of the job in its step as well.", ("srun", f"--gpus={snapshot.grant.gpus.value}", "COMMAND")
    )


def granted_devices(snapshot: Snapshot) -> str | None:
    """The granted GPUs as a value of CUDA_VISIBLE_DEVICES; None if unknown."""
    gpus, grant = accessible_gpus(snapshot.gpus), snapshot.grant
    if not grant.gpus.value:
        return None
    if len(gpus) == grant.gpus.value:  # CUDA numbers only these, from zero
        return ",".join(map(str, range(len(gpus))))
    names = ",".join(grant.devices.value or ())
    found = parse_visible(names, len(gpus), uuids_of(gpus))
    return names if found.entries and found.invalid is None else None


def _chosen_devices(snapshot: Snapshot, value: str) -> str | None:
    """The existing GPUs that a value names in any form: ``0 1``, ``"0"``, ``cuda:0``; None if it names none."""
    gpus = accessible_gpus(snapshot.gpus)
    uuids = uuids_of(gpus)
    # Of an instance in the form before R470, only its GPU can be looked up.
    names = (name for name in _PUNCTUATION.sub(",", value).split(",") if name and not is_old_instance(name))
    found = dict.fromkeys(entry for name in names for entry in parse_visible(name, len(gpus), uuids).entries)
    instances = [name for name in found if name.startswith("MIG-")]
    return ",".join(instances[:1] or found) or None  # a process sees one instance


def _every_device(snapshot: Snapshot) -> str | None:
    """All GPUs, or the first MIG instance, in the form that the variable has; None if they are unknown."""
    gpus = accessible_gpus(snapshot.gpus)
    instances = [instance.uuid for gpu in gpus if gpu.mig.value for instance in gpu.mig_instances]
    value = snapshot.environment.get(_DEVICES, "")
    if instances and (value.startswith("MIG-") or all(gpu.mig.value for gpu in gpus)):
        return instances[0]
    uuids = [gpu.uuid.value for gpu in gpus]
    if value.startswith("GPU-") and all(uuids):
        return ",".join(uuid for uuid in uuids if uuid)
    return ",".join(map(str, range(len(gpus)))) or None
