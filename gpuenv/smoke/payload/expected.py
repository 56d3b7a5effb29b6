"""Expected arrays and their comparison with a GPU's answers. Uses only NumPy, so it is testable without a GPU."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np

Array = Any  # a NumPy or CuPy array; Python 3.8 has no narrower type

# Unit roundoffs: half the distance from 1 to the next number.
UNIT = {"e": 2.0**-11, "f": 2.0**-24, "d": 2.0**-53, "F": 2.0**-24, "D": 2.0**-53}


class ExpectedArray(NamedTuple):
    """An expected answer of the GPU.

    ``value`` is a NumPy array; ``bound`` is the largest absolute error, a number or an array of the same shape, where 0
    requires equality (NaN equals NaN); ``dtype`` is the dtype of the answer; ``norm`` is the largest 2-norm of all its
    errors together, or None.
    """

    value: Array
    bound: Any
    dtype: Any
    norm: Optional[float] = None


ExpectedAnswers = Dict[str, ExpectedArray]


def exact(value: Array) -> ExpectedArray:
    """Returns an expected array without tolerance."""
    value = np.asarray(value)
    return ExpectedArray(value, 0, value.dtype)


def approx(value: Array, bound: Any, dtype: Any) -> ExpectedArray:
    """Returns an expected array with an absolute tolerance."""
    return ExpectedArray(np.asarray(value), bound, np.dtype(dtype))


def gamma(count: float, unit: float) -> float:
    """The relative error of a sum of ``count`` rounded terms (Higham, Accuracy and Stability, section 3.1)."""
    return count * unit / (1.0 - count * unit)


def repeated(count: int, distinct: int) -> Array:
    """Returns ``count`` row or column numbers with few distinct ones: 0 1 2, 1 2 0, 2 0 1 for three.

    Each repetition begins one later, so that exchanging blocks of a usual size changes a matrix.
    """
    numbers = np.arange(count)
    return (numbers + numbers // distinct) % distinct


def find_wrong(expected: ExpectedAnswers, got: Dict[str, Array]) -> List[str]:
    """Describes each wrong answer; empty if all are right."""
    missing = ["%s: no answer" % name for name in expected if name not in got]
    unexpected = ["%s: unexpected answer" % name for name in got if name not in expected]
    wrong = [_describe_wrong(name, expected[name], got[name]) for name in expected if name in got]
    return missing + unexpected + [text for text in wrong if text]


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
        return _describe_norm(name, answer, got)
    index = tuple(int(number) for number in np.argwhere(wrong)[0])
    actual, right = got[index], answer.value[index]
    bound = np.broadcast_to(np.asarray(answer.bound), got.shape)[index]
    tail = "" if not bound else " (allowed error %.3g)" % bound
    element = "element %s" % ", ".join(map(str, index)) if index else "the value"
    return "%s: %d of %d wrong; %s is %s instead of %s%s" % (name, count, got.size, element, actual, right, tail)


def _describe_norm(name: str, answer: ExpectedArray, got: Array) -> str:
    """Describes errors that are small each and too large together."""
    if answer.norm is None:
        return ""
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    norm = float(np.linalg.norm((got.astype(wide) - answer.value).ravel()))
    return (
        "" if norm <= answer.norm else "%s: an error of %.3g in the 2-norm (allowed: %.3g)" % (name, norm, answer.norm)
    )


def within(answer: ExpectedArray, got: Array) -> Array:
    """Returns a mask of the right elements."""
    value = answer.value
    if got.dtype.kind in "biu" and not np.any(answer.bound):
        return np.asarray(got == value)
    wide = np.complex128 if "c" in (got.dtype.kind, value.dtype.kind) else np.float64
    actual, right = got.astype(wide), value.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (actual == right) | (np.isnan(actual) & np.isnan(right))
        finite = np.isfinite(actual) & np.isfinite(right)
        return np.asarray(same | (finite & (np.abs(actual - right) <= answer.bound)))
