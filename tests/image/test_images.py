"""The contents of images for the whole matrix: reviewed tables, the linter, and rules for every image."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpuenv.image.build.choose import ImageRequest, NoImageError, choose, line_and_release
from gpuenv.image.build.plan import Choice, ImageKind
from gpuenv.image.build.render import TEMPLATES, RenderError, Rendering, render, template
from gpuenv.matrix.assume import assume
from gpuenv.matrix.candidates import TEGRA
from gpuenv.matrix.needs import Needs, needs_of
from gpuenv.model.cupy import has_own_headers
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.versions import ComputeCapability, CudaVersion, PythonVersion
from tests.image.matrix import CREATED, GOLDEN, choices, dockerfiles, planned, plans, table
from tests.support.matrix import MATRIX


def machine(*assumed: str) -> Needs:
    return needs_of(assume(Snapshot(), assumed, MATRIX), MATRIX)


def made(request: ImageRequest, *machines: Needs) -> Choice:
    named = {str(number): entry for number, entry in enumerate(machines)} or {"": needs_of(Snapshot(), MATRIX)}
    return choose(request, named, MATRIX)


def test_the_whole_matrix_is_the_reviewed_one() -> None:
    assert table() == (GOLDEN / "matrix.txt").read_text(), "python -m tests.image.matrix, and read the difference"


def test_the_dockerfiles_are_the_reviewed_ones() -> None:
    assert dockerfiles() == (GOLDEN / "Dockerfiles.txt").read_text()


@pytest.mark.long
def test_the_linter_finds_nothing_in_any_of_them(tmp_path: Path) -> None:
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.exists():
        linter = Path(shutil.which("hadolint") or pytest.skip("no hadolint here"))
    files = []
    for number, plan in enumerate(plans()):
        for how in (Rendering(CREATED), Rendering(CREATED, mounts=True, secrets=("pip", "ca"))):
            files.append(tmp_path / f"Dockerfile.{number}.{int(how.mounts)}")
            files[-1].write_text(planned(plan.choice, how).dockerfile)
    assert len(files) > 60
    done = subprocess.run([linter, "-f", "json", *files], capture_output=True, text=True, check=False, timeout=60)
    assert json.loads(done.stdout) == [], done.stdout[:2000]
    assert not any("hadolint ignore" in file.read_text() for file in files)


def test_every_image_keeps_to_the_rules() -> None:
    for plan in plans():
        last = plan.dockerfile.rpartition("\nFROM ")[2]
        assert "\nUSER 10001:10001\n" in last
        assert "RUN" not in last, "the last stage copies what is finished, and runs nothing"
        assert "HEALTHCHECK" not in plan.dockerfile
        assert "--no-cache-dir" in plan.dockerfile
        assert "--require-hashes" in plan.dockerfile
        assert plan.choice.capabilities, plan.tag
        assert not set(plan.choice.capabilities) & TEGRA


@pytest.mark.parametrize(
    ("text", "line", "release"),
    [
        ("", None, None),
        ("14.2.0", None, "14.2.0"),
        ("cupy==14.2.0", None, "14.2.0"),
        ("cupy-cuda12x[ctk]==14.2.0", "cupy-cuda12x", "14.2.0"),
        ("cupy-cuda12x == 14.1.1", "cupy-cuda12x", "14.1.1"),
        ("CuPy-CUDA12x", "cupy-cuda12x", None),
    ],
)
def test_a_release_or_a_line_of_cupy_is_parsed(text: str, line: str | None, release: str | None) -> None:
    assert line_and_release(text) == (line, release)


@pytest.mark.parametrize("text", ["cupy>=14", "cupy-cuda12x==14.*,!=14.1", "cupy @ file:///x", "==14.2.0", "a b"])
def test_a_text_without_a_release_or_line_of_cupy_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a release, a line"):
        line_and_release(text)


def test_a_volta_gets_cuda_12_although_its_driver_knows_13() -> None:
    choice = made(ImageRequest(), machine("driver=580.95.05", "gpu=V100"))
    assert (choice.line, choice.cuda.major, [str(entry) for entry in choice.stated]) == ("cupy-cuda12x", 12, ["7.0"])


def test_one_image_serves_machines_that_differ() -> None:
    choice = made(ImageRequest(), machine("driver=580.95.05", "gpu=V100"), machine("driver=535.104.05", "gpu=H100"))
    assert choice.line == "cupy-cuda12x"
    assert [str(entry) for entry in choice.stated] == ["7.0", "9.0"]
    assert str(choice.minimum_driver) == "525.60.13"


def test_machines_that_no_image_serves_together_are_refused() -> None:
    with pytest.raises(NoImageError, match="needs"):
        made(ImageRequest(), machine("driver=470.57.02", "gpu=K80"), machine("driver=580.95.05", "gpu=B200"))


def test_a_machine_without_a_driver_only_builds_the_image() -> None:
    assert made(ImageRequest(), machine("driver=none", "gpu=none")) == made(ImageRequest())


@pytest.mark.parametrize(
    ("cupy", "cuda", "own"),
    [
        ("14.2.0", "12.9", False),
        ("14.0.0", None, False),
        ("13.6.0", "12.9", False),
        ("13.6.0", "12.2", False),
        ("13.6.0", "12.1", True),
        ("13.6.0", "11.8", True),
        ("13.6.0", None, True),
        ("13.5.1", "12.4", None),
        ("12.3.0", "12.0", True),
    ],
)
def test_some_wheels_have_their_own_headers(cupy: str, cuda: str | None, own: bool | None) -> None:  # noqa: FBT001 - a table
    assert has_own_headers(cupy, CudaVersion.parse(cuda) if cuda else None) is own


def test_an_image_of_cupy_13_gets_headers_from_a_wheel() -> None:
    choice = made(ImageRequest(kind=ImageKind.RUNTIME, cuda=CudaVersion.parse("12.9"), cupy="13.6.0"))
    assert choice.requirements == ("cupy-cuda12x==13.6.0", "nvidia-cuda-runtime-cu12==12.9.*")


def test_a_gpu_that_is_newer_raises_the_driver() -> None:
    wish = ImageRequest(cuda=CudaVersion.parse("12.9"), capabilities=(ComputeCapability.parse("12.0"),))
    choice = made(wish)
    assert choice.minimum_driver.branch == 570
    assert [str(entry) for entry in choice.stated] == ["12.0"]


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (ImageRequest(cuda=CudaVersion.parse("12.7")), "CUDA 12.7"),
        (ImageRequest(cuda=CudaVersion.parse("11.8")), "from 14.0 on"),
        (ImageRequest(cupy="1.2.3"), "no such wheel"),
        (ImageRequest(base="own/base:1"), "name it with --python"),
        (ImageRequest(base="python:3.12-alpine"), "no wheels"),
        (ImageRequest(base="python:3.11-slim", python=PythonVersion.parse("3.12")), "has Python 3.11"),
        (ImageRequest(python=PythonVersion.parse("3.8")), "Python 3.8"),
        (ImageRequest(python=PythonVersion.parse("3.14t")), "3.14t"),
        (
            ImageRequest(kind=ImageKind.DEVEL, cuda=CudaVersion.parse("12.9"), python=PythonVersion.parse("3.11")),
            "has Python 3.12",
        ),
        (ImageRequest(kind=ImageKind.RUNTIME, cuda=CudaVersion.parse("13.5")), "no image of NVIDIA's with CUDA 13.5"),
        (ImageRequest(cuda=CudaVersion.parse("13.0"), capabilities=(ComputeCapability.parse("7.0"),)), "7.0"),
    ],
)
def test_an_impossible_image_is_refused_with_the_reason(wish: ImageRequest, message: str) -> None:
    with pytest.raises(NoImageError) as caught:
        made(wish)
    assert message in str(caught.value)


def test_one_image_is_of_one_architecture() -> None:
    with pytest.raises(NoImageError, match="several architectures"):
        made(ImageRequest(), machine("arch=x86_64", "gpu=H100"), machine("arch=aarch64", "gpu=H100"))
    assert made(ImageRequest(arch="aarch64"), machine("gpu=H100")).platform == "linux/arm64"


def test_a_custom_base_is_used_unchanged() -> None:
    digest = "sha256:" + "a" * 64
    for kind in ImageKind:
        wish = ImageRequest(kind=kind, base=f"own/base@{digest}", python=PythonVersion.parse("3.11"))
        plan = planned(made(wish))
        assert f"FROM own/base@{digest}" in plan.dockerfile
        assert "\nUSER 0:0" in plan.dockerfile.partition("\nRUN ")[0], "the user of the base is unknown"
        assert plan.dockerfile.count("USER 10001:10001") == 1
        assert plan.labels["org.opencontainers.image.base.name"] == "own/base"
        assert plan.labels["org.opencontainers.image.base.digest"] == digest


@pytest.mark.parametrize(
    ("name", "python"), [("nvidia/cuda:12.9.1-runtime-ubuntu24.04", "3.12"), ("python:3.11-slim", "3.11")]
)
def test_a_base_with_its_digest_has_the_python_of_its_tag(name: str, python: str) -> None:
    assert made(ImageRequest(kind=ImageKind.RUNTIME, base=f"{name}@sha256:{'a' * 64}")).python == python


def test_a_label_is_escaped_or_refused() -> None:
    choice = next(entry for entry in choices().values() if not isinstance(entry, str))
    hostile = {"a.quote": 'x" USER="root', "b.dollar": "$(id) ${PATH} `id`", "c.back": "\\"}
    text = render(template(TEMPLATES[choice.kind]), choice, hostile, Rendering(CREATED))
    assert 'a.quote="x\\" USER=\\"root"' in text
    assert 'b.dollar="\\$(id) \\${PATH} `id`"' in text
    assert 'c.back="\\\\"' in text
    for bad in (
        {"a": "x\nUSER root"},
        {"a": "x\rUSER root"},
        {"a b": "x"},
        {'a"': "x"},
        {"": "x"},
        {"a\nUSER root": "x"},
    ):
        with pytest.raises(RenderError):
            render(template(TEMPLATES[choice.kind]), choice, bad, Rendering(CREATED))


def test_the_plan_is_the_same_for_the_same_inputs() -> None:
    choice = made(ImageRequest())
    assert planned(choice) == planned(replace(choice))
