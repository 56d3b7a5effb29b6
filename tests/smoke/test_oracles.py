"""The oracles: the right answer passes, and every planted error is caught, in every answer of every test."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gpuenv.smoke.payload.expected import ExpectedArray, approx, exact, find_wrong, gamma
from tests.smoke.payload import NAMES, example, gpu_test

if TYPE_CHECKING:
    from collections.abc import Iterator

# Answers that no computation in double precision gives: a mean of random numbers, a time, a share of memory.
STATISTICAL = {("random.moments", name) for name in ("uniform", "normal", "exponential", "halves")}
LOOSE = STATISTICAL | {("streams.timing", "milliseconds"), ("memory.leak", "free")}
# Answers of which the order of the elements says nothing: the halves of an interval are equally likely.
SYMMETRIC = {("random.moments", "halves")}


def perfect(expected: dict[str, ExpectedArray]) -> dict[str, Any]:
    """What a GPU without any fault would say."""
    return {name: np.asarray(answer.value).astype(answer.dtype) for name, answer in expected.items()}


def one_wrong_element(answer: ExpectedArray, right: Any) -> Iterator[Any]:  # noqa: ANN401 - an array
    """The last element, with the bit changed that the fault of the payload changes; then its sign."""
    if not right.size:
        return
    flipped = right.copy()
    raw = flipped.reshape(-1).view(np.uint8)
    raw[-1 if right.dtype.kind != "c" else -1 - right.itemsize // 2] ^= 1 if right.dtype.kind == "b" else 0x40
    yield flipped
    if right.dtype.kind in "ifc" and answer.value.reshape(-1)[-1] != 0 and not np.isnan(answer.value.reshape(-1)[-1]):
        negated = right.copy()
        negated.reshape(-1)[-1] = -negated.reshape(-1)[-1]
        yield negated


def zeros(_: ExpectedArray, right: Any) -> Iterator[Any]:  # noqa: ANN401 - an array
    """What memory holds that nobody wrote to."""
    if np.any(right != 0):
        yield np.zeros_like(right)


def swapped_axes(_: ExpectedArray, right: Any) -> Iterator[Any]:  # noqa: ANN401 - an array
    """The axes in another order, in the same shape; of a vector, the elements in reverse."""
    swapped = (
        np.ascontiguousarray(right.T).reshape(right.shape) if right.ndim > 1 else right[::-1] if right.ndim else right
    )
    # A matrix that should be the unit matrix is the same in any order of its axes.
    if not np.array_equal(swapped, right, equal_nan=right.dtype.kind in "fc"):
        yield np.ascontiguousarray(swapped)


def single_precision(answer: ExpectedArray, right: Any) -> Iterator[Any]:  # noqa: ANN401 - an array
    """What is left of double precision after single precision."""
    if answer.dtype not in (np.float64, np.complex128):
        return
    single = right.astype(np.complex64 if right.dtype.kind == "c" else np.float32).astype(right.dtype)
    if not np.array_equal(single, right, equal_nan=True):
        yield single


PLANTED = {
    "one wrong element": one_wrong_element,
    "zeros": zeros,
    "swapped axes": swapped_axes,
    "single precision": single_precision,
}


@pytest.mark.parametrize("which", NAMES)
def test_the_right_answer_passes(which: str) -> None:
    expected = example(which).expected
    assert expected
    assert find_wrong(expected, perfect(expected)) == []


@pytest.mark.parametrize("which", NAMES)
def test_a_planted_error_is_caught_in_every_answer(which: str) -> None:
    expected = example(which).expected
    for (name, answer), kind in product(expected.items(), PLANTED):
        if (kind == "single precision" and (which, name) in LOOSE) or (
            kind == "swapped axes" and (which, name) in SYMMETRIC
        ):
            continue
        for wrong in PLANTED[kind](answer, perfect(expected)[name]):
            complaints = find_wrong(expected, {**perfect(expected), name: wrong})
            assert len(complaints) == 1, f"{kind} in {name} passes"
            assert complaints[0].startswith(f"{name}: ")


@pytest.mark.parametrize("which", NAMES)
def test_a_stale_buffer_is_caught(which: str) -> None:
    """The answers to another input: what the buffers held before."""
    expected, before = example(which).expected, perfect(example(which, seed=8).expected)
    assert find_wrong(expected, before), "the answers do not depend on the input"


@pytest.mark.parametrize("which", NAMES)
def test_a_driver_that_does_nothing_is_caught(which: str) -> None:
    expected = example(which).expected
    nothing = {name: np.zeros(answer.value.shape, answer.dtype) for name, answer in expected.items()}
    assert find_wrong(expected, nothing)
    assert len(find_wrong(expected, {})) == len(expected)


@pytest.mark.parametrize("which", NAMES)
def test_an_answer_of_another_type_or_shape_is_caught(which: str) -> None:
    expected = example(which).expected
    for name, right in perfect(expected).items():
        other = np.float32 if right.dtype != np.float32 else np.float64
        with np.errstate(all="ignore"):
            assert find_wrong(expected, {**perfect(expected), name: right.real.astype(other)})
        assert find_wrong(expected, {**perfect(expected), name: right[None]})
        assert find_wrong(expected, {**perfect(expected), name: right.tolist()})


@pytest.mark.parametrize("which", NAMES)
def test_the_same_seed_gives_the_same_input(which: str) -> None:
    once, again = example(which).expected, gpu_test(which).expect(example(which).given)
    for name, answer in once.items():
        assert np.array_equal(answer.value, again[name].value, equal_nan=answer.value.dtype.kind in "fc")


def test_a_complaint_names_the_place_the_numbers_and_the_bound() -> None:
    said = {"c": np.array([[1.0, 2.0], [3.0, 4.5]])}
    (text,) = find_wrong({"c": approx(np.array([[1.0, 2.0], [3.0, 4.0]]), 0.25, "d")}, said)
    assert text == "c: 1 of 4 wrong; element 1, 1 is 4.5 instead of 4.0 (allowed error 0.25)"


@pytest.mark.parametrize("said", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_never_near_one(said: float) -> None:
    assert find_wrong({"x": approx(np.array([1.0]), 1e300, "d")}, {"x": np.array([said])})
    assert not find_wrong({"x": approx(np.array([said]), 0.5, "d")}, {"x": np.array([said])})


def test_a_bound_of_its_own_for_each_element() -> None:
    answer = {"x": approx(np.array([1.0, 1.0]), np.array([0.5, 0.01]), "d")}
    assert not find_wrong(answer, {"x": np.array([1.4, 1.005])})
    assert find_wrong(answer, {"x": np.array([1.0, 1.4])})


def test_large_whole_numbers_are_not_compared_as_floating_point() -> None:
    assert find_wrong({"x": exact(np.array([2**62]))}, {"x": np.array([2**62 + 1])})


def test_the_error_of_a_sum_grows_with_its_terms() -> None:
    assert gamma(10, 2.0**-53) < gamma(1000, 2.0**-53) < 1e-12
