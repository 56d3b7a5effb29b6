"""What is fuzzed: each reader of what others have written, with inputs that nearly are what it expects."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuenv.cli.commands.explain import with_stated
from gpuenv.explain.answer import explanation
from gpuenv.explain.scan import scan
from gpuenv.explain.situation import marks_of
from gpuenv.image import require
from gpuenv.matrix import strict_yaml
from gpuenv.matrix.assume import AssumeError, assume
from gpuenv.matrix.load import parse
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.validate import MatrixError
from gpuenv.model.codec import encode
from gpuenv.model.snapshot import Snapshot
from gpuenv.preflight.config import ConfigError, load_config
from gpuenv.preflight.evaluate import evaluate
from gpuenv.preflight.requirements import KEYS, RequirementError, parse_requirement
from gpuenv.probe import nvidia_smi, nvidia_smi_xml
from gpuenv.probe.assembly import assemble
from gpuenv.probe.raw import RawFacts, SmiFacts
from gpuenv.report.explanation import explanation_text
from tests.cli.snapshots import FIT, SNAPSHOTS
from tests.fuzz import images, pastes
from tests.fuzz.judged import judge, shipped, tell, whole
from tests.fuzz.machines import check_children, check_snapshot, printed, recordings
from tests.fuzz.texts import spoilt, spoilt_lines

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
_DEMANDS = [
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
        name: as it is asked for.
        about: what is read, in a few words.
        inputs: nearly right inputs.
        check: reads one and holds the outcome against what must be true; whatever it raises is a finding.
        of_bytes: bytes of the coverage-guided fuzzer to an input; null where they steer ``inputs`` instead.
        seeds: what the coverage-guided fuzzer begins with.
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
    """Refused with the line of every fault, or good enough to decide with."""
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
    """Texts, lists and mappings, or one error."""
    try:
        document = strict_yaml.parse(text)
    except strict_yaml.YamlError as error:
        assert str(error)
        return
    json.dumps(document.value)


def check_requirement(text: str) -> None:
    """Refused in printable words, or read the same again and held against any machine."""
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
    """A configuration, or its faults with file and line."""
    path = Path(tempfile.gettempdir()) / f"gpuenv-fuzz-{os.getpid()}.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load_config(path)
    except ConfigError as error:
        assert all(str(path) in fault for fault in error.faults)


def check_assume(text: str) -> None:
    """Refused with a reason, or a machine like any other."""
    try:
        machine = assume(FIT, [text], shipped())
    except AssumeError as error:
        assert str(error).startswith("--assume ")
        return
    tell(judge(machine))


def check_demand(text: str) -> None:
    """Refused, or held against a machine of which all is known and one of which nothing is."""
    found = require.requirements({"NVIDIA_REQUIRE_CUDA": text, "CUDA_VERSION": text})
    assert set(found) <= {"NVIDIA_REQUIRE_CUDA", "CUDA_VERSION"}
    try:
        requirement = require.parse(text)
    except require.RequireError as error:
        assert str(error)
        return
    require.holds(requirement, require.Machine("12.4", "550.54.15", "9.0", "tesla"))
    assert require.holds(requirement, require.Machine()), "what nobody could tell holds"


def check_smi(text: str) -> None:
    """Driver, level and GPUs as far as they are to be read; what is read is judged like any other machine."""
    driver, cuda = nvidia_smi.parse_banner(text)
    listed = nvidia_smi.parse_gpus(text)
    whole(assemble(RawFacts(smi=SmiFacts("nvidia-smi", driver, cuda, listed), sources=FIT.sources), None))
    longer = nvidia_smi_xml.parse_xml(text)
    if longer is not None:
        whole(assemble(RawFacts(smi=longer, sources=FIT.sources), None))


def check_log(data: bytes) -> None:
    """Explained or not, with confidences that are some, and the same when the text comes in other pieces."""
    scanner = scan(data)
    said = explanation(scanner)
    machine = with_stated(Snapshot(), scanner.stated.facts, (), shipped())
    more = explanation(scanner, marks_of(machine, shipped(), scanner.hits))
    for answer in (said, more):
        assert all(0 < cause.confidence <= 1 for cause in answer.causes)
        assert [cause.confidence for cause in answer.causes] == sorted(
            (cause.confidence for cause in answer.causes), reverse=True
        )
        list(explanation_text(answer, verbose=True))
        json.dumps(encode(answer), allow_nan=False)


_YAML = ["a: [b, {c: d}]\n- x\n", "a: &b [*b]\n", "? [a]\n: |\n  text\n", MATRIX[:2000], *_CONFIG]


def _of_texts(name: str, about: str, originals: list[str], check: Callable[[str], None]) -> Target:
    """A reader of texts: they are spoilt ones, or what the coverage-guided fuzzer makes of them."""
    return Target(name, about, spoilt(originals), check, _text, _encoded(originals))


TARGETS = {
    target.name: target
    for target in (
        Target("snapshot", "a recorded machine", recordings(), check_snapshot),
        Target("children", "what the probing children print", printed(), check_children),
        Target("matrix", "the matrix", spoilt_lines(MATRIX), check_matrix),
        _of_texts("yaml", "strict YAML", _YAML, check_yaml),
        _of_texts("requirement", "requirements of preflight", _REQUIREMENTS, check_requirement),
        _of_texts("config", "gpuenv.toml", _CONFIG, check_config),
        _of_texts("assume", "--assume", _ASSUMED, check_assume),
        _of_texts("nvidia-require", "NVIDIA_REQUIRE_*", _DEMANDS, check_demand),
        _of_texts("dockerfile", "Dockerfiles", images.DOCKERFILES, images.check_dockerfile),
        _of_texts("compose", "compose files", images.COMPOSE, images.check_compose),
        Target("image", "the configuration of an image", images.CONFIGURATIONS, images.check_configuration),
        _of_texts("smi", "what nvidia-smi prints", [*SAMPLES, *_CSV], check_smi),
        _of_texts("paste", "what people paste", pastes.TEXTS, pastes.check_paste),
        Target(
            "log",
            "error logs",
            spoilt(LOGS).map(lambda text: text.encode("utf-8", "surrogatepass")),
            check_log,
            bytes,
            _encoded(LOGS),
        ),
    )
}
