"""Version ranges, and equality of releases."""

from __future__ import annotations

import pytest
from packaging.version import InvalidVersion

from gpuenv.matrix.ranges import same_release, within


@pytest.mark.parametrize(
    ("release", "specifier", "is_within"),
    [
        ("13.5.0", ">=13.5,<14", True),
        ("14.2", "!=14.2.0", False),
        ("14.0.0rc1", ">=14.0.0a1", True),  # pre-releases too
        ("14.0.0rc1", "<14", False),  # a pre-release of the bound is not below it
        ("12.9.1", "==12.9.*", True),
        ("2.4.1+cu124", ">=2.4", True),
    ],
)
def test_a_range_contains_the_releases_that_pip_accepts(release: str, specifier: str, *, is_within: bool) -> None:
    assert within(release, specifier) is is_within


@pytest.mark.parametrize("release", ["", "unknown", "1..2", "1.x", "-1"])
def test_an_invalid_version_is_rejected(release: str) -> None:
    with pytest.raises(InvalidVersion):
        within(release, ">=1")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("1.0", "1.0.0", True), ("1.0", "1.1", False), ("of a fork", "of a fork", True), ("9" * 5000, "1", False)],
)
def test_spellings_of_one_release_are_equal(one: str, other: str, *, same: bool) -> None:
    assert same_release(one, other) is same
