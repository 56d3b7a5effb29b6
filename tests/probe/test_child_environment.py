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
from tests.support.planted_secrets import BY_FORM, HARMLESS, IN_URLS, Planted
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


@pytest.mark.parametrize("planted", [*BY_FORM, *IN_URLS], ids=lambda planted: planted.form)
def test_a_variable_with_a_secret_in_its_value_is_removed(planted: Planted) -> None:
    """Some are known by their names alone, which stand before the value."""
    assert without_secrets({"SETTING": planted.line}) == {}


@pytest.mark.parametrize("value", HARMLESS)
def test_a_variable_without_a_secret_is_kept(value: str) -> None:
    assert without_secrets({"SETTING": value}) == {"SETTING": value}


@pytest.mark.parametrize(
    "folder", ["/home/t/thompson", "/home/u/hf_transformersplayground", "/home/u/sk-learn-gpu-benchmarks-env"]
)
def test_a_search_path_with_a_folder_like_a_token_is_kept(folder: str) -> None:
    paths = {"LD_LIBRARY_PATH": f"{folder}/lib:/usr/lib", "VIRTUAL_ENV": folder}
    assert without_secrets(paths) == for_the_driver(paths) == paths


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


def test_variables_of_cuda_are_kept_unless_they_are_secrets() -> None:
    kept = {
        "CUDA_MODULE_LOADING": "LAZY",
        "CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
        "CUPY_CACHE_DIR": "/home/alice/.cupy",
        "LD_LIBRARY_PATH": "/nix/store/8d1n6dp2jbjlqkqbkjl2gmnq9mqrqzh3-graphics-drivers/lib:/usr/lib",
        "NVIDIA_REQUIRE_CUDA": "cuda>=12.4 brand=tesla,driver>=470,driver<471",
        "NVIDIA_VISIBLE_DEVICES": "MIG-b8ccf4e6-5cf8-5f5e-9a4a-1b0d3b1e7c11",
        "PYTHONHASHSEED": "0",
        "CUDA_ARCH_LIST": "80-real;90-virtual",
    }
    secrets = ("NVIDIA_API_KEY", "NVIDIA_TOKEN", "CUDA_TOKEN", "CUPY_KEY", "PYTHON_KEYRING_PASSWORD", "LD_TOKEN")
    assert without_secrets({**kept, **dict.fromkeys(secrets, "sesame"), "CUDA_X": "nvapi-sesamesesame0123"}) == kept


@pytest.mark.parametrize("name", ["DEPLOY_KEYS", "MYKEY", "mypass", "SMTPPW", "NGC_CLI_API_KEY", "authToken", "DB_PW"])
def test_a_variable_with_the_name_of_a_secret_is_removed(name: str) -> None:
    assert without_secrets({name: "sesame", "PATH": "/usr/bin", "PWD": "/"}) == {"PATH": "/usr/bin", "PWD": "/"}
