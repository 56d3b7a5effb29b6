"""Compiles matrix.yaml to JSON when gpuenv is built, also for an editable install."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileMatrix(BuildHookInterface):  # type: ignore[type-arg]
    """Writes gpuenv/data/matrix.json."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Runs before the build.

        Raises:
            MatrixError: when the matrix is invalid.
        """
        del version
        sys.path.insert(0, self.root)
        from gpuenv.data import COMPILED_MATRIX  # noqa: PLC0415 - found in the source tree
        from gpuenv.matrix.load import compile_matrix  # noqa: PLC0415 - found in the source tree

        source = Path(self.root, "matrix.yaml")
        COMPILED_MATRIX.write_text(compile_matrix(source.read_bytes(), str(source)), encoding="utf-8")
        build_data["artifacts"].append("/gpuenv/data/matrix.json")
