"""Fuzzing of check-image: Dockerfiles, compose files, and the configuration of an image."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from gpuenv.image.dockerfile.judge import DockerfileOptions, file_report, judge_files
from gpuenv.image.dockerfile.predict import with_machines
from gpuenv.image.inspect.image_facts import ImageError, facts_from_configuration
from gpuenv.image.inspect.image_report import ImageReport, report_lines, sarif_text
from gpuenv.image.inspect.verdict import image_report, judge_machine
from gpuenv.model.codec import encode
from tests.cli.snapshots import SNAPSHOTS
from tests.fuzz.records import TEXTS, WRONG_VALUES
from tests.fuzz.report_checks import shipped_matrix

HERE = Path(__file__).parent
SEEDS = HERE / "seeds"
DOCKERFILES = [
    path.read_text(encoding="utf-8")
    for folder in (HERE.parents[1] / "images", SEEDS)
    for path in sorted(folder.glob("*.Dockerfile"))
]
COMPOSE = [path.read_text(encoding="utf-8") for path in sorted(SEEDS.glob("*.yaml"))]


@cache
def context_folder() -> Path:
    """An empty build context, which is removed at exit."""
    folder = Path(tempfile.mkdtemp(prefix="gpuenv-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def check_dockerfile(text: str) -> None:
    """A Dockerfile is rejected with the line, or checked alone and for every machine."""
    file = context_folder() / "Dockerfile"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        checked = judge_files([file], DockerfileOptions(None, None, {}), shipped_matrix())
    except ImageError as error:
        assert str(file) in str(error), "the file is named"
        return
    report = with_machines(
        file_report(file, checked, shipped_matrix()),
        checked.targets,
        dict(SNAPSHOTS),
        shipped_matrix(),
        time.monotonic,
    )
    _check_formats(report)


def check_compose(text: str) -> None:
    """A compose file is rejected with the line, or checked."""
    file = context_folder() / "compose.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        checked = judge_files([file], DockerfileOptions(None, None, {}), shipped_matrix())
    except ImageError as error:
        assert str(file.parent) in str(error), "the file is named: this one, or the Dockerfile of a service"
        return
    _check_formats(file_report(file, checked, shipped_matrix()))


_ENTRIES = st.one_of(
    st.sampled_from(
        [
            "NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver>=470,driver<471",
            *(
                "CUDA_VERSION=12.4.1",
                "CUDA_VERSION=v",
                "NV_CUDA_CUDART_VERSION=12.4.127-1",
                "NVIDIA_VISIBLE_DEVICES=void",
            ),
            *("NVIDIA_DRIVER_CAPABILITIES=compute,utility", "LD_LIBRARY_PATH=/usr/local/cuda/compat:/x", "=", "A"),
        ]
    ),
    TEXTS,
)
CONFIGURATIONS = st.fixed_dictionaries(
    {"os": st.sampled_from(["linux", "windows", ""]), "rootfs": st.just({"diff_ids": ["sha256:0"]})},
    optional={
        "architecture": st.one_of(st.sampled_from(["amd64", "arm64"]), WRONG_VALUES),
        "variant": WRONG_VALUES,
        "created": WRONG_VALUES,
        "history": st.one_of(st.lists(st.fixed_dictionaries({"created_by": TEXTS}), max_size=3), WRONG_VALUES),
        "config": st.one_of(
            st.fixed_dictionaries(
                {"Env": st.lists(_ENTRIES, max_size=5)}, optional={"Labels": WRONG_VALUES, "User": WRONG_VALUES}
            ),
            WRONG_VALUES,
        ),
    },
)


def check_configuration(data: Any) -> None:  # noqa: ANN401 - plain values
    """A configuration is rejected, or checked for every machine."""
    try:
        image = facts_from_configuration(data, "an/image:1", "registry")
    except ImageError as error:
        assert "an/image:1" in str(error)
        return
    verdicts = tuple(
        judge_machine(name, image, machine, shipped_matrix(), time.monotonic) for name, machine in SNAPSHOTS.items()
    )
    _check_formats(image_report("an/image:1", {"linux/amd64": image}, verdicts, shipped_matrix()))


def _check_formats(report: ImageReport) -> None:
    """The report is rendered as text, JSON and SARIF, and its exit code fits its status."""
    list(report_lines(report, verbose=True))
    data = json.loads(json.dumps(encode(report), allow_nan=False))
    assert data["exit_code"] == {"fit": 0, "degraded": 0, "unfit": 1, "unknown": 8}[data["status"]]
    json.loads(sarif_text(report))
