"""Fuzz targets: each reader of foreign data, with nearly valid inputs."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuenv.doctor.diagnose import diagnose
from gpuenv.explain.explainer import explanation, verdict_of
from gpuenv.explain.match import scan
from gpuenv.image.inspect import nvidia_require
from gpuenv.matrix import strict_yaml
from gpuenv.matrix.assume import AssumeError, assume
from gpuenv.matrix.load import parse
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.validate import MatrixError
from gpuenv.model.codec import encode
from gpuenv.model.snapshot import Snapshot
from gpuenv.paste.error_text import with_stated
from gpuenv.preflight.config import ConfigError, load_config
from gpuenv.preflight.evaluate import evaluate
from gpuenv.preflight.requirements import KEYS, RequirementError, parse_requirement
from gpuenv.probe import nvidia_smi, nvidia_smi_xml
from gpuenv.probe.assembly import assemble
from gpuenv.probe.raw import RawFacts, SmiFacts
from gpuenv.report.explanation import explanation_text
from tests.cli.snapshots import FIT, SNAPSHOTS
from tests.fuzz import images, pastes
from tests.fuzz.machines import check_children, check_snapshot, child_outputs, snapshot_data
from tests.fuzz.mutations import mutated_lines, mutated_text
from tests.fuzz.report_checks import check_formats, check_machine, report_of, shipped_matrix

if TYPE_CHECKING:
    from hypothesis import strategies as st

HERE = Path(__file__).parent
MATRIX = (HERE.parents[1] / "matrix.yaml").read_text(encoding="utf-8")
SAMPLES = [
    path.read_text(encoding="utf-8")
    for path in sorted((HERE.parent / "probe/samples").iterdir())
    if path.suffix in (".txt", ".xml")
]
LOGS = [
    entry["error_text"]
    for name in ("established", "collected")
    for entry in json.loads((HERE.parent / f"eval/{name}.json").read_text(encoding="utf-8"))
]
_CSV = ["0, GPU-1, NVIDIA H100, 00000000:53:00.0, 81559\n", "1, [N/A], [N/A], , [Unknown Error]\n", ", , , , \n"]
_REQUIREMENTS = [key.example for key in KEYS.values()] + [
    "cc >= 8.0, < 10",
    "driver==550",
    "memory>=0.5TiB",
    "name!=x|y",
]
_IMAGE_REQUIREMENTS = [
    "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=535,driver<536",
    "cuda>=9.0 driver>=384",
    "arch>=7.0",
    "brand!=grid,cuda<=13.0",
    "cuda=12.",
]
_ASSUMED = [
    *("driver=580.95.05", "driver=580", "driver-cuda=12.2", "gpu=H100", "gpu=V100", "compute-capability=7.0"),
    *("gpu-count=8", "gpu-memory=80GiB", "cupy=cupy-cuda12x==14.2.0", "numpy=2.3.4", "toolkit=12.4", "container=yes"),
    *("wsl=no", "env.CUDA_VISIBLE_DEVICES=0,1", "package.torch=2.9.1", "os=linux", "arch=x86_64", "libc=glibc-2.36"),
    *("python=3.12", "python=3.14t", "driver=none", "gpu=none", "cupy=none", "toolkit=none", "gpu=MIG 1g.10gb"),
]
_CONFIG = [
    'require = ["gpu>=1", "cc>=8.0"]\ntimeout = 60\nwait = 300\nretry-elsewhere = true\n',
    "require = [\n  # a comment\n  'memory>=40GiB',\n]\n",
    "wait = 1e400\ntimeout = -0.0\n",
]


@dataclass(frozen=True, slots=True)
class Target:
    """A reader and its inputs.

    Attributes:
        name: the name on the command line.
        about: a short description of the data.
        inputs: nearly valid inputs.
        check: reads an input and asserts properties of the result; any exception is a finding.
        of_bytes: converts bytes of the coverage-guided fuzzer to an input; if None, they control ``inputs``.
        seeds: the first inputs of the coverage-guided fuzzer.
    """

    name: str
    about: str
    inputs: st.SearchStrategy[Any]
    check: Callable[[Any], None]
    of_bytes: Callable[[bytes], Any] | None = None
    seeds: tuple[bytes, ...] = ()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encoded(texts: list[str]) -> tuple[bytes, ...]:
    return tuple(text.encode("utf-8", "surrogateescape") for text in texts)


def check_matrix(text: str) -> None:
    """A matrix is rejected with the line of every fault, or every machine is resolved with it."""
    try:
        matrix = parse(text, "m.yaml")
    except MatrixError as error:
        assert error.faults
        assert all(fault.startswith("m.yaml: ") for fault in error.faults)
        assert max(map(len, error.faults)) < 2000
        return
    for machine in SNAPSHOTS.values():
        resolve(machine, matrix)


def check_yaml(text: str) -> None:
    """A document is rejected, or consists of texts, lists and mappings."""
    try:
        document = strict_yaml.parse(text)
    except strict_yaml.YamlError as error:
        assert str(error)
        return
    json.dumps(document.value)


def check_requirement(text: str) -> None:
    """A requirement is rejected with a printable message, or its text is parsed again to an equal one and evaluated."""
    try:
        requirement = parse_requirement(text)
    except RequirementError as error:
        assert str(error).isprintable(), str(error)
        return
    assert parse_requirement(requirement.text).clauses == requirement.clauses
    for machine in SNAPSHOTS.values():
        (result,) = evaluate([requirement], machine)
        assert result.found or result.missing


def check_config(text: str) -> None:
    """A configuration is loaded, or rejected with faults that name the file."""
    path = Path(tempfile.gettempdir()) / f"gpuenv-fuzz-{os.getpid()}.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load_config(path)
    except ConfigError as error:
        assert all(str(path) in fault for fault in error.faults)


def check_assume(text: str) -> None:
    """An assumed fact is rejected with a reason, or its machine has a consistent report."""
    try:
        machine = assume(FIT, [text], shipped_matrix())
    except AssumeError as error:
        assert str(error).startswith("--assume ")
        return
    check_formats(report_of(machine))


def check_image_requirement(text: str) -> None:
    """A requirement of an image is rejected, or evaluated for a known and an unknown machine."""
    requirements = nvidia_require.requirements({"NVIDIA_REQUIRE_CUDA": text, "CUDA_VERSION": text})
    assert set(requirements) <= {"NVIDIA_REQUIRE_CUDA", "CUDA_VERSION"}
    try:
        requirement = nvidia_require.parse(text)
    except nvidia_require.RequireError as error:
        assert str(error)
        return
    nvidia_require.holds(requirement, nvidia_require.HostFacts("12.4", "550.54.15", "9.0", "tesla"))
    assert nvidia_require.holds(requirement, nvidia_require.HostFacts()), "it fails for an unknown machine"


def check_smi(text: str) -> None:
    """The parsed output of nvidia-smi results in a machine with a consistent report."""
    driver, cuda = nvidia_smi.parse_banner(text)
    gpus = nvidia_smi.parse_gpus(text)
    check_machine(assemble(RawFacts(smi=SmiFacts(driver, cuda, gpus), sources=FIT.sources), None))
    from_xml = nvidia_smi_xml.parse_xml(text)
    if from_xml is not None:
        check_machine(assemble(RawFacts(smi=from_xml, sources=FIT.sources), None))


def check_log(data: bytes) -> None:
    """An explanation has sorted confidences between 0 and 1, without and with the facts of a machine."""
    scanner = scan(data)
    by_text = explanation(scanner)
    machine = with_stated(Snapshot(), scanner.stated.facts, (), shipped_matrix())
    diagnosis = diagnose(machine, shipped_matrix(), time.monotonic)
    by_text_and_facts = explanation(scanner, verdict_of(diagnosis, machine, pasted=True))
    for answer in (by_text, by_text_and_facts):
        assert all(0 < cause.confidence <= 1 for cause in answer.causes)
        assert [cause.confidence for cause in answer.causes] == sorted(
            (cause.confidence for cause in answer.causes), reverse=True
        )
        list(explanation_text(answer, verbose=True))
        json.dumps(encode(answer), allow_nan=False)


_YAML = ["a: [b, {c: d}]\n- x\n", "a: &b [*b]\n", "? [a]\n: |\n  text\n", MATRIX[:2000], *_CONFIG]


def _of_texts(name: str, about: str, originals: list[str], check: Callable[[str], None]) -> Target:
    """A reader of texts, which are mutations of the originals or chosen by the coverage-guided fuzzer."""
    return Target(name, about, mutated_text(originals), check, _text, _encoded(originals))


TARGETS = {
    target.name: target
    for target in (
        Target("snapshot", "a Snapshot", snapshot_data(), check_snapshot),
        Target("children", "the output of probes", child_outputs(), check_children),
        Target("matrix", "the matrix", mutated_lines(MATRIX), check_matrix),
        _of_texts("yaml", "strict YAML", _YAML, check_yaml),
        _of_texts("requirement", "requirements of preflight", _REQUIREMENTS, check_requirement),
        _of_texts("config", "gpuenv.toml", _CONFIG, check_config),
        _of_texts("assume", "--assume", _ASSUMED, check_assume),
        _of_texts("nvidia-require", "NVIDIA_REQUIRE_*", _IMAGE_REQUIREMENTS, check_image_requirement),
        _of_texts("dockerfile", "Dockerfiles", images.DOCKERFILES, images.check_dockerfile),
        _of_texts("compose", "compose files", images.COMPOSE, images.check_compose),
        Target("image", "the configuration of an image", images.CONFIGURATIONS, images.check_configuration),
        _of_texts("smi", "the output of nvidia-smi", [*SAMPLES, *_CSV], check_smi),
        _of_texts("paste", "pasted outputs", pastes.TEXTS, pastes.check_paste),
        Target(
            "log",
            "error logs",
            mutated_text(LOGS).map(lambda text: text.encode("utf-8", "surrogatepass")),
            check_log,
            bytes,
            _encoded(LOGS),
        ),
    )
}
