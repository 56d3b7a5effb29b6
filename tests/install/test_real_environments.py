"""What ``resolve`` prints beside real packages: it installs, moves no pin of others, and is the plan of install.

The packages are stand-ins: empty wheels with the real metadata of the package index, since only metadata decides. CuPy
and CUDA's wheels are those of the index.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from gpuenv.files import parse_toml
from tests.cli.program import full_answer
from tests.install.metadata_index import MetadataIndex, wheel_metadata
from tests.install.sandbox import run
from tests.probe.pythons import python as find_python

pytestmark = [pytest.mark.network, pytest.mark.slow]
LIMIT = 900
VARIABLES = {name: value for name, value in os.environ.items() if not name.startswith(("VIRTUAL_ENV", "CONDA"))}
UV = (sys.executable, "-m", "uv", "pip")
FILES = ("METADATA", "INSTALLER", "RECORD")
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


@pytest.fixture(scope="module")
def variables() -> Iterator[dict[str, str]]:
    """Returns the variables of every call: pip's index has metadata beside its wheels, as uv reads it out of them."""
    index = MetadataIndex()
    yield {name: value for name, value in VARIABLES.items() if name != "PIP_FIND_LINKS"} | index.variables
    index.close()


@pytest.mark.parametrize(
    ("version", "requirements"), ENVIRONMENTS, ids=[" ".join((python, *wanted)) for python, wanted in ENVIRONMENTS]
)
def test_the_choice_beside_other_packages_is_the_plan_and_moves_nothing(
    tmp_path: Path, variables: dict[str, str], version: str, requirements: tuple[str, ...]
) -> None:
    target = stand_in(tmp_path, find_python(version), closure(requirements, version))
    code, resolution = full_answer(("resolve", "--python", target, *H100), variables, LIMIT)
    assert code == 0, resolution
    choice = resolution["wheel"]
    for installer in ("uv", "pip"):
        command = ("install", "--python", target, "--dry-run", "--installer", installer, *H100)
        code, plan = full_answer(command, variables, LIMIT)
        assert code == 0, plan
        assert (plan["requirements"], plan["moves"]) == (choice["requirements"], []), installer
        assert plan["needs_toolkit"] == choice["needs_toolkit"]
        assert changes(target, installer, choice["requirements"], variables) == {
            pin["name"]: pin["release"] for pin in plan["install"]
        }


def closure(requirements: Sequence[str], version: str, platform: str = "linux") -> dict[str, str]:
    """Returns the wheels that uv would install for these requirements, but CuPy's: URLs by name and version."""
    options = ["--format=pylock.toml", "--only-binary=:all:", f"--python-version={version}"]
    command = [*UV, "compile", "--quiet", "--no-header", *options, f"--python-platform={platform}", "-"]
    text = "".join(f"{requirement}\n" for requirement in requirements)
    done = subprocess.run(
        command, input=text, env=VARIABLES, capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert done.returncode == 0, done.stderr
    packages = parse_toml(done.stdout).get("packages", [])
    return {
        f"{entry['name']}=={entry['version']}": entry["wheels"][0]["url"]
        for entry in packages
        if not entry["name"].startswith("cupy")
    }


def stand_in(folder: Path, interpreter: Path, wheels: Mapping[str, str]) -> Path:
    """Creates an environment with pip and empty packages that have the metadata of these wheels."""
    target = folder / "venv"
    run([sys.executable, "-m", "uv", "venv", "--quiet", "--seed", f"--python={interpreter}", str(target)], VARIABLES)
    with ThreadPoolExecutor() as pool:
        texts = list(pool.map(wheel_metadata, wheels.values()))
    (site,) = target.glob("lib/python*/site-packages")
    for text in texts:
        metadata = Parser().parsestr(text, headersonly=True)
        name, release = canonicalize_name(metadata["Name"]), metadata["Version"]
        for former in site.glob(f"{name.replace('-', '_')}-*.dist-info"):  # of what the seed has brought
            shutil.rmtree(former)
        info = site / f"{name.replace('-', '_')}-{release}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(text, encoding="utf-8")
        (info / "INSTALLER").write_text("uv", encoding="ascii")
        (info / "RECORD").write_text("".join(f"{info.name}/{file},,\n" for file in FILES), encoding="ascii")
    return target


def changes(target: Path, installer: str, requirements: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    """Returns what a user would install with the printed requirements: versions by name."""
    if installer == "uv":
        command = [*UV, "install", "--dry-run", "--only-binary=:all:", f"--python={target}", *requirements]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, timeout=LIMIT)
        return dict(re.findall(r"^ [+~] (\S+?)==(\S+)", done.stderr, re.MULTILINE))
    report = target.parent / "report.json"
    options = ["--dry-run", "--quiet", "--only-binary=:all:", f"--report={report}"]
    command = [str(target / "bin/python"), "-m", "pip", "install", *options, *requirements]
    subprocess.run(command, env=variables, check=True, timeout=LIMIT)
    entries = (entry["metadata"] for entry in json.loads(report.read_text(encoding="utf-8"))["install"])
    return {canonicalize_name(metadata["name"]): metadata["version"] for metadata in entries}
