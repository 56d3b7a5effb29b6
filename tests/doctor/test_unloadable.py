"""A library of the driver that is there and cannot be loaded: what helps depends on whether it lacks another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.matrix.records import Matrix
from gpuenv.model.reading import missing
from gpuenv.model.snapshot import Module, Source, SourceState
from tests.doctor.kernel_hosts import findings
from tests.doctor.module_hosts import BUILT, host_without_module

SHORT = "libcuda.so.1: file too short"
LACKING = "libnvrm_gpu.so: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(("message", "helps"), [(SHORT, "Remove the file"), (LACKING, "Reinstall the driver")])
def test_it_is_told_what_helps(matrix: Matrix, message: str, helps: str) -> None:
    snapshot = host_without_module(Module.LOADED, BUILT)
    kept = tuple(source for source in snapshot.sources if source.name != "libcuda")
    driver = replace(snapshot.driver, cuda_init=missing(message), cuda_library=missing(message))
    sources = (*kept, Source("libcuda", SourceState.FAILED, message))
    found = {entry.code: entry for entry in findings(replace(snapshot, driver=driver, sources=sources), matrix)}
    assert [fix.text.startswith(helps) for fix in found["DRV114"].fix] == [True]
