"""What each kind of image adds and how long it takes, beside a plain ``pip install`` of the same on the same base.

``python -m tests.image.docker.bench [KIND ...]``: ``added`` is over the row's own base, ``over system`` over a Debian
with its Python, which every base here is made of: the sum that is pulled where neither base nor image is there yet.
Cold is without the builder's cache, warm is the same once more. The bases are made here, from NVIDIA's wheels: those of
runtime and devel hold the libraries of NVIDIA's runtime images, but neither nvcc nor the static libraries of devel.
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
from tests.image.docker.conftest import Given, client_of
from tests.image.docker.dockerd import Dockerd, answers, missing
from tests.image.docker.program import outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MIB = 1 << 20
_PLAIN = """FROM {base}
RUN python3 -m venv /opt/plain \\
    && /opt/plain/bin/pip install --progress-bar off '{line}[ctk]=={cupy}' 'cuda-toolkit=={cuda}.*'
"""
_BY_HAND = """FROM {base} AS build
RUN python3 -m venv /opt/plain \\
    && /opt/plain/bin/pip install --no-cache-dir --no-compile --progress-bar off \\
    '{line}[ctk]=={cupy}' 'cuda-toolkit=={cuda}.*'
FROM {base}
COPY --from=build /opt/plain /opt/plain
ENV PATH=/opt/plain/bin:$PATH
"""
_ROW = "{:24} {:>6} {:>6} {:>6} {:>11} {:>6} {:>6}"


def engine(stack: ExitStack) -> Given | Dockerd:
    host = os.environ.get("DOCKER_HOST", "")
    if host.startswith("unix://") and answers(host.removeprefix("unix://")):
        return Given(host)
    reason = missing()
    if reason:
        raise SystemExit(reason)
    return stack.enter_context(Dockerd())


def build(host: str, kind: str, base: str, *words: str) -> tuple[Any, float]:
    asked = ("--kind", kind, "--cuda", bases.CUDA, "--python", "3.11", "--base", base, "--builder", "classic")
    started = time.monotonic()
    code, told, said = outcome(host, *asked, "--compute-capability", "9.0", "--tag", f"bench/{kind}:1", *words)
    if code != 0:
        raise SystemExit(said)
    return told["images"][0], time.monotonic() - started


def plain(client: Any, template: str, base: str, made: Any) -> tuple[int, float]:  # noqa: ANN401 - the SDK has no types
    """Bytes and seconds of what anybody would write."""
    labels = made["labels"]
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
        made, cold = build(host, kind, names[kind], "--no-cache")
        _, warm = build(host, kind, names[kind])
        yield _row(f"gpuenv {kind}", (base, made["sizes"]["whole"], system), (cold, warm))
        clean(client, f"bench/{kind}:1")
        for name, template in (("plain pip install [ctk]", _PLAIN), ("two stages, by hand", _BY_HAND)):
            size, seconds = plain(client, template, names[kind], made)
            yield _row(name, (base, size, system), (seconds, None))
            clean(client, "bench/plain:1")


def clean(client: Any, tag: str) -> None:  # noqa: ANN401
    """Gives the room back: an image with CUDA in it is gigabytes, and the builder keeps as many."""
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
        started = engine(stack)
        client = client_of(started)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        names = bases.all_bases(client, folder, bases.NVIDIAS)
        for row in rows(started.host, client, names, kinds):
            print(row, flush=True)  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
