"""Kubernetes: a Job pinned to each node, by ``kubectl``; the report is the log of its pod.

The pod requests no GPU, so that a busy node answers too; NVIDIA_VISIBLE_DEVICES makes NVIDIA's runtime
provide all of them. kubectl's own configuration chooses cluster and namespace.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from gpuenv.fleet.runners.task import Answer, Nodes, RunnerError, Task, ask_each, call_client, checked_names

_LABEL = "gpuenv-run"
# Validation downloads the schema of the whole cluster, megabytes; the manifest always has the same form.
_CREATE = ("kubectl", "create", "--validate=false", "--filename=-")
_POLL = 2.0  # seconds
_KEPT = 3600  # seconds after which Kubernetes deletes a finished Job that was left behind
_PLACE = {"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name"}
_ALL_GPUS = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
_NODE = (".metadata.name", '.status.conditions[?(@.type=="Ready")].status')
_POD = (
    *(".spec.nodeName", ".metadata.name", ".status.phase", ".status.reason"),
    *(f".status.containerStatuses[*].state.{state}.reason" for state in ("waiting", "terminated")),
)
_SELECTOR = re.compile(r"[=!() ]")


def find_nodes(nodes: str | None, task: Task) -> Nodes:
    """The nodes of a list of names or of a label selector (with ``=``), all nodes by default.

    Raises:
        RunnerError: if the API server does not answer.
    """
    is_selector = nodes is not None and _SELECTOR.search(nodes)
    ready = dict(_get(("nodes", *((f"--selector={nodes}",) if is_selector else ())), _NODE, task))
    names = [*ready] if nodes is None or is_selector else [name for name in nodes.split(",") if name]
    checked = checked_names(names)
    reasons = {name: reason for name in checked if (reason := _why_unavailable(ready.get(name)))}
    return Nodes(tuple(name for name in checked if name not in reasons), reasons)


def _get(what: Sequence[str], fields: Sequence[str], task: Task) -> list[list[str]]:
    """The fields of each object; a whole object has up to 50 KB."""
    line = '{"\\t"}'.join(f"{{{field}}}" for field in fields)
    template = f'jsonpath={{range .items[*]}}{line}{{"\\n"}}{{end}}'
    text = call_client(("kubectl", "get", *what, f"--output={template}"), task)
    return [line.split("\t") for line in text.splitlines()]


def _why_unavailable(ready: str | None) -> str | None:
    if ready is None:
        return "not a node of this Kubernetes cluster"
    return None if ready == "True" else "not ready in Kubernetes"


def manifest(nodes: Nodes, task: Task) -> dict[str, Any]:
    """The Jobs of a collection, as a List.

    Raises:
        RunnerError: without an image.
    """
    if task.image is None:
        raise RunnerError("--via kubernetes needs --image, an image with gpuenv")
    names = [f"gpuenv-{task.run}-{number}" for number in range(len(nodes.asked))]
    jobs = [_job(name, node, task) for name, node in zip(names, nodes.asked, strict=True)]
    return {"apiVersion": "v1", "kind": "List", "items": jobs}


def _job(name: str, node: str, task: Task) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"app.kubernetes.io/name": "gpuenv", _LABEL: task.run}}
    variables: list[dict[str, Any]] = [{"name": key, "value": value} for key, value in _ALL_GPUS.items()]
    variables += [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in _PLACE.items()]
    pod = {
        "nodeName": node,
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
        "containers": [{"name": "gpuenv", "image": task.image, "command": [*task.command], "env": variables}],
    }
    if task.runtime_class:
        pod["runtimeClassName"] = task.runtime_class
    spec = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": math.ceil(task.limit),
        "ttlSecondsAfterFinished": _KEPT,
        "template": {"metadata": {"labels": metadata["labels"]}, "spec": pod},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def dry_run(nodes: Nodes, task: Task) -> str:
    """The manifest of a collection as JSON, which kubectl reads."""
    return json.dumps(manifest(nodes, task), indent=2) + "\n"


def ask(nodes: Nodes, task: Task) -> Iterator[Answer]:
    """Creates the Jobs, yields the log of each pod once it has ended, and deletes the Jobs.

    Raises:
        RunnerError: if the API server does not take the Jobs.
    """
    jobs = json.dumps(manifest(nodes, task))
    left = dict.fromkeys(nodes.asked, "no pod was started")
    try:
        call_client(_CREATE, task, stdin=jobs)
        until = time.monotonic() + task.limit + 2 * _POLL
        while left and time.monotonic() < until:
            time.sleep(_POLL)
            ended = {}
            with suppress(RunnerError):  # it may answer the next time
                for node, pod, phase, *reasons in _get(("pods", f"--selector={_LABEL}={task.run}"), _POD, task):
                    if node not in left:
                        continue
                    left[node] = f"the pod is {': '.join(filter(None, (phase, *reasons)))}"
                    if phase in ("Succeeded", "Failed"):
                        ended[node] = ("kubectl", "logs", "--tail=-1", pod)
            for answer in ask_each(ended, task) if ended else ():
                state = left.pop(answer.node)
                yield answer._replace(reason=f"{state}; {answer.reason}") if answer.reason else answer
        for node, state in left.items():
            yield Answer(node, b"", f"{state} after {task.limit:.0f} s")
    finally:
        with suppress(RunnerError):  # Kubernetes deletes them later
            selector = f"--selector={_LABEL}={task.run}"
            call_client(("kubectl", "delete", "jobs", selector, "--wait=false", "--ignore-not-found"), task)
