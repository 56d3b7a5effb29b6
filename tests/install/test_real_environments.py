"""What ``resolve`` prints beside real packages: it installs, moves no pin of others, and is the plan of install.

The packages are stand-ins: wheels of one empty module with the real metadata of the package index, since only metadata
decides. CuPy and CUDA's wheels are those of the index.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import full_answer
from tests.install.sandbox import run
from tests.install.wheels import Package, make_wheel
from tests.probe.pythons import python as find_python

pytestmark = [pytest.mark.network, pytest.mark.slow]
LIMIT = 900
VARIABLES = {name: value for name, value in os.environ.items() if not name.startswith(("VIRTUAL_ENV", "CONDA"))}
H100 = ("--assume", "driver=580.95.05", "--assume", "gpu=H100", "--assume", "toolkit=none")

ENVIRONMENTS = [
    *(
        (python, (f"torch=={release}",))
        for python in ("3.11", "3.12")
        for release in ("2.5.1", "2.6.0", "2.7.1", "2.8.0")
    ),
    *((python, (f"torch=={release}",)) for python in ("3.11", "3.13") for release in ("2.9.1", "2.10.0", "2.11.0")),
    *(("3.12", (f"torch=={release}",)) for release in ("2.12.1", "2.13.0", "2.14.1", "2.15.0")),
    *(("3.11", (f"{name}=={release}",)) for name in ("cudf-cu12", "cudf-cu13") for release in ("26.8.1", "26.10.2")),
    *(("3.12", (f"{name}==26.10.*",)) for name in ("rmm-cu12", "rmm-cu13", "cuml-cu12", "cuml-cu13")),
    ("3.12", ("cudf-cu12==26.6.*",)),
    *(
        ("3.12", (f"jax[{cuda}]=={release}",))
        for cuda in ("cuda12", "cuda13")
        for release in ("0.9.2", "0.10.2", "0.11.*", "0.12.0.1")
    ),
    *(("3.11", (f"numba-cuda[{cuda}]",)) for cuda in ("cu12", "cu13")),
    *(("3.12", (name,)) for name in ("cuquantum-python-cu12", "cuquantum-python-cu13")),
    *(("3.11", (f"tensorflow[and-cuda]=={release}",)) for release in ("2.18.*", "2.19.*", "2.20.*")),
    *((python, ("numpy==1.26.4", "scipy")) for python in ("3.9", "3.10", "3.11", "3.12")),
    *((python, ("numpy<2.3", "scipy", "pandas")) for python in ("3.10", "3.11", "3.12", "3.13")),
    *((python, ("torch==2.8.0", "numpy==1.26.4")) for python in ("3.10", "3.11", "3.12")),
    *((python, ("torch==2.6.0", "numba-cuda[cu12]")) for python in ("3.10", "3.12")),
    *((python, ()) for python in ("3.9", "3.10", "3.11", "3.12", "3.13")),
    ("3.12", ("torch==2.11.0", "jax[cuda13]==0.10.2")),
    ("3.12", ("torch==2.8.0", "jax[cuda12]==0.9.2")),
    ("3.11", ("cuml-cu12==26.8.*",)),
    ("3.12", ("spacy",)),
    ("3.12", ("transformers", "torch==2.10.0")),
    ("3.11", ("onnxruntime-gpu", "numpy<2")),
]


@pytest.mark.parametrize(
    ("version", "requirements"), ENVIRONMENTS, ids=[" ".join((python, *wanted)) for python, wanted in ENVIRONMENTS]
)
def test_the_choice_beside_other_packages_is_the_plan_and_moves_nothing(
    tmp_path: Path, version: str, requirements: tuple[str, ...]
) -> None:
    target = stand_in(tmp_path, version, requirements)
    code, resolution = full_answer(("resolve", "--python", target, *H100), VARIABLES, LIMIT)
    assert code == 0, resolution
    for installer in ("uv", "pip"):
        command = ("install", "--python", target, "--dry-run", "--installer", installer, *H100)
        code, plan = full_answer(command, VARIABLES, LIMIT)
        assert code == 0, plan
        assert (plan["requirements"], plan["moves"]) == (resolution["wheel"]["requirements"], []), installer
        assert plan["needs_toolkit"] == resolution["wheel"]["needs_toolkit"]


def stand_in(folder: Path, version: str, requirements: tuple[str, ...]) -> Path:
    """Creates an environment with pip and the metadata of what pip would install for these requirements, but CuPy."""
    target, wheels = folder / "venv", folder / "wheels"
    interpreter = target / "bin/python"
    run([str(find_python(version)), "-m", "venv", str(target)], VARIABLES)
    if not requirements:
        return target
    report = folder / "report.json"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(interpreter),
        "--disable-pip-version-check",
        "install",
        "--quiet",
    ]
    options = ["--dry-run", "--ignore-installed", "--only-binary=:all:", f"--report={report}"]
    subprocess.run([*pip, *options, *requirements], env=VARIABLES, check=True, timeout=LIMIT)
    wheels.mkdir()
    for entry in json.loads(report.read_text(encoding="utf-8"))["install"]:
        metadata = entry["metadata"]
        extras = tuple(metadata.get("provides_extra", ()))
        if not metadata["name"].startswith("cupy"):
            make_wheel(
                wheels, Package(metadata["name"], metadata["version"], tuple(metadata.get("requires_dist", ())), extras)
            )
    files = [str(wheel) for wheel in wheels.glob("*.whl")]
    subprocess.run([*pip, "--no-deps", "--no-index", *files], env=VARIABLES, check=True, timeout=LIMIT)
    return target
