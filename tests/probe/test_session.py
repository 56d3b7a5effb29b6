"""A session of all probes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpuenv.probe.request import ProbeRequest
from gpuenv.probe.session import take_snapshot


class MainThreadVariables(Mapping[str, str]):
    """Variables that other threads cannot read; they simulate a bug in parsing an answer."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def __getitem__(self, name: str) -> str:
        if threading.current_thread() is not threading.main_thread():
            raise ZeroDivisionError("a simulated bug")
        return self._variables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)


def test_a_bug_of_gpuenv_is_raised_and_not_reported_as_a_failed_source(tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nexit 9\n", encoding="utf-8")
    smi.chmod(0o755)
    with pytest.raises(ZeroDivisionError, match="a simulated bug"):
        take_snapshot(ProbeRequest(MainThreadVariables({**os.environ, "PATH": str(tmp_path)})))
