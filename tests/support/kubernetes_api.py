"""The part of Kubernetes' API that ``kubectl`` needs to run Jobs: each runs as a process on a simulated machine.

No control plane is in Debian's packages. Discovery, lists, selectors, logs and deletion are as in "Kubernetes API
Concepts" and the API reference of batch/v1 and core/v1; kubectl itself is the real one.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_RESOURCES = {"v1": (("nodes", "Node", False), ("pods", "Pod", True)), "batch/v1": (("jobs", "Job", True),)}
_VERBS = ["create", "delete", "get", "list"]
_FIELDS = {"spec.nodeName": "nodeName"}


@dataclass(slots=True)
class Cluster:
    """Nodes with their variables, and what runs on them.

    Attributes:
        nodes: the variables of each node's machine.
        labels: of the nodes.
        not_ready: nodes whose kubelet does not report.
        without_image: nodes that cannot pull the image.
        dead: nodes that have gone: what runs there is not heard of again.
        jobs: by name, with their process.
    """

    folder: Path
    nodes: Mapping[str, Mapping[str, str]]
    labels: Mapping[str, Mapping[str, str]]
    not_ready: set[str] = field(default_factory=set)
    without_image: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    jobs: dict[str, tuple[dict[str, Any], subprocess.Popen[bytes] | None, float]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def create(self, job: dict[str, Any]) -> None:
        pod = job["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        values = {"nodeName": pod["nodeName"]}
        variables = dict(self.nodes[pod["nodeName"]])
        for entry in container["env"]:
            path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            variables[entry["name"]] = values.get(_FIELDS.get(path, ""), "pod") if path else entry["value"]
        process = None
        if pod["nodeName"] not in self.without_image:
            with (self.folder / f"{job['metadata']['name']}.log").open("wb") as log:
                process = subprocess.Popen(container["command"], env=variables, stdout=log, stderr=log, cwd="/")
        self.jobs[job["metadata"]["name"]] = (job, process, time.monotonic())

    def kill_node(self, node: str) -> None:
        self.dead.add(node)
        for job, process, _ in self.jobs.values():
            if process is not None and job["spec"]["template"]["spec"]["nodeName"] == node:
                process.kill()

    def pods(self) -> Iterator[dict[str, Any]]:
        """The pods; one of a Job that has passed its deadline is deleted."""
        for name, (job, process, started) in self.jobs.items():
            template = job["spec"]["template"]
            node = template["spec"]["nodeName"]
            if time.monotonic() - started > job["spec"]["activeDeadlineSeconds"] and node not in self.dead:
                continue
            code = None if process is None or node in self.dead else process.poll()
            waiting = {"waiting": {"reason": "ErrImagePull"}}
            status: dict[str, Any] = {"phase": "Pending", "containerStatuses": [{"name": "gpuenv", "state": waiting}]}
            if process is not None:
                phase = "Running" if code is None else "Failed" if code else "Succeeded"
                status = {"phase": phase, "containerStatuses": [{"name": "gpuenv", "state": {}}]}
            metadata = {"name": f"{name}-pod", "namespace": "default", "labels": template["metadata"]["labels"]}
            yield {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": template["spec"], "status": status}

    def node_objects(self) -> Iterator[dict[str, Any]]:
        for name in self.nodes:
            ready = "Unknown" if name in self.not_ready else "True"
            metadata = {"name": name, "labels": dict(self.labels.get(name, {}))}
            status = {"conditions": [{"type": "Ready", "status": ready}]}
            yield {"kind": "Node", "apiVersion": "v1", "metadata": metadata, "status": status}

    def objects(self, resource: str) -> list[dict[str, Any]]:
        if resource == "nodes":
            return [*self.node_objects()]
        return [*self.pods()] if resource == "pods" else [job for job, _, _ in self.jobs.values()]


class _Handler(BaseHTTPRequestHandler):
    """One request of kubectl."""

    cluster: Cluster

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.cluster.requests.append(f"GET {self.path}")
        match [part for part in url.path.split("/") if part]:
            case ["version"]:
                self.answer({"major": "1", "minor": "32", "gitVersion": "v1.32.0"})
            case ["api"]:
                self.answer({"kind": "APIVersions", "versions": ["v1"]})
            case ["apis"]:
                version = {"groupVersion": "batch/v1", "version": "v1"}
                group = {"name": "batch", "versions": [version], "preferredVersion": version}
                self.answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]})
            case ["api", "v1"] | ["apis", "batch", "v1"] as path:
                self.answer(_resource_list("/".join(path[1:])))
            case [*_, "pods", name, "log"]:
                self.answer_text((self.cluster.folder / f"{name.removesuffix('-pod')}.log").read_bytes())
            case [*_, ("nodes" | "pods" | "jobs") as resource]:
                selector = parse_qs(url.query).get("labelSelector", [""])[0]
                wanted = dict(part.split("=", 1) for part in selector.split(",") if part)
                items = self.cluster.objects(resource)
                found = [item for item in items if wanted.items() <= item["metadata"].get("labels", {}).items()]
                api = "batch/v1" if resource == "jobs" else "v1"
                kind = f"{resource[:-1].title()}List"
                self.answer({"kind": kind, "apiVersion": api, "metadata": {}, "items": found})
            case [*_, ("nodes" | "pods" | "jobs") as resource, name]:
                items = self.cluster.objects(resource)
                one = next((item for item in items if item["metadata"]["name"] == name), None)
                self.answer(one or _failure(404, "NotFound"), 200 if one else 404)
            case _:
                self.answer(_failure(404, "NotFound"), 404)

    def do_POST(self) -> None:
        self.cluster.requests.append(f"POST {self.path}")
        job = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.cluster.create(job)
        self.answer(job, 201)

    def do_DELETE(self) -> None:
        self.cluster.requests.append(f"DELETE {self.path}")
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        _, process, _ = self.cluster.jobs.pop(urlsplit(self.path).path.rsplit("/", 1)[1])
        if process is not None:
            process.kill()
        self.answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def answer(self, document: Mapping[str, Any], code: int = 200) -> None:
        self.answer_text(json.dumps(document).encode(), code, "application/json")

    def answer_text(self, data: bytes, code: int = 200, kind: str = "text/plain") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _resource_list(version: str) -> dict[str, Any]:
    resources = [
        {"name": name, "singularName": kind.lower(), "kind": kind, "namespaced": namespaced, "verbs": _VERBS}
        for name, kind, namespaced in _RESOURCES[version]
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


def _failure(code: int, reason: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}


@contextlib.contextmanager
def serving(cluster: Cluster) -> Iterator[Path]:
    """Serves the API on the loopback address; yields a configuration of kubectl."""
    handler = type("Handler", (_Handler,), {"cluster": cluster})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        entry = {"name": "simulated", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        context = {"name": "simulated", "context": {"cluster": "simulated", "user": "simulated"}}
        document: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": "simulated"}
        document |= {"clusters": [entry], "contexts": [context], "users": [{"name": "simulated", "user": {}}]}
        path = cluster.folder / "kubeconfig"
        path.write_text(json.dumps(document), encoding="utf-8")
        yield path
        server.shutdown()
