"""What ``resolve`` prints in environments with real packages: it installs, keeps pins, and is the plan.

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
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from gpuenv.files import parse_toml
from tests.cli.program import PROGRAM, full_answer
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


# What the user's constraint file has, for either tool.
CONSTRAINED = [
    ("3.11", (), "numpy==1.26.4"),
    ("3.12", ("scipy",), "cupy-cuda13x<14.2"),
    ("3.12", ("torch==2.8.0",), "cupy-cuda12x<14"),
    ("3.10", ("torch==2.6.0",), "nvidia-cuda-nvrtc-cu12==12.4.127"),
    ("3.13", (), "nvidia-cuda-nvrtc<13.2"),
]
# What the user asks for.
WANTED = [
    ("3.11", (), "cupy-cuda12x<14"),
    ("3.12", ("torch==2.8.0",), "cupy==14.0.1"),
    ("3.12", ("torch==2.11.0",), "cupy-cuda13x!=14.2.0"),
    ("3.11", ("numpy==1.26.4",), "cupy-cuda11x"),
    ("3.13", ("numpy<2.3",), "cupy>=13.4,<14.1"),
]


# Other machines: the platform in uv's words, and in those of --assume.
PLATFORMS = {
    **{
        f"glibc-2.{minor}": (f"x86_64-manylinux_2_{known}", ("os=linux", "arch=x86_64", f"libc=glibc-2.{minor}"))
        for minor, known in ((17, 17), (26, 17), (28, 28), (36, 36))
    },
    "aarch64": ("aarch64-manylinux_2_36", ("os=linux", "arch=aarch64", "libc=glibc-2.36")),
    "windows": ("x86_64-pc-windows-msvc", ("os=windows", "arch=x86_64")),
}
ELSEWHERE = [
    *((name, python, ()) for name in PLATFORMS for python in ("3.10", "3.13")),
    *((name, "3.14", ()) for name in ("glibc-2.28", "glibc-2.36", "aarch64", "windows")),
    *((f"glibc-2.{minor}", "3.9", ()) for minor in (17, 28)),
    *((name, "3.11", ("numpy==1.26.4",)) for name in ("glibc-2.17", "glibc-2.28", "aarch64", "windows")),
    *(("glibc-2.17", "3.11", (f"torch=={release}",)) for release in ("2.5.1", "2.6.0")),
    *(("glibc-2.28", "3.12", (wanted,)) for wanted in ("torch==2.8.0", "torch==2.15.0", "cudf-cu12==26.10.*")),
    *((name, "3.14", ("torch==2.15.0",)) for name in ("glibc-2.36", "aarch64", "windows")),
    *(("aarch64", "3.12", (wanted,)) for wanted in ("torch==2.9.1", "jax[cuda13]==0.10.2", "cudf-cu13==26.10.*")),
    ("glibc-2.36", "3.14", ("jax[cuda12]==0.12.0.1",)),
    ("glibc-2.36", "3.14", ("cudf-cu13==26.10.*",)),
    ("windows", "3.12", ("numba-cuda[cu12]",)),
    ("windows", "3.13", ("numpy<2.3", "scipy")),
]


@pytest.fixture(scope="module")
def variables() -> Iterator[dict[str, str]]:
    """Returns the variables of every call; the index of pip has metadata files next to its wheels."""
    index = MetadataIndex()
    yield {name: value for name, value in VARIABLES.items() if name != "PIP_FIND_LINKS"} | index.variables
    index.close()


@pytest.mark.parametrize(
    ("version", "requirements"), ENVIRONMENTS, ids=[" ".join((python, *wanted)) for python, wanted in ENVIRONMENTS]
)
def test_the_choice_beside_other_packages_is_the_plan_and_moves_nothing(
    tmp_path: Path, variables: dict[str, str], version: str, requirements: tuple[str, ...]
) -> None:
    target = stand_in(tmp_path, find_python(version), others(closure(requirements, version)))
    code, resolution = full_answer(("resolve", "--python", target, *H100), variables, LIMIT)
    assert code == 0, resolution
    choice = resolution["wheel"]
    for installer in ("uv", "pip"):
        check_plan(target, installer, variables, choice)


@pytest.mark.parametrize(
    ("version", "requirements", "constraint"), CONSTRAINED, ids=[" ".join((*row[1], row[2])) for row in CONSTRAINED]
)
def test_the_solved_choice_is_the_plan_under_constraints_of_the_user(
    tmp_path: Path, variables: dict[str, str], version: str, requirements: tuple[str, ...], constraint: str
) -> None:
    target = stand_in(tmp_path, find_python(version), others(closure(requirements, version)))
    file = tmp_path / "constraints.txt"
    file.write_text(f"{constraint}\n", encoding="utf-8")
    answers = []
    for installer, name in (("uv", "UV_CONSTRAINT"), ("pip", "PIP_CONSTRAINT")):
        constrained = {**variables, name: str(file)}
        code, resolution = full_answer(
            ("resolve", "--solve", "--python", target, "--installer", installer, *H100), constrained, LIMIT
        )
        assert code == 0, resolution
        answers.append(check_plan(target, installer, constrained, resolution["wheel"]))
    assert answers[0] == answers[1]
    releases, wanted = releases_of(target) | answers[0], Requirement(constraint)
    assert releases.get(wanted.name) is None or wanted.specifier.contains(releases[wanted.name])


@pytest.mark.parametrize(
    ("version", "requirements", "wanted"), WANTED, ids=[" ".join((*row[1], row[2])) for row in WANTED]
)
def test_what_the_user_asks_for_is_planned_by_both_tools_and_moves_nothing(
    tmp_path: Path, variables: dict[str, str], version: str, requirements: tuple[str, ...], wanted: str
) -> None:
    target = stand_in(tmp_path, find_python(version), others(closure(requirements, version)))
    plans = [
        full_answer(
            ("install", wanted, "--python", target, "--dry-run", "--installer", installer, *H100), variables, LIMIT
        )
        for installer in ("uv", "pip")
    ]
    for installer, (code, plan) in zip(("uv", "pip"), plans, strict=True):
        assert (code, plan["moves"], plan["remove"]) == (0, [], []), plan
        name, release = plan["requirements"][0].split("==")
        assert Requirement(wanted).name in ("cupy", name.partition("[")[0])
        assert Requirement(wanted).specifier.contains(release)
        assert changes(target, installer, plan["requirements"], variables) == pins_of(plan)
    assert plans[0][1]["requirements"] == plans[1][1]["requirements"]


@pytest.mark.parametrize(
    ("name", "version", "requirements"), ELSEWHERE, ids=[" ".join((*row[:2], *row[2])) for row in ELSEWHERE]
)
def test_the_choice_for_another_machine_can_be_resolved_there_and_is_its_lock(
    tmp_path: Path, name: str, version: str, requirements: tuple[str, ...]
) -> None:
    platform, facts = PLATFORMS[name]
    wheels = others(closure(requirements, version, platform))
    target = stand_in(tmp_path, find_python(min(version, "3.13", key=Version)), wheels)
    machine = tmp_path / "machine.json"
    run([*PROGRAM, "probe", f"--python={target}", f"--output={machine}"], VARIABLES)
    assumed = [word for fact in (*facts, f"python={version}") for word in ("--assume", fact)]
    options = ["--snapshot", str(machine), *H100, *assumed]
    code, resolution = full_answer(["resolve", *options], VARIABLES, LIMIT)
    assert code == 0, resolution
    chosen = resolution["wheel"]["requirements"]
    solved = closure([*chosen, *wheels], version, platform)
    assert wheels.items() <= solved.items()
    if name == "windows":  # gpuenv makes locks for Linux alone
        return
    lock = run([*PROGRAM, "lock", *options, "--format=requirements"], VARIABLES)
    assert lock.startswith(f"# {' '.join(chosen)}, ")
    assert set(re.findall(r"^[\w.-]+==\S+", lock, re.MULTILINE)) <= solved.keys()


@pytest.mark.parametrize("name", ["glibc-2.17", "glibc-2.26"])
def test_no_wheel_fits_where_numpy_has_none(name: str) -> None:
    platform, facts = PLATFORMS[name]
    assumed = [word for fact in (*facts, "python=3.14", "numpy=none", "cupy=none") for word in ("--assume", fact)]
    code, resolution = full_answer(["resolve", "--no-probe", *H100, *assumed], VARIABLES, LIMIT)
    assert (code, resolution["wheel"]) == (3, None)
    assert resolution["next_better"]["changes"][0]["fact"] == "target.python"
    options = [f"--python-platform={platform}", "--python-version=3.14", "--only-binary=:all:", "-"]
    command = [*UV, "compile", *options]
    done = subprocess.run(command, input="numpy>=2", env=VARIABLES, capture_output=True, text=True, check=False)
    assert "has no usable wheels" in done.stderr


def check_plan(target: Path, installer: str, variables: Mapping[str, str], choice: Mapping[str, Any]) -> dict[str, str]:
    """Checks the plan of an install against a choice, and against a user's install of the same; returns its pins."""
    command = ("install", "--python", target, "--dry-run", "--installer", installer, *H100)
    code, plan = full_answer(command, variables, LIMIT)
    assert code == 0, plan
    assert (plan["requirements"], plan["moves"], plan["remove"]) == (choice["requirements"], [], []), installer
    assert plan["needs_toolkit"] == choice["needs_toolkit"]
    pins = pins_of(plan)
    assert changes(target, installer, choice["requirements"], variables) == pins
    return pins


