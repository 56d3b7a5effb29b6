"""A user name and secrets placed in the facts of a machine, for the tests of redaction."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.model.reading import known
from gpuenv.model.snapshot import CupyInstallation, FileFault, FileState, JupyterKernel, Library, MigInstance, Toolkit
from gpuenv.model.versions import CudaVersion
from gpuenv.simulate.stub_driver import StubDriver, lay_out
from tests.cli.snapshots import UNFIT, UUID, replace_facts, write_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

USER = "jorinde-weber"
HOME = f"/srv/people/{USER}"
HOST = "hexe-gpu-17"
MIG = "MIG-3d4db13e-c42d-5555-98f4-8b50389791bc"
OTHER_UUID = "GPU-48aeb943-9458-4282-da24-e5f49e0db44b"
USER_ENVIRONMENT = {"HOME": HOME, "USER": USER, "LOGNAME": USER, "LNAME": USER, "USERNAME": USER}
# Variable, value, and the part of the value that must be hidden.
SECRETS = [
    ("CUDA_PATH", f"{HOME}/cuda-12.4", USER),
    ("CUDA_HOME", "/home/other-user/cuda", "other-user"),
    ("CUPY_CACHE_DIR", f"/scratch/{USER}/cupy", USER),
    ("LD_LIBRARY_PATH", f"/opt/lib:{HOME}/lib:/home/third/lib", "third"),
    ("PYTHONPATH", f"{HOME}", USER),
    ("NVIDIA_API_KEY", "nvapi-Zm9vYmFyYmF6cXV4", "nvapi-Zm9v"),
    ("CUPY_TEST_TOKEN", "ghp_abcdefgh12345678", "ghp_abcdefgh"),
    ("CUDA_SECRET", "s3cr3t-value", "s3cr3t-value"),
    ("NVIDIA_PASSWORD", "hunter2hunter2", "hunter2"),
    ("CUPY_INDEX", "https://me:p4ssw0rd@pypi.example/simple", "p4ssw0rd"),
    ("CUPY_MIRROR", "git+https://x-token-123@git.example/cupy.git", "x-token-123"),
    ("CUPY_SIGNED", "https://bucket.example/w.whl?x=1&token=t0k3n-abc&y=2", "t0k3n-abc"),
]


def texts_containing(data: Any, part: str) -> list[str]:  # noqa: ANN401 - JSON
    """The strings of a JSON value that contain a text."""
    texts = re.findall(r'"((?:[^"\\]|\\.)*)"', json.dumps(data, ensure_ascii=False))
    return [text for text in texts if part in text]


def without_commands(data: Any) -> Any:  # noqa: ANN401 - JSON
    """The value without the commands in it, which keep their paths on standard output."""
    if isinstance(data, dict):
        kept = {name: value for name, value in data.items() if name not in ("command", "shell_line", "argv", "undo")}
        return {name: without_commands(value) for name, value in kept.items()}
    return [without_commands(entry) for entry in data] if isinstance(data, list) else data


@pytest.fixture
def machine(tmp_path: Path, stub_driver: StubDriver) -> Mapping[str, str]:
    """The environment variables of a machine with two GPUs and this user."""
    lay_out(stub_driver, tmp_path / "driver", "550.54.15", with_smi=True)
    (tmp_path / "root").mkdir()
    profile = {
        "driver.version": "550.54.15",
        "driver.cuda": "12040",
        "gpu.count": "2",
        "gpu.0.uuid": UUID,
        "gpu.1.uuid": OTHER_UUID,
        "gpu.1.mig": "1",
        "gpu.1.mig.count": "1",
        "gpu.1.mig.0.uuid": MIG,
    }
    table = tmp_path / "stub.txt"
    table.write_text("".join(f"{key}={value}\n" for key, value in profile.items()), encoding="utf-8")
    return {
        **USER_ENVIRONMENT,
        "PATH": f"{tmp_path}/driver:{os.defpath}",
        "LD_LIBRARY_PATH": str(tmp_path / "driver"),
        "GPUENV_STUB": str(table),
        "GPUENV_DRIVER_ROOT": str(tmp_path / "root"),
    }


@pytest.fixture
def snapshot_file(tmp_path: Path) -> Path:
    """A snapshot with the user's name, folders and GPU UUIDs in all its facts."""
    target = UNFIT.target._replace(
        executable=known(f"{HOME}/envs/cupy/bin/python3", "the target's interpreter"),
        prefix=known(f"{HOME}/envs/cupy", "the target's interpreter"),
        cupy=(CupyInstallation("cupy-cuda12x", "14.2.0", f"{HOME}/envs/cupy/lib/python3.12/site-packages"),),
        cupy_module=known(f"{HOME}/project/cupy.py", "the target's import system"),
        user_site=known(f"{HOME}/.local/lib/python3.12/site-packages", "the target's interpreter"),
        libraries=(
            Library("nvrtc", "libnvrtc.so.12", f"/home/{USER}/lib/libnvrtc.so.12", "loader"),
            Library("cufft", "libcufft.so.11", error=f"{HOME}/lib/libcufft.so.11: file too short"),
        ),
        cuda_path=known(f"{HOME}/cuda-12.4", "CuPy's own code"),
        headers=known((f"{HOME}/cuda-12.4/include", f"/home/{USER}/include"), "CuPy's own code"),
        headers_cuda=known(CudaVersion(12, 4), f"{HOME}/cuda-12.4/include/cuda_runtime_api.h"),
        file_faults=(FileFault(f"{HOME}/envs/cupy/cupy/_core/core.so", FileState.MISSING, ("cupy-cuda12x",)),),
        file_faults_count=known(1, "RECORD"),
        kernels=(JupyterKernel("python3", f"{HOME}/envs/cupy/bin/python"),),
    )
    gpu = UNFIT.gpus[0]._replace(mig_instances=(MigInstance(MIG, "MIG 1g.10gb"),))
    facts = replace_facts(
        UNFIT,
        target=target,
        gpus=(gpu,),
        toolkits=(Toolkit(f"{HOME}/cuda-12.4", "CUDA_PATH"),),
        environment={name: value for name, value, _ in SECRETS} | {"CUDA_VISIBLE_DEVICES": f"{UUID},{MIG}"},
    )
    return write_snapshot(facts, tmp_path / "snapshot.json")
