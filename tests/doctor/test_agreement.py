"""The doctor and the resolver judge by the same rows: what one admits, the other finds no fault with."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.model.finding import Severity
from gpuenv.model.resolution import CandidateKind, ConstraintName
from gpuenv.model.snapshot import Snapshot
from tests.support.matrix import MATRIX

GPUS = ("Tesla K80", "Tesla M60", "P100", "V100", "T4", "A100", "A10", "RTX 4090", "H100", "B200", "RTX 5090")
DRIVERS = ("450.80.02", "470.256.02", "510.47.03", "525.60.13", "550.54.15", "570.133.20", "580.95.05", "595.45.04")
INSTALLABLE = tuple(f"{line.name}=={release.cupy}" for line in MATRIX.wheel_lines for release in line.releases)
# Of a choice, not of what is there: a release that was withdrawn, or one with a known fault, runs.
OF_A_CHOICE = {ConstraintName.NOT_YANKED, ConstraintName.NO_ADVISORY, ConstraintName.AGREES_WITH_PACKAGES}


@settings(max_examples=60, deadline=None)
@given(
    gpus=st.lists(st.sampled_from(GPUS), min_size=1, max_size=2),
    driver=st.sampled_from(DRIVERS),
    cupy=st.sampled_from(INSTALLABLE),
    python=st.sampled_from(("3.9", "3.10", "3.11", "3.13")),
    numpy=st.sampled_from(("1.26.4", "2.2.6")),
    arch=st.sampled_from(("x86_64", "aarch64")),
)
def test_what_would_be_rejected_is_found_and_nothing_else(
    gpus: list[str], driver: str, cupy: str, python: str, numpy: str, arch: str
) -> None:
    host = ["os=linux", f"arch={arch}", "libc=glibc-2.36", f"python={python}", f"driver={driver}", f"numpy={numpy}"]
    snapshot = assume(Snapshot(), [*host, *(f"gpu={gpu}" for gpu in gpus), f"cupy={cupy}"], MATRIX)
    resolution = resolve(snapshot, MATRIX)
    name, _, release = cupy.partition("==")
    rejected = {
        entry.constraint
        for entry in resolution.rejected
        if entry.candidate.kind is CandidateKind.WHEEL
        and (entry.candidate.name, entry.candidate.version, entry.candidate.extra) == (name, release, None)
    }
    findings = diagnose(snapshot, MATRIX, resolution, lambda: 0.0).findings
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    assert bool(errors) == bool(rejected - OF_A_CHOICE), (rejected, errors)
