"""A target with a healthy CuPy installation."""

from __future__ import annotations

import pytest

from gpuenv.matrix.assume import assume
from gpuenv.model.finding import Finding
from gpuenv.model.reading import known
from gpuenv.model.snapshot import CupyInstallation, FileFault, FileState, Library, Snapshot
from gpuenv.model.versions import CudaVersion
from tests.support.diagnosis import diagnosis_of
from tests.support.fixes import by_hand
from tests.support.matrix import MATRIX

SITE = "/venv/lib/python3.12/site-packages"


MODULE = f"{SITE}/cupy/__init__.py"


CUPY = CupyInstallation("cupy-cuda12x", "14.2.0", SITE, ("cp312-cp312-linux_x86_64",), True, MODULE)


NAMES = {
    "nvrtc": "libnvrtc.so.12",
    "cublas": "libcublas.so.12",
    "cufft": "libcufft.so.11",
    "curand": "libcurand.so.10",
    "cusolver": "libcusolver.so.11",
    "cusparse": "libcusparse.so.12",
    "nvrtc-builtins": "libnvrtc-builtins.so.12.9",
}


LIBRARIES = tuple(
    Library(name, soname, f"{SITE}/nvidia/lib/{soname}", "site-packages", release="12.9" if name == "nvrtc" else None)
    for name, soname in NAMES.items()
)


@pytest.fixture(scope="module")
def healthy() -> Snapshot:
    """A healthy machine with every fact of the target."""
    facts = ["os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "driver=580.95.05", "gpu=H100"]
    snapshot = assume(Snapshot(), [*facts, "cupy=cupy-cuda12x==14.2.0", "numpy=2.1.0"], MATRIX)
    target = snapshot.target._replace(
        prefix=known("/venv", "x"),
        cupy=(CUPY,),
        cupy_module=known(MODULE, "x"),
        libraries=LIBRARIES,
        headers=known((f"{SITE}/nvidia/cuda_runtime/include",), "x"),
        headers_cuda=known(CudaVersion.parse("12.9"), "x"),
        file_faults_count=known(0, "x"),
    )
    return snapshot._replace(target=target)


def findings_by_code(snapshot: Snapshot) -> dict[str, Finding]:
    diagnosis = diagnosis_of(snapshot)
    assert all(finding.evidence and finding.fix for finding in diagnosis.findings)
    assert all("\n" not in finding.title for finding in diagnosis.findings)
    return {finding.code: by_hand(finding) for finding in diagnosis.findings}


def with_target(snapshot: Snapshot, **fields: object) -> Snapshot:
    return snapshot._replace(target=snapshot.target._replace(**fields))  # type: ignore[arg-type]  # a field of any kind


def with_file_fault(healthy: Snapshot, path: str, state: FileState, *names: str) -> Snapshot:
    fault = FileFault(f"{SITE}/{path}", state, names or ("cupy-cuda12x",))
    return with_target(healthy, file_faults=(fault,), file_faults_count=known(1, "RECORD"))
