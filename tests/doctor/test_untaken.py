"""Files that are there and that the loader cannot take: why, and that nobody is told to install them again in vain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.matrix.records import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Severity
from gpuenv.model.reading import missing
from gpuenv.model.snapshot import Snapshot
from tests.doctor.installed_target import LIBRARIES, SITE, changed, found, healthy

__all__ = ["healthy"]

OWN = f"{SITE}/cupy/_core/core.cpython-312-x86_64-linux-gnu.so"
UNMAPPED = "failed to map segment from shared object"
BROKEN, CORRUPT = Cause.TARGET_ENVIRONMENT_BROKEN, Cause.CORRUPT_INSTALLATION


@pytest.mark.parametrize(
    ("said", "cause", "helps"),
    [
        (f"{UNMAPPED} [its file system is mounted noexec]", BROKEN, "noexec"),
        (f"{UNMAPPED} [ulimit -v is 1500000 KiB]", BROKEN, "1464 MiB"),
        (UNMAPPED, BROKEN, "ulimit -a"),
        ("cannot allocate memory in static TLS block", BROKEN, "reserve"),
        ("cannot open shared object file: Permission denied", BROKEN, "read"),
        ("file too short", CORRUPT, "Install again"),
        ("invalid ELF header", CORRUPT, "Install again"),
        ("wrong ELF class: ELFCLASS32", CORRUPT, "Install again"),
    ],
)
def test_why_the_loader_does_not_take_a_file(
    matrix: Matrix, healthy: Snapshot, said: str, cause: Cause, helps: str
) -> None:
    """Of CuPy's own module, and of a library: nothing is missing, and nothing is to be installed beside it."""
    path = f"{SITE}/nvidia/cublas/lib/libcublas.so.12"
    refused = replace(LIBRARIES[1], path=None, error=f"Failed to dlopen {path}: {path}: {said}")
    of_library = changed(healthy, libraries=(LIBRARIES[0], refused, *LIBRARIES[2:]))
    for snapshot in (of_library, changed(healthy, extension=missing(f"{OWN}: {said}"))):
        findings = found(matrix, snapshot)
        assert set(findings) == {"LIB613"}
        finding = findings["LIB613"]
        assert (finding.cause, finding.severity) == (cause, Severity.ERROR)
        assert helps in finding.fix[0].text
        assert "ctk" not in " ".join(fix.text for fix in finding.fix)


@pytest.mark.parametrize(
    "said",
    [
        "libcuda.so.1: cannot open shared object file: No such file or directory",
        "/usr/lib/libcuda.so.1: file too short",
        "nobody looked",
        "no answer within 30.0 s",
    ],
)
def test_what_is_no_matter_of_the_file_is_not_told_of_it(matrix: Matrix, healthy: Snapshot, said: str) -> None:
    assert found(matrix, changed(healthy, extension=missing(said))) == {}


def test_an_optional_library_may_be_damaged(matrix: Matrix, healthy: Snapshot) -> None:
    optional = replace(LIBRARIES[1], name="nccl", path=None, optional=True, error="/x/libnccl.so.2: file too short")
    assert found(matrix, changed(healthy, libraries=(*LIBRARIES, optional))) == {}
