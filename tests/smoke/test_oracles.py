"""The oracles: the correct answer passes, and every injected error is caught in every answer of every test."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gpuenv.smoke.payload.expected import ExpectedArray, approx, exact, find_wrong, gamma
from tests.smoke.payload import LEVELS, NAMES, example, gpu_test

if TYPE_CHECKING:
    from collections.abc import Iterator

# Answers that no computation in double precision gives: a mean of random numbers, a time, a share of memory.
STATISTICAL = {("random.moments", name) for name in ("uniform", "normal", "exponential", "halves")}
LOOSE = STATISTICAL | {("streams.timing", "milliseconds"), ("memory.leak", "free")}
# An error of 1 % is within the bound of two roundings to bfloat16, and of sums of thousands of products; the products
# of whole numbers in these tests show it.
COARSE = {
    ("blas.matmul_bf16", "c", "normal"),
    ("blas.matmul_bf16", "c", "deep"),
    ("blas.matmul_tf32", "c", "deep"),
    ("blas.rates", "f16", "deep"),
    ("blas.rates", "f32", "deep"),
}
# Answers with interchangeable elements: the halves of an interval are equally likely.
SYMMETRIC = {("random.moments", "halves")}


def correct_answers(expected: dict[str, ExpectedArray]) -> dict[str, Any]:
    """The answers of a GPU without any fault."""
    return {name: np.asarray(answer.value).astype(answer.dtype) for name, answer in expected.items()}


def one_wrong_element(answer: ExpectedArray, correct: Any) -> Iterator[Any]:  # noqa: ANN401 - an array
    """The last element, with the bit changed that the fault of the payload changes; then its sign."""
    if not correct.size:
        return
    flipped = correct.copy()
    raw = flipped.reshape(-1).view(np.uint8)
    raw[-1 if correct.dtype.kind != "c" else -1 - correct.itemsize // 2] ^= 1 if correct.dtype.kind == "b" else 0x40
    yield flipped
    if correct.dtype.kind in "ifc" and answer.value.reshape(-1)[-1] != 0 and not np.isnan(answer.value.reshape(-1)[-1]):
        negated = correct.copy()
        negated.reshape(-1)[-1] = -negated.reshape(-1)[-1]
        yield negated


def zeros(_: ExpectedArray, correct: Any) -> Iterator[Any]:  # noqa: ANN401 - an array
    """The content of memory that was never written to."""
    if np.any(correct != 0):
        yield np.zeros_like(correct)


def swapped_axes(_: ExpectedArray, correct: Any) -> Iterator[Any]:  # noqa: ANN401 - an array
    """The axes in another order, in the same shape; of a vector, the elements in reverse."""
    swapped = (
        np.ascontiguousarray(correct.T).reshape(correct.shape)
        if correct.ndim > 1
        else correct[::-1]
        if correct.ndim
        else correct
    )
    # The unit matrix is the same in any order of its axes.
    if not np.array_equal(swapped, correct, equal_nan=correct.dtype.kind in "fc"):
        yield np.ascontiguousarray(swapped)


def single_precision(answer: ExpectedArray, correct: Any) -> Iterator[Any]:  # noqa: ANN401 - an array
    """The answer rounded to single precision."""
    if answer.dtype not in (np.float64, np.complex128):
        return
    single = correct.astype(np.complex64 if correct.dtype.kind == "c" else np.float32).astype(correct.dtype)
    if not np.array_equal(single, correct, equal_nan=True):
        yield single


def one_percent(answer: ExpectedArray, correct: Any) -> Iterator[Any]:  # noqa: ANN401 - an array
    """The answer times 1.01: of a number near zero, or of a flag, nothing to see."""
    if answer.dtype.kind not in "fc":
        return
    with np.errstate(all="ignore"):
        scaled = (correct * 1.01).astype(correct.dtype)
    if not np.array_equal(scaled, correct, equal_nan=True):
        yield scaled


def one_wrong_block(answer: ExpectedArray, correct: Any) -> Iterator[Any]:  # noqa: ANN401 - an array
    """The last elements, up to 16, as those of an answer that starts elsewhere."""
    if correct.ndim == 0 or correct.shape[-1] < 2:
        return
    moved = correct.copy()
    moved[..., -16:] = np.roll(moved[..., -16:], 1, axis=-1)
    # Random sums, and flags that are equal, have no order.
    same = (moved == correct) | (np.isnan(moved) & np.isnan(correct) if answer.dtype.kind in "fc" else False)
    if not same.all():
        yield moved


def unwritten(_: ExpectedArray, correct: Any) -> Iterator[Any]:  # noqa: ANN401 - an array
    """What the memory held before."""
    held = np.full((*correct.shape, correct.itemsize), 0x5A, dtype=np.uint8)
    wrong = held.view(correct.dtype)[..., 0] if correct.dtype.kind != "b" else np.ones_like(correct)
    if not np.array_equal(wrong, correct):
        yield wrong


INJECTED = {
    "1 % scale": one_percent,
    "one wrong block": one_wrong_block,
    "unwritten": unwritten,
    "one wrong element": one_wrong_element,
    "zeros": zeros,
    "swapped axes": swapped_axes,
    "single precision": single_precision,
}


@pytest.mark.parametrize("which", NAMES)
def test_the_correct_answer_passes(which: str) -> None:
    expected = example(which).expected
    assert expected
    assert find_wrong(expected, correct_answers(expected)) == []


def each_level() -> list[Any]:
    """Every test at each of its levels: the lowest in small sizes, the others, which take a processor minutes, slow."""
    lowest = {which: next(level for level in LEVELS if level in gpu_test(which).LEVELS) for which in NAMES}
    return [
        pytest.param(which, level, marks=[] if level == lowest[which] else [pytest.mark.slow], id=f"{which}-{level}")
        for which in NAMES
        for level in gpu_test(which).LEVELS
    ]


@pytest.mark.parametrize(("which", "level"), each_level())
def test_an_injected_error_is_caught_in_every_answer_at_every_level(which: str, level: str) -> None:
    expected = example(which, level=level).expected
    correct = correct_answers(expected)
    assert find_wrong(expected, correct) == []
    for (name, answer), kind in product(expected.items(), INJECTED):
        if (
            (kind in ("single precision", "1 % scale") and (which, name) in LOOSE)
            or (kind == "1 % scale" and (which, name, level) in COARSE)
            or (kind in ("swapped axes", "one wrong block") and (which, name) in SYMMETRIC)
        ):
            continue
        for wrong in INJECTED[kind](answer, correct[name]):
            errors = find_wrong({name: answer}, {name: wrong})  # the answers have gigabytes
            assert len(errors) == 1, f"{kind} in {name} passes"
            assert errors[0].startswith(f"{name}: ")


@pytest.mark.parametrize("which", NAMES)
def test_a_stale_buffer_is_caught(which: str) -> None:
    """The answers to the previous input."""
    expected, before = example(which).expected, correct_answers(example(which, seed=8).expected)
    assert find_wrong(expected, before), "the answers do not depend on the input"


@pytest.mark.parametrize("which", NAMES)
def test_answers_of_zeros_and_missing_answers_are_caught(which: str) -> None:
    expected = example(which).expected
    zero_answers = {name: np.zeros(answer.value.shape, answer.dtype) for name, answer in expected.items()}
    assert find_wrong(expected, zero_answers)
    assert len(find_wrong(expected, {})) == len(expected)


@pytest.mark.parametrize("which", NAMES)
def test_an_answer_of_another_type_or_shape_is_caught(which: str) -> None:
    expected = example(which).expected
    for name, correct in correct_answers(expected).items():
        other = np.float32 if correct.dtype != np.float32 else np.float64
        with np.errstate(all="ignore"):
            assert find_wrong(expected, {**correct_answers(expected), name: correct.real.astype(other)})
        assert find_wrong(expected, {**correct_answers(expected), name: correct[None]})
        assert find_wrong(expected, {**correct_answers(expected), name: correct.tolist()})


@pytest.mark.parametrize("which", NAMES)
def test_the_same_seed_gives_the_same_input(which: str) -> None:
    first, again = example(which).expected, gpu_test(which).expect(example(which).inputs)
    for name, answer in first.items():
        assert np.array_equal(answer.value, again[name].value, equal_nan=answer.value.dtype.kind in "fc")


def test_an_error_names_the_element_the_values_and_the_bound() -> None:
    answers = {"c": np.array([[1.0, 2.0], [3.0, 4.5]])}
    (text,) = find_wrong({"c": approx(np.array([[1.0, 2.0], [3.0, 4.0]]), 0.25, "d")}, answers)
    assert text == "c: 1 of 4 wrong; element 1, 1 is 4.5 instead of 4.0 (allowed error 0.25)"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_infinity_and_nan_equal_only_themselves(value: float) -> None:
    assert find_wrong({"x": approx(np.array([1.0]), 1e300, "d")}, {"x": np.array([value])})
    assert not find_wrong({"x": approx(np.array([value]), 0.5, "d")}, {"x": np.array([value])})


def test_each_element_may_have_its_own_bound() -> None:
    answer = {"x": approx(np.array([1.0, 1.0]), np.array([0.5, 0.01]), "d")}
    assert not find_wrong(answer, {"x": np.array([1.4, 1.005])})
    assert find_wrong(answer, {"x": np.array([1.0, 1.4])})


def test_large_integers_are_compared_exactly() -> None:
    assert find_wrong({"x": exact(np.array([2**62]))}, {"x": np.array([2**62 + 1])})


def test_the_error_of_a_sum_grows_with_its_terms() -> None:
    assert gamma(10, 2.0**-53) < gamma(1000, 2.0**-53) < 1e-12
