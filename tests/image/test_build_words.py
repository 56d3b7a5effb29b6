"""What build-image reads from its options, and what it makes of a builder's log."""

from __future__ import annotations

import json

import pytest

from gpuenv.image.engine.errors import error_from_text
from tests.cli.program import gpuenv

GIVEN = ("--no-probe", "--print", "--compute-capability", "9.0", "--python", "3.12")


@pytest.mark.parametrize(
    ("text", "line", "release"),
    [
        ("14.2.0", "cupy-cuda13x", "14.2.0"),
        ("cupy==14.2.0", "cupy-cuda13x", "14.2.0"),
        ("cupy-cuda12x[ctk]==14.2.0", "cupy-cuda12x", "14.2.0"),
        ("cupy-cuda12x == 14.1.1", "cupy-cuda12x", "14.1.1"),
        ("cupy-cuda12x", "cupy-cuda12x", "14.2.0"),
        ("CuPy-CUDA12x", "cupy-cuda12x", "14.2.0"),
    ],
)
def test_a_cupy_is_named_as_people_write_it(text: str, line: str, release: str) -> None:
    done = gpuenv("build-image", *GIVEN, "--cupy", text)
    assert f"# CuPy {release} ({line})" in done.stdout, done.stderr


@pytest.mark.parametrize("text", ["cupy>=14", "cupy-cuda12x==14.*,!=14.1", "cupy @ file:///x", "==14.2.0", "a b"])
def test_what_names_no_cupy_is_usage(text: str) -> None:
    done = gpuenv("build-image", *GIVEN, "--cupy", text)
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected a release, a line" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--cuda", "99"),
        ("--cupy", "cupy>=14"),
        ("--python", "py3"),
        ("--compute-capability", "new"),
        ("--base", "A:b"),
        ("--tag", "A:b"),
        ("--tag", "a@sha256:" + 64 * "0"),
        ("--arch", "sparc"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_option(option: str, text: str) -> None:
    done = gpuenv("build-image", "--no-probe", "--print", option, text)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"gpuenv: {option} {text}: "), done.stderr


def test_no_number_is_no_time() -> None:
    done = gpuenv("build-image", *GIVEN, "--build-timeout", "nan")
    assert done.returncode == 2
    assert "expected seconds" in done.stderr


def test_a_base_that_runs_as_somebody_else_is_built_on_as_root() -> None:
    done = gpuenv("build-image", *GIVEN, "--base", "quay.io/jupyter/base-notebook:python-3.12")
    first = done.stdout.partition("\nRUN ")[0].splitlines()
    assert "USER 0:0" in first
    assert "PIP_USER=0" in done.stdout
    assert json.dumps(done.stdout).count("USER 10001:10001") == 1


CLASSIC = """Step 1/13 : FROM base AS build
---> 42e66a18ad88
Step 5/13 : RUN python3 -m venv /opt/cupy
---> Running in 65c81ab2dee8
Error: [Errno 13] Permission denied: '/opt/cupy'
Removing intermediate container 65c81ab2dee8
The command '/bin/sh -c python3 -m venv /opt/cupy' returned a non-zero code: 1"""
BUILDKIT = """#7 [build 3/3] RUN python3 -m venv /opt/cupy
#7 sha256:847934d5625b50acc0c76168d32d526d96491861bf3d984ae3a4414d778a49e8
#7 0.412 Error: [Errno 13] Permission denied: '/opt/cupy'
#7 ERROR: process "/bin/sh -c python3 -m venv /opt/cupy" did not complete successfully: exit code: 1
------
> [build 3/3] RUN python3 -m venv /opt/cupy:
------
failed to solve: process "/bin/sh -c python3 -m venv /opt/cupy" did not complete successfully: exit code: 1"""
PODMAN = """STEP 5/13: RUN python3 -m venv /opt/cupy
Error: [Errno 13] Permission denied: '/opt/cupy'
building at STEP "RUN python3 -m venv /opt/cupy": while running runtime: exit status 1"""


@pytest.mark.parametrize("log", [CLASSIC, BUILDKIT, PODMAN], ids=["classic", "buildkit", "podman"])
def test_the_first_words_are_those_of_the_command_that_failed(log: str) -> None:
    error = error_from_text(log, "the build failed")
    assert error.message.splitlines()[0] == "the build failed: Error: [Errno 13] Permission denied: '/opt/cupy'"
    assert log.splitlines()[-1] in error.message


def test_a_command_that_said_nothing_is_given_no_words() -> None:
    log = "#7 [build 3/3] RUN false\n#7 ERROR: process did not complete successfully: exit code: 1"
    assert error_from_text(log, "the build failed").message.startswith("the build failed: #7")


def test_another_processor_is_named() -> None:
    log = f"{CLASSIC.replace('Error: [Errno 13] Permission denied:', 'exec /bin/sh: exec format error')}"
    assert "another processor" in error_from_text(log, "the build failed").message.splitlines()[0]
