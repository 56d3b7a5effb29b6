"""The shipped matrix, loaded once per test run."""

from __future__ import annotations

from gpuenv.data import data_path
from gpuenv.matrix.load import load

MATRIX = load(data_path("matrix.yaml"))
