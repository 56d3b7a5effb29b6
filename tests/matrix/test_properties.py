"""Properties of every resolution: resolve never raises, order does not matter, and only named rules reject a wheel."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import choose, resolve
from gpuenv.model.resolution import BY_CALLER, Candidate, CandidateKind, ConstraintName, Resolution
from gpuenv.model.snapshot import Snapshot
from tests.support.matrix import MATRIX

T = TypeVar("T")
_drivers = st.sampled_from([str(row.branch) for row in MATRIX.driver_branches])
_capabilities = st.sampled_from(sorted({str(row.compute_capability) for row in MATRIX.products}))
_pythons = st.sampled_from(
    ["3.6", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t", "3.15", "3.15t"]
)
_platforms = st.sampled_from(
    [("linux", "x86_64"), ("linux", "aarch64"), ("windows", "x86_64"), ("windows", "aarch64"), ("darwin", "aarch64")]
)
_libcs = st.sampled_from(["glibc-2.5", "glibc-2.17", "glibc-2.26", "glibc-2.36", "musl-1.2"])
_PROFILE = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _snapshot(
    driver: str, python: str = "3.12", platform: tuple[str, str] = ("linux", "x86_64"), libc: str = "glibc-2.36"
) -> Snapshot:
    facts = (f"os={platform[0]}", f"arch={platform[1]}", f"libc={libc}", f"python={python}", f"driver={driver}")
    return assume(Snapshot(), facts, MATRIX)


def _with_gpus(snapshot: Snapshot, capabilities: list[str]) -> Snapshot:
    gpus = [assume(snapshot, [f"compute-capability={text}"], MATRIX).gpus[0] for text in capabilities]
    return snapshot._replace(gpus=tuple(gpus))


def _fitting(resolution: Resolution) -> set[Candidate]:
    rejected = {entry.candidate for entry in resolution.rejected}
    every = {
        Candidate(CandidateKind.WHEEL, line.name, release.cupy, extra)
        for line in MATRIX.wheel_lines
        for release in line.releases
        for extra in (*release.extras, None)
    }
    return every - rejected


@given(_drivers, st.lists(_capabilities, max_size=3), _pythons, _platforms, _libcs)
@_PROFILE
def test_every_machine_is_resolved_with_an_explanation(
    driver: str, gpus: list[str], python: str, platform: tuple[str, str], libc: str
) -> None:
    resolution = resolve(_with_gpus(_snapshot(driver, python, platform, libc), gpus), MATRIX)
    assert resolution.explanation
    if resolution.wheel is None:
        assert resolution.rejected


@given(_drivers, st.lists(_capabilities, max_size=3), _pythons, _platforms, _libcs)
@_PROFILE
def test_choose_and_resolve_agree_on_the_wheel(
    driver: str, gpus: list[str], python: str, platform: tuple[str, str], libc: str
) -> None:
    snapshot = _with_gpus(_snapshot(driver, python, platform, libc), gpus)
    assert choose(snapshot, MATRIX) == resolve(snapshot, MATRIX).wheel


@given(_drivers, _drivers, st.lists(_capabilities, min_size=1, max_size=3), _pythons, _platforms)
@_PROFILE
def test_a_newer_driver_rejects_a_candidate_only_for_an_unsupported_gpu(
    one: str, other: str, gpus: list[str], python: str, platform: tuple[str, str]
) -> None:
    older, newer = sorted((one, other), key=int)
    before = _fitting(resolve(_with_gpus(_snapshot(older, python, platform), gpus), MATRIX))
    after = resolve(_with_gpus(_snapshot(newer, python, platform), gpus), MATRIX)
    for candidate in before - _fitting(after):
        reasons = {entry.constraint for entry in after.rejected if entry.candidate == candidate}
        assert reasons == {ConstraintName.DRIVER_SUPPORTS_GPU}


@given(_drivers, st.lists(_capabilities, min_size=1, max_size=2), _capabilities, _pythons, _platforms)
@_PROFILE
def test_an_added_gpu_never_adds_a_candidate(
    driver: str, gpus: list[str], added: str, python: str, platform: tuple[str, str]
) -> None:
    before = _fitting(resolve(_with_gpus(_snapshot(driver, python, platform), gpus), MATRIX))
    after = _fitting(resolve(_with_gpus(_snapshot(driver, python, platform), [*gpus, added]), MATRIX))
    assert after <= before


@given(
    st.fixed_dictionaries(
        {"compute-capability": _capabilities},
        optional={
            "driver": _drivers,
            "python": _pythons,
            "os": st.sampled_from(["linux", "windows", "darwin"]),
            "arch": st.sampled_from(["x86_64", "aarch64"]),
            "libc": _libcs,
        },
    ),
    st.randoms(use_true_random=False),
)
@_PROFILE
def test_given_facts_are_not_assumed_and_only_narrow_the_choice(facts: dict[str, str], random: Random) -> None:
    options = [f"{key}={value}" for key, value in facts.items()]
    resolution = resolve(assume(Snapshot(), options, MATRIX), MATRIX)
    guessed = (entry.fact for entry in resolution.assumptions if entry.value != BY_CALLER)
    assumed = [fact for facts_of_one in guessed for fact in facts_of_one.split(" and ")]
    assert len(assumed) == len(set(assumed))
    assert not {fact.rpartition(".")[2] for fact in assumed} & set(facts)
    # All but the platform, whose default is the most common one.
    others = [text for text in options if not text.startswith(("os=", "arch="))]
    fewer = [*(set(options) - set(others)), *random.sample(others, random.randrange(len(others) + 1))]
    assert _fitting(resolution) <= _fitting(resolve(assume(Snapshot(), fewer, MATRIX), MATRIX))


@given(_drivers, st.lists(_capabilities, max_size=2), st.randoms(use_true_random=False))
@_PROFILE
def test_the_order_of_matrix_rows_does_not_matter(driver: str, gpus: list[str], random: Random) -> None:
    def shuffled(rows: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(random.sample(rows, len(rows)))

    shuffled_matrix = replace(
        MATRIX,
        driver_branches=shuffled(MATRIX.driver_branches),
        cuda_minors=shuffled(MATRIX.cuda_minors),
        cuda_majors=shuffled(MATRIX.cuda_majors),
        generations=shuffled(MATRIX.generations),
        wheel_lines=tuple(line._replace(releases=shuffled(line.releases)) for line in shuffled(MATRIX.wheel_lines)),
    )
    snapshot = _with_gpus(_snapshot(driver), gpus)
    ordered, unordered = resolve(snapshot, MATRIX), resolve(snapshot, shuffled_matrix)
    assert unordered.wheel == ordered.wheel
    assert unordered.next_better == ordered.next_better
    assert set(unordered.rejected) == set(ordered.rejected)
