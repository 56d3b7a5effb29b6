"""No healthy GPU fails: every bound is held by other orders of summation, with and without fused operations.

A hundred inputs each, computed by the processor; the table that is printed (``-s``) has the largest share of each bound
that an order uses. Consult this table before tightening a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gpuenv.smoke.payload.expected import ExpectedArray, find_wrong
from tests.smoke.payload import gpu_test
from tests.smoke.test_numerical_bounds import bfloat16

pytestmark = pytest.mark.slow

Array = Any  # an array of NumPy
SEEDS = range(100)
WIDER = {"f": np.float64, "F": np.complex128, "d": np.longdouble, "D": np.clongdouble, "e": np.float64}
# The type in which a GPU sums: tensor cores sum half precision in single.
SUMS = {"e": "f"}

Sum = Callable[[Iterator[Array]], Array]


def in_sequence(terms: Iterator[Array]) -> Array:
    total = next(terms)
    for term in terms:
        total = total + term
    return total


def backwards(terms: Iterator[Array]) -> Array:
    return in_sequence(iter([*terms][::-1]))


def in_pairs(terms: Iterator[Array]) -> Array:
    found = [*terms]
    while len(found) > 1:
        rest = found[len(found) // 2 * 2 :]
        found = [a + b for a, b in zip(found[::2], found[1::2], strict=False)] + rest
    return found[0]


def in_parts(terms: Iterator[Array]) -> Array:
    found = [*terms]
    return in_sequence(in_sequence(iter(found[part::8])) for part in range(min(8, len(found))))


ORDERS: dict[str, Sum] = {
    "in sequence": in_sequence,
    "backwards": backwards,
    "in pairs": in_pairs,
    "in eight parts": in_parts,
}


def fused(a: Array, b: Array) -> Array:
    """A @ B with one rounding for each product and sum."""
    kind = SUMS.get(a.dtype.char, a.dtype.char)
    total = np.zeros((a.shape[0], b.shape[1]), kind)
    for k in range(a.shape[1]):
        wide = a[:, k : k + 1].astype(WIDER[kind]) * b[k : k + 1].astype(WIDER[kind])
        total = (total.astype(WIDER[kind]) + wide).astype(kind)
    return total.astype(a.dtype)


def multiplied(a: Array, b: Array, order: Sum) -> Array:
    kind = SUMS.get(a.dtype.char, a.dtype.char)
    terms = (a[:, k : k + 1].astype(kind) * b[k : k + 1].astype(kind) for k in range(a.shape[1]))
    return order(terms).astype(a.dtype)


def cut_off(a: Array, b: Array) -> Array:
    """A @ B as tensor cores sum it: in single precision, cut off rather than rounded."""
    total = np.zeros((a.shape[0], b.shape[1]), "f")
    for k in range(a.shape[1]):
        exact = total.astype("d") + a[:, k : k + 1].astype("d") * b[k : k + 1].astype("d")
        total = exact.astype("f")
        total = np.where(np.abs(total) > np.abs(exact), np.nextafter(total, np.float32(0)), total)
    return total


def share_of_bound(answer: ExpectedArray, got: Array) -> float:
    """The largest error as a share of its bound, by elements and by the norm."""
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    error = np.abs(got.astype(wide) - answer.value)
    bound = np.broadcast_to(answer.bound, error.shape)
    share = float((error[bound > 0] / bound[bound > 0]).max(initial=0.0))
    return max(share, float(np.linalg.norm(error.ravel())) / answer.norm if answer.norm else 0.0)


class Table:
    """The largest share of each bound."""

    def __init__(self) -> None:
        self.shares: dict[tuple[str, str], float] = {}

    def add(self, which: str, order: str, expected: dict[str, ExpectedArray], got: dict[str, Array]) -> None:
        assert find_wrong({name: expected[name] for name in got}, got) == [], (which, order)
        for name, value in got.items():
            key = (f"{which}: {name}", order)
            self.shares[key] = max(self.shares.get(key, 0.0), share_of_bound(expected[name], value))

    def show(self) -> None:
        for (name, order), share in self.shares.items():
            print(f"{name:<36} {order:<16} {share:8.1%} of the bound")  # noqa: T201 - the table


@pytest.mark.parametrize("which", ["f16", "f32", "f64", "c64"])
def test_products_in_any_order(which: str) -> None:
    test, table = gpu_test(f"blas.matmul_{which}"), Table()
    for seed in SEEDS:
        data = test.inputs(np.random.default_rng(seed), {"n": 40})
        expected = test.expect(data)
        pairs = {"c": (data["a"], data["b"]), "whole": (data["whole_a"], data["whole_b"])}
        for name, order in ORDERS.items():
            table.add(test_name(which), name, expected, {key: multiplied(*pair, order) for key, pair in pairs.items()})
        table.add(test_name(which), "fused", expected, {key: fused(*pair) for key, pair in pairs.items()})
        if which == "f16":
            table.add(
                test_name(which), "cut off", expected, {key: cut_off(*pair).astype("e") for key, pair in pairs.items()}
            )
    table.show()


def test_products_in_bfloat16_in_any_order() -> None:
    test, table = gpu_test("blas.matmul_bf16"), Table()
    for seed in SEEDS:
        data = test.inputs(np.random.default_rng(seed), {"n": 40})
        expected = test.expect(data)
        pairs = {"c": (data["a"], data["b"]), "whole": (data["whole_a"], data["whole_b"])}
        for name, order in ORDERS.items():
            answers = {key: bfloat16(multiplied(*pair, order)).astype("f") for key, pair in pairs.items()}
            table.add("blas.matmul_bf16", name, expected, answers)
        for name, product in (("fused", fused), ("cut off", cut_off)):
            answers = {key: bfloat16(product(*pair)).astype("f") for key, pair in pairs.items()}
            table.add("blas.matmul_bf16", name, expected, answers)
    table.show()


def test_name(which: str) -> str:
    return f"blas.matmul_{which}"


test_name.__test__ = False  # type: ignore[attr-defined]


def test_reductions_in_any_order() -> None:
    test, table = gpu_test("kernels.reduction"), Table()
    for seed in SEEDS:
        data = test.inputs(np.random.default_rng(seed), {"n": 60})
        expected, x = test.expect(data), data["x"]
        for name, order in ORDERS.items():
            answers = {
                "real": order(iter(x.ravel())),
                "real_by_row": order(iter(x.T)),
                "squares": order(iter((x * x).ravel())),
            }
            table.add("kernels.reduction", name, expected, {key: np.asarray(value) for key, value in answers.items()})
        squares = np.zeros((), "d")
        for value in x.ravel().astype(np.longdouble):
            squares = (squares.astype(np.longdouble) + value * value).astype("d")
        table.add("kernels.reduction", "fused", expected, {"squares": np.asarray(squares)})
    table.show()


def test_element_wise_kernels_with_and_without_fused_operations() -> None:
    table = Table()
    for seed in SEEDS:
        for which, name in (("kernels.elementwise", "axpy"), ("kernels.fusion", "real")):
            test = gpu_test(which)
            data = test.inputs(np.random.default_rng(seed), {"n": 5003})
            expected, (x, y) = test.expect(data), (data["x"], data["y"])
            for order, kind in (("separate", "d"), ("fused", np.longdouble)):
                p, q = x.astype(kind), y.astype(kind)
                value = p * 1.75 + q if name == "axpy" else p * q + p - q
                table.add(which, order, expected, {name: value.astype("d")})
        test = gpu_test("kernels.transcendental")
        data = test.inputs(np.random.default_rng(seed), {"n": 2003})
        expected = test.expect(data)
        for kind in "fd":
            table.add("kernels.transcendental", "NumPy", expected, dict(test.results(np, data, kind)))
    table.show()


def by_halves(x: Array, root: Array) -> Array:
    """A transform by decimation in time; ``root``: the roots of unity of the whole length, in the type of x."""
    n = x.shape[0]
    if n == 1:
        return x
    even, odd = by_halves(x[::2], root[::2]), by_halves(x[1::2], root[::2])
    turned = root[: n // 2] * odd
    return np.concatenate([even + turned, even - turned])


def by_convolution(x: Array) -> Array:
    """Bluestein's transform, as libraries compute large primes: three of at least twice the length."""
    n, kind = x.shape[0], x.dtype
    chirp = np.exp(-1j * np.pi * (np.arange(n, dtype=np.int64) ** 2 % (2 * n)) / n).astype(kind)
    length = 1 << (2 * n - 1).bit_length()
    filter_ = np.zeros(length, kind)
    filter_[:n], filter_[length - n + 1 :] = chirp.conj(), chirp[:0:-1].conj()
    padded = np.zeros(length, kind)
    padded[:n] = x * chirp
    product = (np.fft.fft(padded) * np.fft.fft(filter_)).astype(kind)
    return (np.fft.ifft(product).astype(kind)[:n] * chirp).astype(kind)


