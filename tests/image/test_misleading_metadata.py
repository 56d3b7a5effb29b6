"""Images with misleading metadata: outdated labels, and variables that their own start changes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuenv.image.inspect.history import last_cupy, lines_together
from gpuenv.image.inspect.image_facts import ImageFacts
from gpuenv.report.report import Status
from tests.image.dockerfiles import SLIM, judged, located, report_on
from tests.image.test_judge import codes_and_causes, host, image, plain, verdict

if TYPE_CHECKING:
    from pathlib import Path

# As docker inspect shows images of NGC: com.nvidia.cuda.version stays 9.0, compat/lib is made by their own start.
NGC = replace(
    plain(
        CUDA_VERSION="12.8.1.012",
        NVIDIA_REQUIRE_CUDA="cuda>=9.0",
        NVIDIA_VISIBLE_DEVICES="all",
        NVIDIA_DRIVER_CAPABILITIES="compute,utility,video",
        _CUDA_COMPAT_PATH="/usr/local/cuda/compat",
        LD_LIBRARY_PATH="/usr/local/cuda/compat/lib:/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
    ),
    labels={"com.nvidia.cuda.version": "9.0", "com.nvidia.cublas.version": "12.8.4.1"},
)


@pytest.mark.parametrize(
    "machine",
    [
        ("driver=580.95.05", "gpu=H100"),
        ("driver=580.95.05", "gpu=GeForce RTX 4090"),
        ("driver=535.104.05", "gpu=GeForce RTX 4090"),
    ],
)
def test_an_image_of_ngc_runs(machine: tuple[str, ...]) -> None:
    found = verdict(NGC, host(*machine))
    assert (found.status, codes_and_causes(found)) == (Status.FIT, [])


@pytest.mark.parametrize("path", ["/usr/local/cuda/compat", "/usr/local/cuda/compat/lib.real"])
def test_forward_compatibility_libraries_on_the_path_of_ngc_are_found(path: str) -> None:
    changed = replace(NGC, environment={**NGC.environment, "LD_LIBRARY_PATH": path})
    assert codes_and_causes(verdict(changed, host("driver=580.95.05", "gpu=GeForce RTX 4090"))) == [
        ("IMG904", "forward-compat-unsupported")
    ]


def test_the_cuda_of_a_label_is_used() -> None:
    old = replace(plain(), labels={"com.nvidia.cuda.version": "8.0.61"})
    assert codes_and_causes(verdict(old, host("driver=580", "gpu=H100"))) == [("IMG905", "gpu-too-new-for-toolkit")]


@pytest.mark.parametrize(
    ("step", "base", "machine", "expected"),
    [
        ("pip install cupy-cuda13x", "12.9.1", ("driver=580", "gpu=H100"), "wrong-cupy-wheel-for-cuda-major"),
        ("uv pip install 'cupy-cuda11x>=13'", "12.9.1", ("driver=580", "gpu=H100"), "wrong-cupy-wheel-for-cuda-major"),
        ("pip install cupy-cuda13x[ctk]", None, ("driver=535", "gpu=H100"), "driver-too-old-for-cuda"),
        ("pip install cupy-cuda13x[ctk]", None, ("driver=580", "gpu=V100"), "gpu-removed-from-toolkit"),
        ("pip install cupy-cuda13x[ctk]", "12.9.1", ("driver=580", "gpu=H100"), None),
        ("pip install cupy-cuda12x", "12.9.1", ("driver=580", "gpu=H100"), None),
        ("pip uninstall -y cupy-cuda11x", "12.9.1", ("driver=580", "gpu=H100"), None),
        ("pip install cupy-cuda12x && pip uninstall -y cupy-cuda11x", "12.9.1", ("driver=580", "gpu=H100"), None),
        ("echo cupy-cuda11x", "12.9.1", ("driver=580", "gpu=H100"), None),
        ("echo pip install cupy-cuda11x", "12.9.1", ("driver=580", "gpu=H100"), None),
        ("sed -i s/cupy-cuda12x==14.2.0/cupy-cuda11x==13.6.0/ list.txt", "12.9.1", ("driver=580", "gpu=H100"), None),
        ("pip install cupy-cuda12x || pip install cupy-cuda11x", "12.9.1", ("driver=580", "gpu=H100"), None),
        (
            'if [ "$CUDA" = 12 ]; then pip install cupy-cuda12x; else pip install cupy-cuda11x; fi',
            "12.9.1",
            ("driver=580", "gpu=H100"),
            None,
        ),
        ("pip install cupy-cuda11x && pip uninstall -y cupy-cuda11x", "12.9.1", ("driver=580", "gpu=H100"), None),
    ],
)
def test_a_line_without_a_release_is_checked(
    step: str, base: str | None, machine: tuple[str, ...], expected: str | None
) -> None:
    begun: ImageFacts = image(base) if base else plain()
    found = verdict(replace(begun, history=(f"RUN /bin/sh -c {step} # buildkit",)), host(*machine))
    assert [cause for _, cause in codes_and_causes(found)] == ([expected] if expected else [])


@pytest.mark.parametrize(
    "step",
    [
        'LABEL usage="pip install cupy-cuda11x"',
        'CMD ["pip", "install", "cupy-cuda11x"]',
        "/bin/sh -c #(nop)  ENV HINT=pip install cupy-cuda11x",
    ],
)
def test_a_step_that_only_mentions_an_install_installs_nothing(step: str) -> None:
    facts = replace(image("12.9.1"), history=("RUN /bin/sh -c pip install cupy-cuda12x==14.2.0", step))
    assert codes_and_causes(verdict(facts, host("driver=580", "gpu=H100"))) == []


@pytest.mark.parametrize(
    ("steps", "several"),
    [
        (("pip install cupy-cuda11x==13.6.0", "pip install cupy-cuda12x"), True),
        (("pip install --user cupy-cuda11x", "python3 -m pip install --user cupy-cuda12x"), True),
        (("pip install cupy-cuda12x==13.6.0", "pip install cupy-cuda12x==14.2.0"), False),
        (("pip install cupy-cuda11x", "pip uninstall -y cupy-cuda11x && pip install cupy-cuda12x"), False),
        (("/opt/a/bin/pip install cupy-cuda11x", "/opt/b/bin/pip install cupy-cuda12x"), False),
        (("pip install --target /a cupy-cuda11x", "pip install --target=/b cupy-cuda12x"), False),
        (("pip install --user cupy-cuda11x", "pip install cupy-cuda12x"), True),
        (("pip install cupy-cuda12x", "pip download cupy-cuda11x"), False),
        (("pip install cupy-cuda12x", "pip download cupy-cuda11x==13.6.0"), False),
        (("case $(uname -m) in x86_64) pip install cupy-cuda12x;; *) pip install cupy-cuda11x;; esac",), False),
        (("echo cupy-cuda11x==13.6.0 >not.txt && pip install -c not.txt cupy-cuda12x",), False),
        ((". /a/bin/activate && pip install cupy-cuda12x", ". /b/bin/activate && pip install cupy-cuda11x"), False),
        (("VIRTUAL_ENV=/a uv pip install cupy-cuda12x", "VIRTUAL_ENV=/b uv pip install cupy-cuda11x"), False),
    ],
)
def test_two_lines_in_one_environment_are_a_warning(steps: tuple[str, ...], several: bool) -> None:  # noqa: FBT001 - a table
    facts = replace(plain(), history=tuple(f"RUN /bin/sh -c {step} # buildkit" for step in steps))
    codes = [code for code, _ in codes_and_causes(verdict(facts, host("driver=580", "gpu=H100")))]
    assert codes == (["IMG921"] if several else [])


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (("pip install cupy-cuda12x[ctk]==14.2.0", "pip install cupy-cuda12x pandas"), ("14.2.0", True)),
        (("pip install cupy-cuda12x==13.6.0", "pip install -U cupy-cuda12x"), (None, False)),
        (("pip install cupy-cuda12x==13.6.0", "pip install 'cupy-cuda12x>=14'"), (None, False)),
    ],
)
def test_an_installed_release_stays_if_it_satisfies_the_requirement(
    steps: tuple[str, ...], expected: tuple[str | None, bool]
) -> None:
    found = last_cupy(tuple(f"RUN |1 A=b /bin/bash -o pipefail -c {step} # buildkit" for step in steps))
    assert found is not None
    assert (found.release, found.bundled) == expected


def test_a_line_that_a_condition_installs_is_a_warning() -> None:
    step = 'RUN /bin/sh -c if [ -n "$GPU" ]; then pip install cupy-cuda13x; fi'
    found = verdict(replace(plain(), history=(step,)), host("driver=535", "gpu=H100"))
    assert found.status is Status.DEGRADED


@pytest.mark.parametrize(
    ("value", "count", "hides"),
    [("7", 1, True), ("1", 1, True), ("7,0", 4, True), ("0,7", 1, False), ("7", 8, False), ("GPU-12", 1, False)],
)
def test_visible_devices_that_begin_with_a_missing_gpu_hide_all(value: str, count: int, hides: bool) -> None:  # noqa: FBT001 - a table
    machine = host("driver=580", *["gpu=H100"] * count)
    found = codes_and_causes(verdict(image("12.9.1", CUDA_VISIBLE_DEVICES=value), machine))
    assert found == ([("IMG912", "visible-devices-hide-gpu")] if hides else [])


def test_the_requirements_of_an_image_for_servers_follow_from_the_jetson() -> None:
    arm = replace(image("12.9.1"), platform="linux/arm64")
    found = verdict(arm, host("arch=aarch64", "gpu=Orin", "driver=540.4.0"))
    assert [(entry.code, entry.follows_from) for entry in found.findings if entry.code in ("IMG902", "IMG906")] == [
        ("IMG906", None),
        ("IMG902", "IMG906"),
    ]
    assert not any("driver to branch" in fix.text for entry in found.findings for fix in entry.fix)


def test_the_requirements_of_an_image_follow_from_its_platform() -> None:
    found = verdict(replace(image("13.0.2"), platform="linux/arm64"), host("driver=535", "gpu=A100"))
    assert found.findings[0].code == "IMG901"
    assert {entry.follows_from for entry in found.findings[1:] if entry.code != "IMG917"} == {"IMG901"}
    assert len(found.changes) == 1


def test_no_driver_without_support_for_the_gpu_is_recommended() -> None:
    """Branch 470 is the last for Kepler: with a newer one the machine would have no GPU at all."""
    found = verdict(image("12.9.1"), host("driver=470.256.02", "gpu=K80", "gpu=K80"))
    assert [entry.code for entry in found.findings][:2] == ["IMG902", "IMG903"]
    assert not any("pdate the driver" in fix.text for entry in found.findings for fix in entry.fix)
    (change,) = found.changes
    assert "CUDA 11.4 or older" in change


def test_equal_gpus_are_listed_once() -> None:
    found = verdict(image("12.9.1"), host("driver=545", *["gpu=H100"] * 8))
    assert len(found.requirements) == 8
    assert [entry.fact for entry in found.findings[0].evidence].count("gpus[]") == 1


def test_the_first_fix_does_not_begin_with_or() -> None:
    found = verdict(
        image("13.0.2", CUDA_VERSION="99.1.0", NVIDIA_REQUIRE_CUDA="cuda>=99.1"), host("driver=580", "gpu=H100")
    )
    (change,) = found.changes
    assert "CUDA 13.0 or older" in change


def test_a_long_requirement_is_shortened() -> None:
    found = verdict(image("12.9.1", NVIDIA_REQUIRE_CUDA="cuda>=" + "9" * 5000), host("driver=580", "gpu=H100"))
    assert len(found.findings[0].title) < 300


def test_the_fix_of_a_variable_is_a_command() -> None:
    facts = replace(image("12.9.1", NVIDIA_DRIVER_CAPABILITIES="utility"), reference="app:1", source="engine")
    command = verdict(facts, host("driver=580", "gpu=H100")).findings[0].fix[0].command
    assert command is not None
    assert (command[-1], "--gpus" in command) == ("app:1", True)


@pytest.mark.parametrize(
    ("specification", "expected"),
    [("cuda-version=13", "driver-too-old-for-cuda"), ("cuda-version=12", None), ("cuda-version=12.8", None)],
)
def test_the_cuda_of_conda_is_checked_against_the_driver(
    tmp_path: Path, specification: str, expected: str | None
) -> None:
    text = f"FROM mambaorg/micromamba:2.0\nRUN micromamba install -y -n base -c conda-forge cupy=14.1.1 {specification}"
    (machine,) = report_on(tmp_path, text, ("driver=535", "gpu=A100")).machines
    assert [entry.cause.value for entry in machine.findings if entry.primary] == ([expected] if expected else [])


def test_musl_has_one_finding(tmp_path: Path) -> None:
    alpine = SLIM.replace("slim", "alpine")
    assert located(judged(tmp_path, f"{alpine}\nRUN pip install cupy-cuda12x==14.2.0")) == [("DKF914", "Dockerfile", 2)]


def test_no_headers_are_recommended_for_a_line_of_another_cuda(tmp_path: Path) -> None:
    """There is no nvidia-cuda-runtime-cu11 of CUDA 12.9."""
    text = "FROM nvidia/cuda:12.9.1-runtime-ubuntu24.04\nRUN pip install cupy-cuda11x==13.6.0"
    assert located(judged(tmp_path, text)) == [("DKF902", "Dockerfile", 2)]


@pytest.mark.parametrize(
    "piece",
    [
        "pip install cupy-cuda12x;",
        "cupy-cuda12x $(",
        "cupy-cuda12x ",
        "install ",
        "-t ",
        "a/",
        "pip install [",
        "&&",
        "cupy-cuda1",
        "/pip ",
    ],
)
def test_a_history_of_any_length_is_read_in_linear_time(piece: str) -> None:
    steps = (piece * (20_000 // len(piece)),) * 20
    begun = time.process_time()
    lines_together(steps)
    assert time.process_time() - begun < 3.0


@pytest.mark.parametrize("script", ["echo $A$A$A$A$A", 'sh -c "$A"; ' * 1000])
def test_a_step_with_too_long_variables_names_no_cupy(script: str) -> None:
    steps = ("RUN pip install cupy-cuda13x", f"RUN |1 A={'true;' * 1000} /bin/sh -c pip install cupy-cuda12x; {script}")
    found = last_cupy(steps)
    assert found is not None
    assert found.line == "cupy-cuda13x"
