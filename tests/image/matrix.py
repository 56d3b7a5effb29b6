"""Every image of the shipped matrix, as two texts for review: a table, and the Dockerfiles.

``python -m tests.image.matrix`` writes them after a change.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.image.build.choose import ImageRequest, NoImageError, choose
from gpuenv.image.build.plan import ImageKind
from gpuenv.image.build.render import Rendering, plan_image
from gpuenv.matrix.needs import needs_of
from gpuenv.model.snapshot import Snapshot
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuenv.image.build.plan import Choice, ImagePlan

GOLDEN = Path(__file__).parent / "golden"
CREATED = 1795219200
ARCHES = ("x86_64", "aarch64")


@cache
def choices() -> dict[tuple[str, str, str], Choice | str]:
    """Kind, architecture and CUDA: the choice, or why there is none."""
    needs = {"": needs_of(Snapshot(), MATRIX)}
    found: dict[tuple[str, str, str], Choice | str] = {}
    for kind in ImageKind:
        for arch in ARCHES:
            for row in MATRIX.cuda_minors:
                key = (kind.value, arch, str(row.cuda))
                try:
                    found[key] = choose(ImageRequest(kind=kind, cuda=row.cuda, arch=arch), needs, MATRIX)
                except NoImageError as error:
                    found[key] = str(error)
    return found


def planned(choice: Choice, how: Rendering = Rendering(CREATED)) -> ImagePlan:  # noqa: B008 - a record that nothing changes
    return plan_image(
        choice, how, tag=f"gpuenv-cupy:{choice.name}", pins=(), user_labels={}, matrix_revision=MATRIX.revision
    )


def plans() -> Iterator[ImagePlan]:
    yield from (planned(choice) for choice in choices().values() if not isinstance(choice, str))


def table() -> str:
    """A line for each image: its contents, and the digest of its Dockerfile."""
    lines = []
    for (kind, arch, cuda), choice in choices().items():
        head = f"{kind} {arch} {cuda}"
        if isinstance(choice, str):
            lines.append(f"{head}: none")
            continue
        digest = hashlib.sha256(planned(choice).dockerfile.encode()).hexdigest()[:12]
        lines.append(
            f"{head}: {choice.base.reference} py{choice.python} {' '.join(choice.requirements)}"
            f" | driver {choice.minimum_driver} | {','.join(map(str, choice.capabilities))} | {digest}"
        )
    return "\n".join(lines) + "\n"


def dockerfiles() -> str:
    """The whole text of the newest of each kind, without and with BuildKit and its secrets."""
    texts = []
    for kind in ImageKind:
        newest = [choice for key, choice in choices().items() if key[0] == kind.value and not isinstance(choice, str)]
        secret = Rendering(CREATED, mounts=True, secrets=("pip", "ca", "netrc"))
        texts += [planned(newest[-1], how).dockerfile for how in (Rendering(CREATED), secret)]
    return "\n".join(texts)


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / "matrix.txt").write_text(table())
    (GOLDEN / "Dockerfiles.txt").write_text(dockerfiles())


if __name__ == "__main__":
    main()
