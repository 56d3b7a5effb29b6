"""The shipped matrix, read once a test run: that takes a quarter of a second."""

from __future__ import annotations

from gpuenv.data import data_path
from gpuenv.matrix.load import load

MATRIX = load(data_path("matrix.yaml"))