def test_transforms_by_other_algorithms() -> None:
    test, table = gpu_test("fft.complex"), Table()
    for seed in SEEDS:
        data = test.inputs(np.random.default_rng(seed), {"lengths": [2, 4096, 1009]})
        expected = test.expect(data)
        for label, kind in (("single", "F"), ("double", "D")):
            for n, signal in data.items():
                name, x = f"{label}_{n}", signal.astype(kind)
                table.add("fft.complex", "NumPy", expected, {name: np.fft.fft(x).astype(kind)})
                if n == "1009":
                    table.add("fft.complex", "by convolution", expected, {name: by_convolution(x)})
                else:
                    root = np.exp(-2j * np.pi * np.arange(len(x)) / len(x)).astype(kind)
                    table.add("fft.complex", "by halves", expected, {name: by_halves(x, root)})
    table.show()


# Linear algebra, in double precision. An update is ``start`` less products of a column and a row.

Update = Callable[[Array, list[tuple[Array, Array]]], Array]


def updated(order: Sum) -> Update:
    return lambda start, pairs: order(iter([start, *(-(p * q) for p, q in pairs)]))


def fused_update(start: Array, pairs: list[tuple[Array, Array]]) -> Array:
    total = start
    for p, q in pairs:
        total = (total.astype(np.longdouble) - p.astype(np.longdouble) * q).astype("d")
    return total


