"""What check-image reads: Dockerfiles, compose files, and the configuration of an image."""

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

from gpuenv.image.check.facts import ImageError, of_configuration
from gpuenv.image.check.judge_compose import judge_compose
from gpuenv.image.check.judge_file import Choice, file_report, judge_dockerfile
from gpuenv.image.check.records import ImageReport
from gpuenv.image.check.sarif import sarif_text
from gpuenv.image.check.supposed import with_machines
from gpuenv.image.check.text import report_lines
from gpuenv.image.check.verdict import image_report, judge_machine
from gpuenv.model.codec import encode
from tests.cli.snapshots import SNAPSHOTS
from tests.fuzz.judged import shipped
from tests.fuzz.records import TEXTS, WRONG

HERE = Path(__file__).parent
SEEDS = HERE / "seeds"
DOCKERFILES = [
    path.read_text(encoding="utf-8")
    for folder in (HERE.parents[1] / "images", SEEDS)
    for path in sorted(folder.glob("*.Dockerfile"))
]
COMPOSE = [path.read_text(encoding="utf-8") for path in sorted(SEEDS.glob("*.yaml"))]


@cache
def place() -> Path:
    """An empty build context, gone with the process."""
    folder = Path(tempfile.mkdtemp(prefix="gpuenv-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def check_dockerfile(text: str) -> None:
    """Refused with the line, or judged: alone, and for every machine."""
    file = place() / "Dockerfile"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        judged = judge_dockerfile(file, Choice(None, None, {}), shipped())
    except ImageError as error:
        assert str(file) in str(error), "the file is named"
        return
    report = with_machines(
        file_report(file, "dockerfile", judged, shipped()), judged.built, dict(SNAPSHOTS), shipped(), time.monotonic
    )
    _tell(report)


def check_compose(text: str) -> None:
    """Refused with the line, or judged."""
    file = place() / "compose.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        judged = judge_compose(file, Choice(None, None, {}), shipped())
    except ImageError as error:
        assert str(file.parent) in str(error), "the file is named: this one, or the Dockerfile of a service"
        return
    _tell(file_report(file, "compose", judged, shipped()))


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
        "architecture": st.one_of(st.sampled_from(["amd64", "arm64"]), WRONG),
        "variant": WRONG,
        "created": WRONG,
        "history": st.one_of(st.lists(st.fixed_dictionaries({"created_by": TEXTS}), max_size=3), WRONG),
        "config": st.one_of(
            st.fixed_dictionaries({"Env": st.lists(_ENTRIES, max_size=5)}, optional={"Labels": WRONG, "User": WRONG}),
            WRONG,
        ),
    },
)


def check_configuration(data: Any) -> None:  # noqa: ANN401 - plain values
    """Refused, or judged for every machine."""
    try:
        image = of_configuration(data, "an/image:1", "registry")
    except ImageError as error:
        assert "an/image:1" in str(error)
        return
    verdicts = tuple(
        judge_machine(name, image, machine, shipped(), time.monotonic) for name, machine in SNAPSHOTS.items()
    )
    _tell(image_report("an/image:1", {"linux/amd64": image}, verdicts, shipped()))


def _tell(report: ImageReport) -> None:
    """Text, JSON and SARIF are written, and the exit code is that of the status."""
    list(report_lines(report, verbose=True))
    told = json.loads(json.dumps(encode(report), allow_nan=False))
    assert told["exit_code"] == {"fit": 0, "degraded": 0, "unfit": 1, "unknown": 8}[told["status"]]
    json.loads(sarif_text(report))
