"""Every signature, one file a family. Adding one is adding a record to its family's file."""

from __future__ import annotations

from functools import cache

from gpuenv.explain.records import Signature


@cache
def all_signatures() -> tuple[Signature, ...]:
    """The signatures of every family."""
    from gpuenv.explain.signatures import (  # noqa: PLC0415 - the records take time to make
        compiler,
        containers,
        cuda,
        cupy,
        driver,
        frameworks,
        kernel_module,
        libraries,
        loader,
        marks,
        packages,
        programs,
    )

    families = (
        *(driver, kernel_module, cuda, compiler, libraries, loader),
        *(containers, packages, cupy, programs, frameworks, marks),
    )
    return tuple(signature for family in families for signature in family.SIGNATURES)
