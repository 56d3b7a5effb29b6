"""Sockets on which an engine may listen, for builds and for image checks."""

from __future__ import annotations

from collections.abc import Mapping

_ROOTFUL_DOCKER, _ROOTFUL_PODMAN = "/var/run/docker.sock", "/run/podman/podman.sock"


def usual_sockets(environment: Mapping[str, str], runtime: str | None = None) -> tuple[str, ...]:
    """The paths of the usual sockets, in the order in which they are tried: Docker's before Podman's.

    Args:
        environment: the caller's variables; ``XDG_RUNTIME_DIR`` is where an engine without root listens.
        runtime: that folder where the variable is not set; None for no such engine.
    """
    folder = environment.get("XDG_RUNTIME_DIR") or runtime
    own = (f"{folder}/docker.sock", f"{folder}/podman/podman.sock") if folder else ()
    return (_ROOTFUL_DOCKER, *own, _ROOTFUL_PODMAN)
