"""Every signature, one file a family. Adding one is adding a record to its family's file."""

from __future__ import annotations

from functools import cache

from gpuenv.explain.records import Signature


@cache
def all_signatures() -> tuple[Signature, ...]:
    """The signatures of every family."""
    from gpuenv.explain.signatures import (  # noqa: PLC0415 - the records take time to make
        above,
        arrays,
        builds,
        callers,
        compiler,
        conda,
        containers,
        cuda_code,
        cuda_devices,
        cuda_kernels,
        cuda_numbers,
        cuda_rare,
        cuda_start,
        cupy,
        cupy_imports,
        cupy_words,
        driver,
        fabric,
        frameworks,
        images,
        installer,
        kernel_module,
        kubernetes,
        libraries,
        link_time,
        loader,
        marks,
        memory,
        nvml,
        nvrm,
        packages,
        programs,
        python_cuda,
        resolvers,
        runtimes,
        smi,
        told,
        told_machine,
        toolkit,
        windows,
    )

    families = (
        *(
            driver,
            nvml,
            smi,
            fabric,
            nvrm,
            kernel_module,
            installer,
            cuda_start,
            cuda_devices,
            cuda_code,
            cuda_kernels,
            cuda_rare,
            cuda_numbers,
        ),
        *(compiler, toolkit, libraries, loader, link_time, windows, containers, runtimes, images, kubernetes),
        *(
            packages,
            resolvers,
            conda,
            builds,
            cupy,
            cupy_imports,
            cupy_words,
            arrays,
            memory,
            programs,
            frameworks,
            python_cuda,
            callers,
            above,
            told,
            told_machine,
            marks,
        ),
    )
    return tuple(signature for family in families for signature in family.SIGNATURES)
