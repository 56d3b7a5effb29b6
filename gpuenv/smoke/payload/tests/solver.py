"""Linear systems and decompositions of matrices with known answers."""

import numpy as np

from gpuenv.smoke.payload.expected import UNIT, approx, gamma
from gpuenv.smoke.payload.tests import PLAIN_REDUCTIONS, GpuTest


class _Solver(GpuTest):
    SHRINKS = "n"

    def memory(self, size):
        return size["n"] ** 2 * 8 * 20


class Systems(_Solver):
    """Linear systems and least squares with a known solution."""

    TITLE = "linear systems and least squares"
    LEVELS = {"quick": {"n": 128}, "normal": {"n": 400}, "deep": {"n": 1500}}
    HOST = 0.5  # two matrices: the GPU needs workspaces
    ENVIRONMENT = PLAIN_REDUCTIONS  # the rank in lstsq is a reduction
    TOLERANCE = (
        "the right-hand side is made from a known solution; the matrix has a condition number below 4 (rows off the"
        " diagonal sum to less than half of it), so solving errs by less than 64 gamma(n) max|x| with pivoting"
    )

    def inputs(self, random, size):
        n = size["n"]
        full = random.uniform(-0.5 / n, 0.5 / n, size=(n, n)) + np.eye(n)[random.permutation(n)]
        tall = np.concatenate([full, random.uniform(-0.5 / n, 0.5 / n, size=(n // 2, n))])
        return {"full": full, "tall": tall, "x": random.standard_normal((n, 5))}

    def expect(self, data):
        x = data["x"]
        bound = 64 * gamma(x.shape[0], UNIT["d"]) * float(np.abs(x).max())
        return {
            "solve": approx(x, bound, "d"),
            "inverse": approx(x, bound, "d"),
            "lstsq": approx(x, 8 * bound, "d"),
        }

    def run(self, gpu, data):
        linalg = gpu.cp.linalg
        full, tall, x = gpu.to_device(data["full"]), gpu.to_device(data["tall"]), data["x"]
        side, long_side = gpu.to_device(data["full"] @ x), gpu.to_device(data["tall"] @ x)
        return {
            "solve": gpu.to_host(linalg.solve(full, side)),
            "inverse": gpu.to_host(linalg.inv(full) @ side),
            "lstsq": gpu.to_host(linalg.lstsq(tall, long_side, rcond=1e-12)[0]),
        }


class Eigen(_Solver):
    """Eigenvalues and eigenvectors of a symmetric matrix with known ones, and the Cholesky factor."""

    TITLE = "eigenvalues, eigenvectors and the Cholesky factor"
    LEVELS = {"normal": {"n": 130}, "deep": {"n": 700}}
    TOLERANCE = "backward stable: every value within gamma(40 n) |A|_2 (Weyl), doubled because A itself was rounded"

    def inputs(self, random, size):
        n = size["n"]
        values = np.sort(random.uniform(1.0, 3.0, size=n))
        q = np.linalg.qr(random.standard_normal((n, n)))[0]
        a = (q * values) @ q.T
        return {"a": (a + a.T) / 2, "values": values}

    def expect(self, data):
        a, values = data["a"], data["values"]
        bound = 2 * gamma(40 * values.size, UNIT["d"]) * float(values[-1])
        return {
            "values": approx(values, bound, "d"),
            "product": approx(a, bound, "d"),
            # The error of the factor is that of the matrix times the condition number, at most 3.
            "factor": approx(np.linalg.cholesky(a), 8 * bound, "d"),
        }

    def run(self, gpu, data):
        linalg, a = gpu.cp.linalg, gpu.to_device(data["a"])
        values, vectors = linalg.eigh(a)
        values, vectors = gpu.to_host(values), gpu.to_host(vectors)
        return {
            "values": values,
            "product": (vectors * values) @ vectors.T,
            "factor": np.tril(gpu.to_host(linalg.cholesky(a))),
        }


class Qr(_Solver):
    """The QR decomposition: the product of the factors, Q orthogonal, R triangular."""

    TITLE = "QR decomposition"
    LEVELS = {"normal": {"n": 150}, "deep": {"n": 900}}
    TOLERANCE = "Householder's method is backward stable: gamma(40 n) |A|_2; gamma(40 n) for the orthogonality"

    def inputs(self, random, size):
        n = size["n"]
        return {"a": random.standard_normal((n + 30, n))}

    def expect(self, data):
        a = data["a"]
        bound, norm = gamma(40 * a.shape[0], UNIT["d"]), float(np.linalg.norm(a, 2))
        # The rows of R are determined up to their signs.
        r = np.linalg.qr(a, mode="r")
        return {
            "product": approx(a, bound * norm, "d"),
            "orthogonal": approx(np.eye(a.shape[1]), bound, "d"),
            "diagonal": approx(np.abs(np.diag(r)), 64 * bound * norm, "d"),
        }

    def run(self, gpu, data):
        q, r = gpu.cp.linalg.qr(gpu.to_device(data["a"]))
        q, r = gpu.to_host(q), gpu.to_host(r)
        return {"product": q @ np.triu(r), "orthogonal": q.T @ q, "diagonal": np.abs(np.diag(r))}


class Svd(_Solver):
    """The singular value decomposition: singular values as in NumPy, and the product of the factors."""

    TITLE = "singular value decomposition"
    LEVELS = {"normal": {"n": 120}, "deep": {"n": 600}}
    TOLERANCE = "a backward stable method errs by p(n) u |A|_2 in every value (Weyl) and in the product; p(n) = 40 n"

    def inputs(self, random, size):
        n = size["n"]
        return {"a": random.standard_normal((n + 20, n))}

    def expect(self, data):
        a = data["a"]
        unity = gamma(40 * a.shape[0], UNIT["d"])
        bound = unity * float(np.linalg.norm(a, 2))
        return {
            "values": approx(np.linalg.svd(a, compute_uv=False), bound, "d"),
            "product": approx(a, bound, "d"),
            "orthogonal": approx(np.eye(a.shape[1]), unity, "d"),
        }

    def run(self, gpu, data):
        u, s, v = gpu.cp.linalg.svd(gpu.to_device(data["a"]), full_matrices=False)
        u, s, v = gpu.to_host(u), gpu.to_host(s), gpu.to_host(v)
        return {"values": s, "product": (u * s) @ v, "orthogonal": u.T @ u}
