"""Compiles matrix.yaml and the messages of ``gpuenv explain`` to JSON, also for an editable install."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileData(BuildHookInterface):  # type: ignore[type-arg]
    """Writes gpuenv/data/matrix.json and messages.json."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Runs before the build.

        Raises:
            MatrixError, MessageError: when a file is invalid.
        """
        del version
        sys.path.insert(0, self.root)
        from gpuenv.data import COMPILED_MATRIX, COMPILED_MESSAGES  # noqa: PLC0415 - found in the source tree
        from gpuenv.explain.messages import compile_messages  # noqa: PLC0415 - found in the source tree
        from gpuenv.matrix.load import compile_matrix  # noqa: PLC0415 - found in the source tree

        source = Path(self.root, "matrix.yaml")
        COMPILED_MATRIX.write_text(compile_matrix(source.read_bytes(), str(source)), encoding="utf-8")
        COMPILED_MESSAGES.write_text(compile_messages(), encoding="utf-8")
        build_data["artifacts"] += ["/gpuenv/data/matrix.json", "/gpuenv/data/messages.json"]
