"""Kubernetes: a Job pinned to each node, by ``kubectl``; the report is the log of its pod.

The pod requests no GPU, so that a busy node answers, too; NVIDIA's runtime gives it all of them by
NVIDIA_VISIBLE_DEVICES. kubectl's own configuration chooses cluster and namespace.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from gpuenv.fleet.runners.task import Answer, Nodes, RunnerError, Task, ask_each, call_client, checked_names

_LABEL = "gpuenv-run"
_POLL = 2.0  # seconds
_KEPT = 3600  # seconds after which Kubernetes deletes a finished Job that was left behind
_PLACE = {"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name"}
_ALL_GPUS = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
_SELECTOR = re.compile(r"[=!() ]")


def find_nodes(nodes: str | None, task: Task) -> Nodes:
    """The nodes of a list of names or of a label selector (with ``=``), all nodes by default.

    Raises:
        RunnerError: if the API server does not answer.
    """
    is_selector = nodes is not None and _SELECTOR.search(nodes)
    selector = (f"--selector={nodes}",) if is_selector else ()
    found = _get(("nodes", *selector), task)
    existing = {item["metadata"]["name"]: item for item in found}
    names = [*existing] if nodes is None or is_selector else [name for name in nodes.split(",") if name]
    checked = checked_names(names)
    reasons = {name: reason for name in checked if (reason := _why_unavailable(existing.get(name)))}
    return Nodes(tuple(name for name in checked if name not in reasons), reasons)


def _get(what: Sequence[str], task: Task) -> list[dict[str, Any]]:
    text = call_client(("kubectl", "get", *what, "--output=json"), task)
    try:
        return list(json.loads(text)["items"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunnerError(f"kubectl get {what[0]}: expected a list in JSON") from error


def _why_unavailable(node: Mapping[str, Any] | None) -> str | None:
    if node is None:
        return "not a node of this Kubernetes cluster"
    conditions = node.get("status", {}).get("conditions", [])
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    return None if is_ready else "not ready in Kubernetes"


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


def dry_run(nodes: Nodes, task: Task) -> dict[str, Any]:
    """The manifest of a collection."""
    return manifest(nodes, task)


def ask(nodes: Nodes, task: Task) -> Iterator[Answer]:
    """Creates the Jobs, yields the log of each pod once it has ended, and deletes the Jobs.

    Raises:
        RunnerError: if the API server does not take the Jobs.
    """
    jobs = json.dumps(manifest(nodes, task))
    left = dict.fromkeys(nodes.asked, "no pod was started")
    try:
        call_client(("kubectl", "create", "--filename=-"), task, stdin=jobs)
        until = time.monotonic() + task.limit + 2 * _POLL
        while left and time.monotonic() < until:
            time.sleep(_POLL)
            ended = {}
            with suppress(RunnerError):  # it may answer the next time
                for pod in _get(("pods", f"--selector={_LABEL}={task.run}"), task):
                    node = pod.get("spec", {}).get("nodeName")
                    if node not in left:
                        continue
                    left[node] = _state(pod)
                    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                        ended[node] = ("kubectl", "logs", "--tail=-1", pod["metadata"]["name"])
            for answer in ask_each(ended, task) if ended else ():
                reason = f"{left.pop(answer.node)}; {answer.reason}" if answer.reason else None
                yield answer._replace(reason=reason)
        for node, state in left.items():
            yield Answer(node, b"", f"{state} after {task.limit:.0f} s")
    finally:
        with suppress(RunnerError):  # Kubernetes deletes them later
            selector = f"--selector={_LABEL}={task.run}"
            call_client(("kubectl", "delete", "jobs", selector, "--wait=false", "--ignore-not-found"), task)


def _state(pod: Mapping[str, Any]) -> str:
    """``the pod is Pending: ImagePullBackOff``."""
    status = pod.get("status", {})
    states = [each.get("state", {}) for each in status.get("containerStatuses", [])]
    details = [status.get("reason"), *(value.get("reason") for state in states for value in state.values())]
    detail = next((text for text in details if text), None)
    return f"the pod is {status.get('phase', 'unknown')}{f': {detail}' if detail else ''}"
