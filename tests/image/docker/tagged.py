"""The names of images that the tests have made."""

from __future__ import annotations

from typing import Any

from tests.image.docker.program import SMALL

TAG = "half/built:1"


def tags(client: Any) -> set[str]:  # noqa: ANN401 - the SDK has no types
    return {tag for image in client.images.list(all=True) for tag in image.tags}


def of(base: str) -> tuple[str, ...]:
    return (*SMALL, "--base", base, "--tag", TAG)