UPDATES: dict[str, Update] = {**{name: updated(order) for name, order in ORDERS.items()}, "fused": fused_update}


def substituted(t: Array, b: Array, update: Update) -> Array:
    """The solution of T x = b for a lower triangular T."""
    x = np.zeros_like(b)
    for i in range(len(t)):
        x[i] = update(b[i], [(t[i, j], x[j]) for j in range(i)]) / t[i, i]
    return x


def substituted_back(t: Array, b: Array, update: Update) -> Array:
    """The same for an upper triangular T."""
    return substituted(t[::-1, ::-1], b[::-1], update)[::-1]


def solved(a: Array, b: Array, update: Update) -> Array:
    """The solution of A x = b by Gaussian elimination with partial pivoting (Doolittle's form)."""
    n = len(a)
    a, b, lower, upper = a.copy(), b.copy(), np.eye(n), np.zeros((n, n))
    for k in range(n):
        column = update(a[k:, k], [(lower[k:, j], upper[j, k]) for j in range(k)]).copy()
        pivot = k + int(np.argmax(np.abs(column)))
        for rows in (a, b, lower[:, :k]):
            rows[[k, pivot]] = rows[[pivot, k]]
        column[[0, pivot - k]] = column[[pivot - k, 0]]
        upper[k, k], lower[k + 1 :, k] = column[0], column[1:] / column[0]
        upper[k, k + 1 :] = update(a[k, k + 1 :], [(lower[k, j], upper[j, k + 1 :]) for j in range(k)])
    return substituted_back(upper, substituted(lower, b, update), update)


def triangular_factor(a: Array, update: Update) -> Array:
    """Cholesky's factor."""
    factor = np.zeros_like(a)
    for k in range(len(a)):
        column = update(a[k:, k], [(factor[k:, j], factor[k, j]) for j in range(k)])
        factor[k:, k] = column / np.sqrt(column[0])
    return factor


def reflected(a: Array, update: Update) -> tuple[Array, Array]:
    """Q and R by Householder's reflections."""
    rows, columns = a.shape
    r, q = a.copy(), np.eye(rows)
    for k in range(columns):
        v = r[k:, k].copy()
        v[0] += np.copysign(np.sqrt(-update(np.zeros(()), [(x, x) for x in v])), v[0])
        scale = 2.0 / -update(np.zeros(()), [(x, x) for x in v])
        for part in (r[k:, k:], q.T[k:]):
            dots = -update(np.zeros(part.shape[1]), list(zip(v, part, strict=True)))
            np.subtract(part, (scale * v)[:, None] * dots, out=part)
    return q[:, :columns], r[:columns]


def rotation(p: float, q: float, r: float) -> tuple[float, float]:
    """Cosine and sine that make the symmetric matrix of p, r and r, q diagonal (Golub, Van Loan, section 8.5.2)."""
    if r == 0:
        return 1.0, 0.0
    tau = (q - p) / (2.0 * r)
    t = np.copysign(1.0, tau) / (abs(tau) + np.hypot(1.0, tau))
    c = 1.0 / np.hypot(1.0, t)
    return c, c * t


