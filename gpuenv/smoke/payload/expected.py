"""Expected answers and their comparison with what a GPU said. NumPy only: it is tested where no GPU is."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple

import numpy as np

Array = Any  # an array of NumPy or CuPy; Python 3.8 can say no more

# Unit roundoffs: half the distance from 1 to the next number.
UNIT = {"e": 2.0**-11, "f": 2.0**-24, "d": 2.0**-53, "F": 2.0**-24, "D": 2.0**-53}


class ExpectedArray(NamedTuple):
    """What the GPU should say.

    ``value`` is an array of the host, ``bound`` the largest absolute error, a number or an array of the same shape; 0
    asks for equality, NaN for NaN. ``dtype`` is that of the GPU's answer.
    """

    value: Array
    bound: Any
    dtype: Any


ExpectedAnswers = Dict[str, ExpectedArray]


def exact(value: Array) -> ExpectedArray:
    """An answer of which every element must be equal."""
    value = np.asarray(value)
    return ExpectedArray(value, 0, value.dtype)


def approx(value: Array, bound: Any, dtype: Any) -> ExpectedArray:
    """An answer that may be off by an absolute error."""
    return ExpectedArray(np.asarray(value), bound, np.dtype(dtype))


def gamma(count: float, unit: float) -> float:
    """The relative error of a sum of ``count`` rounded terms (Higham, Accuracy and Stability, section 3.1)."""
    return count * unit / (1.0 - count * unit)


def find_wrong(expected: ExpectedAnswers, got: Dict[str, Array]) -> List[str]:
    """What is wrong with the answers; empty where nothing is."""
    lacking = ["%s: no answer" % name for name in expected if name not in got]
    strange = ["%s: an answer that nobody asked for" % name for name in got if name not in expected]
    wrong = [_describe_wrong(name, expected[name], got[name]) for name in expected if name in got]
    return lacking + strange + [text for text in wrong if text]


def _describe_wrong(name: str, answer: ExpectedArray, got: Array) -> str:
    if type(got) is not np.ndarray:
        return "%s: %s instead of a NumPy array" % (name, type(got).__name__)
    if got.dtype != answer.dtype:
        return "%s: type %s instead of %s" % (name, got.dtype, answer.dtype)
    if got.shape != answer.value.shape:
        return "%s: shape %s instead of %s" % (name, got.shape, answer.value.shape)
    wrong = ~within(answer, got)
    count = int(np.count_nonzero(wrong))
    if not count:
        return ""
    place = tuple(int(number) for number in np.argwhere(wrong)[0])
    said, right = got[place], answer.value[place]
    bound = np.broadcast_to(np.asarray(answer.bound), got.shape)[place]
    tail = "" if not bound else " (allowed error %.3g)" % bound
    where = "element %s" % ", ".join(map(str, place)) if place else "the value"
    return "%s: %d of %d wrong; %s is %s instead of %s%s" % (name, count, got.size, where, said, right, tail)


def within(answer: ExpectedArray, got: Array) -> Array:
    """Which elements are right."""
    value = answer.value
    if got.dtype.kind in "biu" and not np.any(answer.bound):
        return np.asarray(got == value)
    wide = np.complex128 if "c" in (got.dtype.kind, value.dtype.kind) else np.float64
    said, right = got.astype(wide), value.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (said == right) | (np.isnan(said) & np.isnan(right))
        finite = np.isfinite(said) & np.isfinite(right)
        return np.asarray(same | (finite & (np.abs(said - right) <= answer.bound)))