def pins_of(plan: Mapping[str, Any]) -> dict[str, str]:
    """Returns what a plan installs: versions by name."""
    return {pin["name"]: pin["release"] for pin in plan["install"]}


def releases_of(target: Path) -> dict[str, str]:
    """Returns what an environment has: versions by name."""
    found = metadata.distributions(path=[str(next(target.glob("lib/python*/site-packages")))])
    return {canonicalize_name(entry.metadata["Name"]): entry.version for entry in found}


def closure(requirements: Sequence[str], version: str, platform: str = "linux") -> dict[str, str]:
    """Returns the wheels that uv would install for these requirements: URLs by pins."""
    options = ["--format=pylock.toml", "--only-binary=:all:", f"--python-version={version}"]
    command = [*UV, "compile", "--quiet", "--no-header", *options, f"--python-platform={platform}", "-"]
    text = "".join(f"{requirement}\n" for requirement in requirements)
    done = subprocess.run(
        command, input=text, env=VARIABLES, capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert done.returncode == 0, done.stderr
    packages = parse_toml(done.stdout).get("packages", [])
    return {f"{entry['name']}=={entry['version']}": entry["wheels"][0]["url"] for entry in packages}


def others(wheels: Mapping[str, str]) -> dict[str, str]:
    """Returns all wheels but CuPy's."""
    return {pin: url for pin, url in wheels.items() if not pin.startswith("cupy")}


def stand_in(folder: Path, interpreter: Path, wheels: Mapping[str, str]) -> Path:
    """Creates an environment with pip and empty packages that have the metadata of these wheels."""
    target = folder / "venv"
    run([sys.executable, "-m", "uv", "venv", "--quiet", "--seed", f"--python={interpreter}", str(target)], VARIABLES)
    with ThreadPoolExecutor() as pool:
        texts = list(pool.map(wheel_metadata, wheels.values()))
    (site,) = target.glob("lib/python*/site-packages")
    for text in texts:
        head = Parser().parsestr(text, headersonly=True)
        name, release = canonicalize_name(head["Name"]), head["Version"]
        for former in site.glob(f"{name.replace('-', '_')}-*.dist-info"):  # packages that --seed installed
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
    return {canonicalize_name(entry["name"]): entry["version"] for entry in entries}
