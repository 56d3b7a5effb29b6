"""Docker on a host with a GPU: a missing toolkit is a note, and an error for an image that needs a GPU."""

from __future__ import annotations

import pytest

from gpuenv.image.inspect.image_facts import ImageFacts
from gpuenv.image.inspect.verdict import judge_machine
from gpuenv.matrix.assume import assume
from gpuenv.model.finding import Severity
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import CdiFile, Container, ContainerSupport, Snapshot
from tests.support.diagnosis import diagnosis_of
from tests.support.matrix import MATRIX

FACTS = (
    *("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "driver=580.95.05", "gpu=H100", "numpy=2.1.0"),
    "cupy=cupy-cuda12x==14.2.0",
)
WITHOUT_TOOLKIT = ContainerSupport(docker=known("/usr/bin/docker", "x"), has_toolkit=known(value=False, source="x"))
GPU_IMAGE = ImageFacts(
    "cupy/app", "registry", None, "linux/amd64", (), {"NVIDIA_VISIBLE_DEVICES": "all", "CUDA_VERSION": "12.4.1"}, {}
)
PLAIN_IMAGE = ImageFacts("debian:12", "registry", None, "linux/amd64", (), {}, {})
SUPPORTS = [
    (WITHOUT_TOOLKIT, True),
    (WITHOUT_TOOLKIT._replace(docker=known("/snap/bin/docker", "x")), True),
    (WITHOUT_TOOLKIT._replace(has_toolkit=known(value=True, source="x")), False),
    (WITHOUT_TOOLKIT._replace(runtimes=known(("nvidia",), "x")), False),
    (WITHOUT_TOOLKIT._replace(cdi_files=(CdiFile("/etc/cdi/nvidia.yaml", "nvidia.com/gpu"),)), False),
    (WITHOUT_TOOLKIT._replace(cdi_files=(CdiFile("/etc/cdi/x.yaml", "example.com/x"),)), True),
    (WITHOUT_TOOLKIT._replace(docker=Reading()), False),
    (ContainerSupport(), False),
]


def machine(support: ContainerSupport) -> Snapshot:
    return assume(Snapshot(), FACTS, MATRIX)._replace(container_support=support)


@pytest.mark.parametrize(("support", "expected"), SUPPORTS)
def test_docker_without_the_container_toolkit_is_a_note(support: ContainerSupport, *, expected: bool) -> None:
    snapshot = machine(support)
    findings = diagnosis_of(snapshot).findings
    assert [(entry.code, entry.severity) for entry in findings] == ([("CTR307", Severity.NOTE)] if expected else [])
    mentions_snap = any("snap package" in fix.text for entry in findings for fix in entry.fix)
    assert mentions_snap is (support.docker.value == "/snap/bin/docker")


def test_a_container_gets_no_note_about_docker() -> None:
    snapshot = machine(WITHOUT_TOOLKIT)
    snapshot = snapshot._replace(host=snapshot.host._replace(container=known(Container.DOCKER, "x")))
    findings = diagnosis_of(snapshot).findings
    assert "CTR307" not in {entry.code for entry in findings}


@pytest.mark.parametrize(("support", "expected"), SUPPORTS[1:3])
def test_an_image_for_gpus_requires_the_container_toolkit(support: ContainerSupport, *, expected: bool) -> None:
    result = judge_machine("app", GPU_IMAGE, machine(support), MATRIX, lambda: 0.0).findings
    assert ("IMG920" in {entry.code for entry in result}) is expected
    assert not {"IMG920"} & {
        entry.code for entry in judge_machine("app", PLAIN_IMAGE, machine(support), MATRIX, lambda: 0.0).findings
    }
