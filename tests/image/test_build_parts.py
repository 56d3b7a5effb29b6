"""Parts of building an image: progress, commands, the index, the build context, the bill of materials."""

from __future__ import annotations

import io
import json
import platform
import runpy
import subprocess
import sys
import tarfile
import time
import uuid
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from gpuenv.cli.image_builder import with_commands
from gpuenv.data import data_path
from gpuenv.image.build.build import BuildSession
from gpuenv.image.build.packages import pip_configuration
from gpuenv.image.build.render import pack
from gpuenv.image.build.sbom import bill
from gpuenv.image.engine.build_output import Progress
from gpuenv.image.engine.buildkit import BuildkitCommand, BuildkitOptions, build_with, command
from gpuenv.image.engine.container_engine import Engine
from gpuenv.image.engine.engine_answers import EngineFacts, engine_image
from gpuenv.image.engine.errors import EngineError
from gpuenv.image.labels import LEFT_OUT_FILES
from gpuenv.install.plan import Pin
from gpuenv.model.redaction import hide_secrets
from tests.image.matrix import choices, planned
from tests.support.planted_secrets import LONG_URL, shown_parts

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("reference", "digest"),
    [
        ("python:3.12-slim", "a"),
        ("docker.io/library/python:3.12", "a"),
        ("registry.example/own/python:1", "b"),
        ("own/cupy:1", "c"),
        ("debian:12", None),
        ("A b", None),
    ],
)
def test_the_digest_is_that_of_the_name(reference: str, digest: str | None) -> None:
    names = {"<none>": "d", "registry.example/own/python": "b", "python": "a", "localhost/own/cupy": "c"}
    answer = {
        "Id": "sha256:0",
        "RepoDigests": [f"{name}@sha256:{letter * 64}" for name, letter in names.items()],
    }
    assert engine_image(answer).digest_of(reference) == (digest and f"sha256:{digest * 64}")


CLASSIC = """Step 1/3 : FROM a AS build
 ---> 5f2e
Step 2/3 : RUN b
 ---> Using cache
 ---> 77aa
Step 3/3 : COPY c /
 ---> Using cache
Successfully built 0123
"""
PODMAN = """[1/2] STEP 1/2: FROM a AS build
[1/2] STEP 2/2: RUN b
--> Using cache 77aa
[2/2] STEP 1/1: FROM c
"""
BUILDKIT = """#1 [internal] load build definition from Dockerfile
#5 [build 1/3] FROM a
#6 [build 2/3] RUN b
#6 CACHED
#7 [stage-1 2/3] COPY c /
#7 DONE 0.1s
"""


@pytest.mark.parametrize(("output", "steps", "cached"), [(CLASSIC, 3, 2), (PODMAN, 3, 1), (BUILDKIT, 3, 1)])
def test_each_step_is_announced_once_however_the_output_is_cut(output: str, steps: int, cached: int) -> None:
    for size in (1, 7, 10_000):
        announced: list[str] = []
        progress = Progress(announced.append)
        for start in range(0, len(output), size):
            progress.feed(output[start : start + size])
        assert (progress.steps, progress.cached, len(announced)) == (steps, cached, steps)
        assert "RUN b" in progress.log


def test_a_long_step_is_not_cut_within_a_secret() -> None:
    announced: list[str] = []
    Progress(announced.append).feed(f"#5 [2/3] RUN curl {LONG_URL.line}\n")
    (shown,) = announced
    assert "RUN curl" in shown
    assert shown_parts(LONG_URL, hide_secrets(shown)) == []


def test_a_command_contains_no_value_of_an_argument_or_secret() -> None:
    build = BuildkitOptions(
        {"a": "b c"}, {"HTTP_PROXY": "http://u:hunter2@p"}, {"pip": Path("/x/pip.conf")}, None, fresh=True
    )
    words = command(BuildkitCommand(("docker", "build"), {}), build, "/context", "/answer")
    assert "hunter2" not in " ".join(words)
    assert {"--build-arg=HTTP_PROXY", "--secret=id=pip,src=/x/pip.conf", "--label=a=b c", "--no-cache"} <= set(words)
    assert words[-1] == "/context"


@pytest.mark.parametrize(("arch", "words"), [("x86_64", []), ("aarch64", ["--platform=linux/arm64"])])
def test_the_command_of_a_dry_run_names_a_platform_that_is_not_the_engines_own(arch: str, words: list[str]) -> None:
    choice = choices()["wheels", arch, "12.9"]
    assert not isinstance(choice, str)
    session = BuildSession(
        engine=Engine(None, EngineFacts("docker", "28.2.2", "unix:///x", "linux/amd64", True, ())),
        cli=BuildkitCommand(("docker", "build"), {}),
        secrets={},
        environment={"http_proxy": "http://p"},
        gpu_ways=(),
        announce=lambda _: None,
        verbose=False,
        fresh=True,
        push=False,
        seconds=1.0,
    )
    (planned_command,) = with_commands(planned(choice), session).commands
    assert [word for word in planned_command.argv if word.startswith("--platform")] == words
    assert {"--build-arg=http_proxy", "--build-arg=SOURCE_DATE_EPOCH", "--no-cache"} <= set(planned_command.argv)


