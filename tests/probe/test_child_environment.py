"""Children get the variables that they need, and no secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.model.secrets import for_the_driver, without_secrets
from gpuenv.model.snapshot import SourceState
from tests.probe.probe_runs import (
    probe_context,
    probe_cuda,
    probe_files,
    probe_kernel,
    probe_nvml,
    probe_smi,
    probe_target,
)
from tests.probe.venvs import interpreter_of, make_venv, site_packages
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from pathlib import Path

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "sesame",
    "GITHUB_TOKEN": "sesame",
    "DB_PASSWORD": "sesame",
    "PIP_INDEX_URL": "https://me:sesame@index.example/simple",
    "https_proxy": "http://me:sesame@proxy.example:8080",
    "Registry_Auth": "sesame",
    "SSH_AUTH_SOCK": "/tmp/sesame",  # noqa: S108 - not a file
}
NEEDED = {"CUDA_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": "/opt/lib", "NVIDIA_DRIVER_CAPABILITIES": "compute"}


def variables_in(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def test_nvidia_smi_gets_no_secrets(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n/usr/bin/env >> {tmp_path}/seen\n", encoding="utf-8")
    program.chmod(0o755)
    probe_smi(probe_context({**SECRETS, **NEEDED, "UNUSED_VARIABLE": "value", "PATH": f"{tmp_path}:/usr/bin:/bin"}))
    log = (tmp_path / "seen").read_text(encoding="utf-8")
    assert "sesame" not in log
    assert "UNUSED_VARIABLE" not in log
    assert NEEDED.items() <= variables_in(log).items()


@pytest.fixture
def logging_interpreter(tmp_path: Path) -> Path:
    """An interpreter that logs its variables at every start."""
    venv = make_venv(tmp_path / "venv")
    log = str(tmp_path / "seen")
    text = f"import os\nwith open({log!r}, 'a') as file:\n    print(dict(os.environ), file=file)\n"
    run_at_start(site_packages(venv), text)
    return interpreter_of(venv)


def test_the_target_gets_all_variables_but_secrets(tmp_path: Path, logging_interpreter: Path) -> None:
    """The target may depend on any of them."""
    caller = probe_context({**SECRETS, **NEEDED, "SOME_VARIABLE": "value"})
    probe_target(caller, str(logging_interpreter))
    probe_files(caller, str(logging_interpreter), deep=False)
    log = (tmp_path / "seen").read_text(encoding="utf-8").splitlines()
    assert len(log) >= 2
    assert all("sesame" not in line for line in log)
    assert all("'SOME_VARIABLE': 'value'" in line for line in log)


def test_the_drivers_libraries_are_loaded_without_secrets(tmp_path: Path) -> None:
    caller = {**SECRETS, **NEEDED, "UNUSED_VARIABLE": "value"}
    assert for_the_driver(caller) == NEEDED
    for probe in (probe_kernel, probe_nvml, probe_cuda):
        _, source = probe(probe_context(caller, str(tmp_path)))
        assert source.state in (SourceState.ANSWERED, SourceState.ABSENT), "a removed variable was needed"


def test_variables_of_cuda_are_not_secrets() -> None:
    """Even if their names look like it."""
    variables = {"CUDA_MODULE_LOADING": "LAZY", "CUPY_CACHE_KEY": "x", "NVIDIA_AUTHORITY": "y"}
    assert without_secrets(variables) == variables
