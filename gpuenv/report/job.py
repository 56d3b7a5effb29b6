"""The machine's name and the jobs of schedulers and CI systems in which gpuenv runs, by their variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuenv.model.job import Job


class _System(NamedTuple):
    """A system: the variables that it sets, as the documentation of each names them."""

    name: str
    mark: str
    ids: tuple[str, ...]
    job_name: str | None = None


# Slurm, sbatch(1), Output Environment Variables, and "Prolog and Epilog Guide"; GitHub Docs, "Variables reference";
# GitLab Docs, "Predefined CI/CD variables reference"; Kubernetes, "Service" (KUBERNETES_SERVICE_HOST in every pod). A
# pod's host name is its own, and POD_NAME and NODE_NAME are the usual names for fields of the downward API.
_SYSTEMS = (
    _System("slurm", "SLURM_JOB_ID", ("SLURM_JOB_ID",), "SLURM_JOB_NAME"),
    _System("github", "GITHUB_ACTIONS", ("GITHUB_RUN_ID",), "GITHUB_JOB"),
    _System("gitlab", "GITLAB_CI", ("CI_JOB_ID",), "CI_JOB_NAME"),
    _System("kubernetes", "KUBERNETES_SERVICE_HOST", ("POD_NAME", "HOSTNAME")),
)
_NODE_NAMES = ("SLURMD_NODENAME", "NODE_NAME")
_LABELS = {"slurm": "Slurm", "kubernetes": "Kubernetes", "github": "GitHub", "gitlab": "GitLab"}


def find_jobs(environment: Mapping[str, str]) -> tuple[Job, ...]:
    """The jobs: a CI job may run in one of a scheduler."""
    return tuple(_jobs(environment))


def _jobs(environment: Mapping[str, str]) -> Iterator[Job]:
    for system in _SYSTEMS:
        number = next((environment[name] for name in system.ids if environment.get(name)), None)
        if environment.get(system.mark) and number:
            yield Job(system.name, number, environment.get(system.job_name or "") or None)


def host_names(environment: Mapping[str, str], own: str) -> tuple[str, ...]:
    """The names of the machine: the scheduler's name of the node first, then its own host name."""
    return tuple(dict.fromkeys(name for name in (*map(environment.get, _NODE_NAMES), own) if name))


def job_text(job: Job) -> str:
    """``Slurm job 4711 (train)``."""
    noun = "pod" if job.kind == "kubernetes" else "job"
    return f"{_LABELS.get(job.kind, job.kind)} {noun} {job.id}{f' ({job.name})' if job.name else ''}"


def host_text(host_name: str | None, jobs: Sequence[Job]) -> str:
    """``gpunode07; Slurm job 4711 (train)``; empty if neither is known."""
    return "; ".join([host_name or "unknown", *map(job_text, jobs)]) if host_name or jobs else ""