@pytest.mark.parametrize("metadata", [None, "", "{}", "[]", "nothing", '{"containerimage.digest": 1}'])
def test_a_build_without_the_id_of_the_image_fails(tmp_path: Path, metadata: str | None) -> None:
    program = tmp_path / "docker"
    answer = (
        ""
        if metadata is None
        else f"""for word; do case $word in --metadata-file=*)
        echo '{metadata}' > "${{word#*=}}";; esac; done"""
    )
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    cli = BuildkitCommand((str(program), "buildx", "build"), {"PATH": "/usr/bin:/bin"})
    build = BuildkitOptions({}, {}, {}, None)
    with pytest.raises(EngineError, match="did not report the id"):
        build_with(cli, build, {"Dockerfile": "FROM scratch\n"}, Progress(lambda _: None), time.monotonic() + 30)


@pytest.mark.parametrize(
    ("environment", "rows"),
    [
        ({}, None),
        ({"PIP_INDEX_URL": "file:///wheels"}, None),
        ({"PIP_INDEX_URL": "https://u:p%40@own.invalid/simple"}, ["index-url = https://u:p%40@own.invalid/simple"]),
        ({"UV_DEFAULT_INDEX": "own=https://own.invalid/"}, ["index-url = https://own.invalid/"]),
        (
            {"PIP_EXTRA_INDEX_URL": "https://a.invalid https://b.invalid", "PIP_TRUSTED_HOST": "a.invalid"},
            ["extra-index-url = https://a.invalid https://b.invalid", "trusted-host = a.invalid"],
        ),
    ],
)
def test_the_index_of_this_machine_becomes_a_pip_configuration(
    environment: dict[str, str], rows: list[str] | None
) -> None:
    text = pip_configuration(environment)
    assert (text.splitlines()[1:] if text else None) == rows


def test_pip_reads_the_configuration(tmp_path: Path) -> None:
    text = pip_configuration({"PIP_INDEX_URL": "https://u:p%40@own.invalid/simple"})
    assert text is not None
    (tmp_path / "pip.conf").write_text(text)
    variables = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "HOME": str(tmp_path)}
    pip = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(pip, env=variables, capture_output=True, text=True, check=False, timeout=60)
    if "No module named pip" in done.stderr:
        pytest.skip("this environment has no pip")
    assert "global.index-url='https://u:p%40@own.invalid/simple'" in done.stdout.splitlines()


# Files of each kind that is left out, and files next to them that stay.
OUT = {
    "libnvrtc.alt": (
        "nvidia/cuda_nvrtc/lib/libnvrtc.alt.so.12",
        "nvidia/cuda_nvrtc/lib/libnvrtc-builtins.alt.so.12.9",
        "nvidia/cu13/lib/libnvrtc.alt.so.13",
    ),
    "libcusolverMg": ("nvidia/cusolver/lib/libcusolverMg.so.11",),
    "libnvblas": ("nvidia/cublas/lib/libnvblas.so.12",),
    "libcufftw": ("nvidia/cufft/lib/libcufftw.so.11",),
    "static libraries": ("nvidia/cuda_runtime/lib/libcudart_static.a", "numpy/random/lib/libnpyrandom.a"),
    "tests of NumPy": ("numpy/linalg/tests/test_linalg.py",),
}
STAYS = (
    *("nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.9"),
    *("nvidia/cusolver/lib/libcusolver.so.11", "nvidia/cublas/lib/libcublas.so.12", "nvidia/cufft/lib/libcufft.so.11"),
    *("nvidia/cuda_runtime/lib/libcudadevrt.a", "numpy/testing/overrides.py", "cupy/testing/tests/x.py"),
)