def rotated_values(a: Array) -> tuple[Array, Array, Array]:
    """U, s and V.T by one-sided rotations (Hestenes, Jacobi), as gesvdj computes them."""
    a, v = a.copy(), np.eye(a.shape[1])
    for _ in range(12):
        for i in range(a.shape[1] - 1):
            for j in range(i + 1, a.shape[1]):
                c, s = rotation(a[:, i] @ a[:, i], a[:, j] @ a[:, j], a[:, i] @ a[:, j])
                for part in (a, v):
                    part[:, [i, j]] = part[:, [i, j]] @ np.array([[c, s], [-s, c]])
    s = np.linalg.norm(a, axis=0)
    order = np.argsort(-s)
    return (a / s)[:, order], s[order], v.T[order]


def test_triangular_systems_in_any_order() -> None:
    test, table = gpu_test("blas.triangular"), Table()
    for seed in SEEDS:
        data = test.inputs(np.random.default_rng(seed), {"n": 24})
        expected, x = test.expect(data), data["x"]
        for name, update in UPDATES.items():
            lower, upper = data["lower"], data["upper"]
            answers = {
                "lower": substituted(lower, lower @ x, update),
                "upper": substituted_back(upper, upper @ x, update),
                "transposed": substituted_back(lower.T, lower.T @ x, update),
            }
            table.add("blas.triangular", name, expected, answers)
    table.show()


def test_linear_systems_in_any_order() -> None:
    test, table = gpu_test("solver.systems"), Table()
    for seed in SEEDS:
        data = test.inputs(np.random.default_rng(seed), {"n": 24})
        expected, full, tall, x = test.expect(data), data["full"], data["tall"], data["x"]
        for name, update in UPDATES.items():
            inverse = solved(full, np.eye(len(full)), update)
            q, r = reflected(tall, update)
            answers = {
                "solve": solved(full, full @ x, update),
                "inverse": multiplied(inverse, full @ x, ORDERS.get(name, in_sequence)),
                "lstsq": substituted_back(r, q.T @ (tall @ x), update),
            }
            table.add("solver.systems", name, expected, answers)
        lstsq = np.linalg.lstsq(tall, tall @ x, rcond=1e-12)[0]
        table.add("solver.systems", "NumPy", expected, {"solve": np.linalg.solve(full, full @ x), "lstsq": lstsq})
    table.show()


def test_decompositions_in_any_order() -> None:
    eigen, qr, table = gpu_test("solver.eigen"), gpu_test("solver.qr"), Table()
    for seed in SEEDS:
        data = eigen.inputs(np.random.default_rng(seed), {"n": 24})
        expected = eigen.expect(data)
        tall = qr.inputs(np.random.default_rng(seed), {"n": 24})
        expected_of_tall = qr.expect(tall)
        for name, update in UPDATES.items():
            table.add("solver.eigen", name, expected, {"factor": triangular_factor(data["a"], update)})
            q, r = reflected(tall["a"], update)
            answers = {"product": q @ np.triu(r), "orthogonal": q.T @ q, "diagonal": np.abs(np.diag(r))}
            table.add("solver.qr", name, expected_of_tall, answers)
    table.show()


def test_eigenvalues_and_singular_values_by_other_algorithms() -> None:
    """A positive definite matrix has its eigenvalues as singular values."""
    eigen, svd, table = gpu_test("solver.eigen"), gpu_test("solver.svd"), Table()
    for seed in SEEDS:
        data = eigen.inputs(np.random.default_rng(seed), {"n": 12})
        wide = svd.inputs(np.random.default_rng(seed), {"n": 12})
        expected, expected_of_wide = eigen.expect(data), svd.expect(wide)
        by_numpy = np.linalg.eigh(data["a"])
        _, s, v = rotated_values(data["a"])
        for name, values, vectors in (("NumPy", *by_numpy), ("rotations", s[::-1], v[::-1].T)):
            answers = {"values": values, "product": (vectors * values) @ vectors.T}
            table.add("solver.eigen", name, expected, answers)
        for name, (u, s, v) in (
            ("NumPy", np.linalg.svd(wide["a"], full_matrices=False)),
            ("rotations", rotated_values(wide["a"])),
        ):
            answers = {"values": s, "product": (u * s) @ v, "orthogonal": u.T @ u}
            table.add("solver.svd", name, expected_of_wide, answers)
    table.show()
