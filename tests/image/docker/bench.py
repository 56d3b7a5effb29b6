"""Compares size and build time of each kind of image with a plain ``pip install`` on the same base.

``python -m tests.image.docker.bench [KIND ...]``: ``added`` is the size without the row's base, ``over system`` the
size without Debian and its Python, which every base contains: what a machine pulls that has neither base nor image.
A cold build has no cache, a warm one repeats it. The bases come from NVIDIA's wheels: those of runtime and devel hold
the libraries of NVIDIA's runtime images, but neither nvcc nor the static libraries of devel.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuenv.image.build.plan import ImageKind
from tests.image.docker import bases
from tests.image.docker.conftest import ExistingEngine, docker_client
from tests.image.docker.dockerd import Dockerd, answers, engine_skip_reason
from tests.image.docker.program import build_report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MIB = 1 << 20
_PLAIN_DOCKERFILE = """FROM {base}
RUN python3 -m venv /opt/plain \\
    && /opt/plain/bin/pip install --progress-bar off '{line}[ctk]=={cupy}' 'cuda-toolkit=={cuda}.*'
"""
_TWO_STAGE_DOCKERFILE = """FROM {base} AS build
RUN python3 -m venv /opt/plain \\
    && /opt/plain/bin/pip install --no-cache-dir --no-compile --progress-bar off \\
    '{line}[ctk]=={cupy}' 'cuda-toolkit=={cuda}.*'
FROM {base}
COPY --from=build /opt/plain /opt/plain
ENV PATH=/opt/plain/bin:$PATH
"""
_ROW = "{:24} {:>6} {:>6} {:>6} {:>11} {:>6} {:>6}"


def start_engine(stack: ExitStack) -> ExistingEngine | Dockerd:
    host = os.environ.get("DOCKER_HOST", "")
    if host.startswith("unix://") and answers(host.removeprefix("unix://")):
        return ExistingEngine(host)
    reason = engine_skip_reason()
    if reason:
        raise SystemExit(reason)
    return stack.enter_context(Dockerd())


def build(host: str, kind: str, base: str, *arguments: str) -> tuple[Any, float]:
    """The result of gpuenv build-image and its seconds."""
    options = ("--kind", kind, "--cuda", bases.CUDA, "--python", "3.11", "--base", base, "--builder", "classic")
    started = time.monotonic()
    code, report, stderr = build_report(
        host, *options, "--compute-capability", "9.0", "--tag", f"bench/{kind}:1", *arguments
    )
    if code != 0:
        raise SystemExit(stderr)
    return report["images"][0], time.monotonic() - started


def build_plain(client: Any, template: str, base: str, result: Any) -> tuple[int, float]:  # noqa: ANN401
    """Bytes and seconds of an image from a Dockerfile that uses pip alone."""
    labels = result["labels"]
    with tempfile.TemporaryDirectory() as folder:
        text = template.format(base=base, line=labels["io.gpuenv.line"], cupy=labels["io.gpuenv.cupy"], cuda=bases.CUDA)
        Path(folder, "Dockerfile").write_text(text)
        started = time.monotonic()
        image, _ = client.images.build(path=folder, tag="bench/plain:1", nocache=True, rm=True)
        return int(image.attrs["Size"]), time.monotonic() - started


def rows(host: str, client: Any, names: dict[str, str], kinds: Sequence[str]) -> Iterator[str]:  # noqa: ANN401
    system = client.images.get(names["wheels"]).attrs["Size"]
    yield _ROW.format("MiB; seconds", "base", "added", "whole", "over system", "cold", "warm")
    for kind in kinds:
        base = client.images.get(names[kind]).attrs["Size"]
        result, cold = build(host, kind, names[kind], "--no-cache")
        _, warm = build(host, kind, names[kind])
        yield _row(f"gpuenv {kind}", (base, result["sizes"]["whole"], system), (cold, warm))
        remove_image(client, f"bench/{kind}:1")
        for name, template in (
            ("plain pip install [ctk]", _PLAIN_DOCKERFILE),
            ("two stages, by hand", _TWO_STAGE_DOCKERFILE),
        ):
            size, seconds = build_plain(client, template, names[kind], result)
            yield _row(name, (base, size, system), (seconds, None))
            remove_image(client, "bench/plain:1")


def remove_image(client: Any, tag: str) -> None:  # noqa: ANN401
    """Frees the disk: an image with CUDA takes gigabytes, and the builder's cache as many."""
    client.images.remove(tag, force=True)
    client.images.prune()


def _row(name: str, sizes: tuple[int, int, int], seconds: tuple[float, float | None]) -> str:
    base, whole, system = sizes
    cold, warm = seconds
    numbers = [f"{number / _MIB:.0f}" for number in (base, whole - base, whole, whole - system)]
    return _ROW.format(name, *numbers, f"{cold:.0f}", f"{warm:.0f}" if warm is not None else "-")


def main() -> None:
    kinds = sys.argv[1:] or [kind.value for kind in ImageKind]
    with ExitStack() as stack:
        engine = start_engine(stack)
        client = docker_client(engine)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        names = bases.make_bases(client, folder, bases.NVIDIA_REQUIREMENTS)
        for row in rows(engine.host, client, names, kinds):
            print(row, flush=True)  # noqa: T201 - the output of the benchmark


if __name__ == "__main__":
    main()