def test_the_label_names_every_kind_of_file_that_is_left_out(tmp_path: Path) -> None:
    """No other file is removed, and the RECORD lists the files that stay."""
    assert set(OUT) == set(LEFT_OUT_FILES)
    gone = [name for names in OUT.values() for name in names]
    record = tmp_path / "all-1.0.dist-info/RECORD"
    for name in (*gone, *STAYS, "all-1.0.dist-info/RECORD"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    record.write_text("".join(f"{name},sha256=x,1\n" for name in (*gone, *STAYS)) + "all-1.0.dist-info/RECORD,,\n")
    removed = runpy.run_path(str(data_path("images") / "tidy.py"))["trim"](str(tmp_path))
    assert sorted(removed) == sorted(f"all-1.0 {name}\n" for name in gone)
    assert [name for name in STAYS if not (tmp_path / name).exists()] == []
    assert [name for name in gone if (tmp_path / name).exists()] == []
    assert not (tmp_path / "numpy/linalg").exists()
    assert [line.split(",")[0] for line in record.read_text().splitlines()] == [*STAYS, "all-1.0.dist-info/RECORD"]


def test_the_build_context_is_reproducible() -> None:
    one, other = pack({"b": "2", "a": "1"}, 7), pack({"a": "1", "b": "2"}, 7)
    assert one == other
    with tarfile.open(fileobj=io.BytesIO(one)) as tar:
        assert [(entry.name, entry.mtime, entry.uname) for entry in tar] == [("a", 7, ""), ("b", 7, "")]
    assert len(one) == 6 * tarfile.BLOCKSIZE, "two files and the end, no filling"
    assert not any(one[-2 * tarfile.BLOCKSIZE :])


def test_the_bill_of_materials_lists_every_wheel_and_is_reproducible() -> None:
    choice = next(entry for entry in choices().values() if not isinstance(entry, str))
    pins = (Pin("cupy-cuda12x", "14.2.0", ("a" * 64,)), Pin("numpy", "2.4.6", ("b" * 64, "c" * 64)))
    text = bill(choice, pins, DIGEST, 1795219200)
    assert text == bill(choice, pins, DIGEST, 1795219200)
    read = json.loads(text)
    assert read["bomFormat"] == "CycloneDX"
    assert {part["purl"] for part in read["components"]} == {"pkg:pypi/cupy-cuda12x@14.2.0", "pkg:pypi/numpy@2.4.6"}
    assert {entry["value"] for entry in read["metadata"]["component"]["properties"]} == set(LEFT_OUT_FILES)
    assert uuid.UUID(read["serialNumber"].removeprefix("urn:uuid:")).version == 5
    assert read["metadata"]["timestamp"].startswith("2026-11-21T00:00:00")


STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10
Description: GNU C Library
 with text: of several lines

Package: libstdc++6
Status: install ok installed
Architecture: amd64
Version: 12.2.0-14

Package: removed
Status: deinstall ok config-files
Architecture: all
Version: 1:2.0~rc1-1
"""


def test_the_bill_of_materials_is_completed_in_the_image(tmp_path: Path) -> None:
    """pip, Python and the system's packages, with licences; the digests of the lock stay."""
    packages = tmp_path / "site-packages"
    for name, release, rows in (
        ("numpy", "2.4.6", "License-Expression: BSD-3-Clause AND MIT\n"),
        ("Pip_Like.tool", "1.0+local", "License: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License\n"),
        ("plain", "3", "License: MIT\n"),
    ):
        folder = packages / f"{name}-{release}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {release}\n{rows}")
    for file, text in {
        "var/lib/dpkg/status": STATUS,
        "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
        "usr/share/doc/libc6/copyright": "Format: x\n\nFiles: *\nLicense: LGPL-2.1+\n text\n\nLicense: GPL-2\n",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    choice = next(entry for entry in choices().values() if not isinstance(entry, str))
    first = bill(choice, (Pin("numpy", "2.4.6", ("b" * 64,)),), DIGEST, 1795219200)
    complete = runpy.run_path(str(data_path("images") / "tidy.py"))["complete"]
    read = complete(json.loads(first), str(packages), str(tmp_path))
    assert read == complete(json.loads(first), str(packages), str(tmp_path))
    parts = {part["purl"]: part for part in read["components"]}
    python = f"pkg:generic/python@{platform.python_version()}"
    libc = "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=debian-12"
    tool = "pkg:pypi/pip-like-tool@1.0%2Blocal"
    standard = "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?arch=amd64&distro=debian-12"
    assert set(parts) == {"pkg:pypi/numpy@2.4.6", tool, "pkg:pypi/plain@3", python, libc, standard}
    assert parts["pkg:pypi/numpy@2.4.6"]["hashes"] == [{"alg": "SHA-256", "content": "b" * 64}]
    assert {purl: part.get("licenses") for purl, part in parts.items()} == {
        "pkg:pypi/numpy@2.4.6": [{"expression": "BSD-3-Clause AND MIT"}],
        tool: [{"license": {"name": "MIT License"}}],
        "pkg:pypi/plain@3": [{"license": {"name": "MIT"}}],
        python: None,
        standard: None,
        libc: [{"license": {"name": "GPL-2"}}, {"license": {"name": "LGPL-2.1+"}}],
    }
    assert read["serialNumber"] != json.loads(first)["serialNumber"]
    assert set(read["dependencies"][0]["dependsOn"]) == set(parts)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(read)) is None
