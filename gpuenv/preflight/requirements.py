"""Requirements: their grammar, their keys and the types of their values.

A requirement is a key and one or more clauses, all of which must hold::

    requirement = key [ clause { "," clause } ]
    clause      = operator value
    operator    = ">=" | "<=" | "==" | "!=" | ">" | "<" | "~="
    value       = any text without a comma

Whitespace around each part is ignored. A key that is on or off may be used alone, which means ``==on``. ``|``
separates alternatives: ``name~=H100|H200``. Driver and Python versions are compared to the precision written:
``driver==550`` matches every 550.x. ``cupy`` and ``numpy`` take version specifiers as in pip, such as ``cupy~=14.1``.
"""

from __future__ import annotations

import difflib
import operator as operators
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from gpuenv.matrix.needs import visible_gpus
from gpuenv.model.cupy import cuda_major, is_published
from gpuenv.model.errors import GpuenvError
from gpuenv.model.reading import Reading
from gpuenv.model.redaction import excerpt
from gpuenv.model.snapshot import Container, Gpu, Snapshot, SourceState, architecture, operating_system
from gpuenv.model.strings import format_size, parse_integer, parse_size
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion

# The types of values.

Test = Callable[[Any], bool]

ORDERED = (">=", "<=", "==", "!=", ">", "<")
EQUAL = ("==", "!=")
NONE = "none"
MAX_COUNT = 4096
_MAX_MAJOR = 20  # 20 and above are major and minor: 90 is 9.0
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operators.ge,
    "<=": operators.le,
    "==": operators.eq,
    "!=": operators.ne,
    ">": operators.gt,
    "<": operators.lt,
}
_YES, _NO = ("yes", "on", "true"), ("no", "off", "false")


class ValueType(NamedTuple):
    """The type of a value.

    Attributes:
        operators: the valid operators, the usual one first.
        read: turns the operator and value of a clause into a test; raises ``ValueError`` with what is expected.
        bare: the clause that the key alone means; None if a clause is needed.
    """

    operators: tuple[str, ...]
    read: Callable[[str, str], Test]
    show: Callable[[Any], str] = str
    bare: tuple[str, str] | None = None


def _ordered(parse: Callable[[str], Any]) -> Callable[[str, str], Test]:
    def read(operator: str, text: str) -> Test:
        wanted = parse(text)
        return lambda found: _COMPARE[operator](found, wanted)

    return read


def _count(text: str) -> int:
    number = parse_integer(text, len(str(MAX_COUNT)))
    if number is None:
        raise ValueError("expected a whole number like 2")
    return number


def _capability(text: str) -> ComputeCapability:
    """A capability; a bare ``8`` or ``12`` is the major version, since no supported driver knows a GPU of 1.x."""
    number = parse_integer(text)
    return ComputeCapability(number, 0) if number and number < _MAX_MAJOR else ComputeCapability.parse(text)


def _by_parts(operator: str, wanted: Sequence[int]) -> Test:
    """Compares to the precision required: ``==550`` is every 550.x, ``>550`` starts at 551."""
    return lambda found: _COMPARE[operator](tuple(found[: len(wanted)]), tuple(wanted))


def _read_driver(operator: str, text: str) -> Test:
    holds = _by_parts(operator, DriverVersion.parse(text).parts)
    return lambda found: holds(found.parts)


def _read_python(operator: str, text: str) -> Test:
    wanted = PythonVersion.parse(text)
    holds = _by_parts(operator, _python_parts(wanted))
    if not wanted.free_threaded:
        return lambda found: holds(_python_parts(found))
    if operator not in EQUAL:
        raise ValueError("a free-threaded Python can be compared only with == or !=")
    return lambda found: (
        (found.free_threaded and _by_parts("==", _python_parts(wanted))(_python_parts(found))) == (operator == "==")
    )


def _python_parts(version: PythonVersion) -> tuple[int, ...]:
    return (version.major, version.minor, *(() if version.micro is None else (version.micro,)))


def _read_libc(operator: str, text: str) -> Test:
    """Different C libraries are unequal, and not ordered."""
    wanted = Libc.parse(text)
    return lambda found: _COMPARE[operator](found, wanted) if found.family == wanted.family else operator == "!="


def _specifier(operator: str, text: str) -> Test:
    """A version specifier as in pip; ``==none`` requires that the package is not installed."""
    if text.lower() == NONE:
        if operator not in EQUAL:
            raise ValueError("none can be compared only with == or !=")
        return lambda found: (found is None) == (operator == "==")
    try:
        wanted = SpecifierSet(f"{operator}{text}")
    except InvalidSpecifier:
        raise ValueError("expected a version like 14.2.0") from None
    return lambda found: found is not None and wanted.contains(found, prereleases=True)


def _switch(operator: str, text: str) -> Test:
    if text.lower() not in (*_YES, *_NO):
        raise ValueError("expected on or off")
    wanted = (text.lower() in _YES) == (operator == "==")
    return lambda found: found is wanted


def _alternatives(text: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in text.split("|"))
    if not all(names):
        raise ValueError("expected a name, or several separated by |")
    return names


def _name(operator: str, text: str) -> Test:
    names = _alternatives(text)
    if operator == "~=":
        return lambda found: any(name in found.lower() for name in names)
    return lambda found: (found.lower() in names) == (operator == "==")


COUNT = ValueType(ORDERED, _ordered(_count))
SIZE = ValueType(ORDERED, _ordered(parse_size), format_size)
CAPABILITY = ValueType(ORDERED, _ordered(_capability))
CUDA = ValueType(ORDERED, _ordered(CudaVersion.parse))
DRIVER = ValueType(ORDERED, _read_driver)
PYTHON = ValueType(ORDERED, _read_python)
LIBC = ValueType(ORDERED, _read_libc)
PACKAGE = ValueType((*ORDERED, "~="), _specifier, lambda found: str(found or "not installed"))
NAME = ValueType(("~=", *EQUAL), _name)
SWITCH = ValueType(EQUAL, _switch, lambda found: "on" if found else "off", ("==", "on"))


def one_of(
    choices: Sequence[str], admits: Callable[[str], bool] = lambda _: False, usual: Callable[[str], str] = str
) -> ValueType:
    """A type with a fixed set of values.

    Args:
        choices: the values that messages list.
        admits: whether another, rarer value is valid.
        usual: the canonical spelling of a value.
    """

    def read(operator: str, text: str) -> Test:
        names = [usual(name) for name in _alternatives(text)]
        if [name for name in names if name not in choices and not admits(name)]:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return _name(operator, "|".join(names))

    return ValueType(EQUAL, read)


_LINES = ("cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "cupy-cuda14x", "cupy", "cupy-core")
_SYSTEM = one_of(("linux", "windows", "darwin"), usual=operating_system)
_PROCESSOR = one_of(("x86_64", "aarch64"), usual=architecture)


# The values of a machine.


class Observation(NamedTuple):
    """One value with its source.

    Attributes:
        fact: Snapshot path.
        source: of the value; the reason if it is unknown.
        subject: the GPU or distribution of the value; empty if there can be only one.
    """

    fact: str
    value: Any
    source: str
    subject: str = ""
    known: bool = True


Observations = tuple[Observation, ...] | str
"""All values that must satisfy a requirement; or the reason why none exists, which violates every requirement."""

_NOT_REPORTED = "no source reports it"
_PEER_READS = "ok"
_PEER_UNKNOWN = (None, "unknown")  # the second is NVML's term


def _observed(fact: str, reading: Reading[Any], subject: str = "") -> Observation:
    if reading.value is None:
        return _unknown(fact, reading.reason or _NOT_REPORTED, subject)
    return Observation(fact, reading.value, reading.source or "", subject)


def _unknown(fact: str, reason: str, subject: str = "") -> Observation:
    return Observation(fact, None, reason, subject, known=False)


def _fact(path: str) -> Callable[[Snapshot], Observations]:
    look = operators.attrgetter(path)
    return lambda snapshot: (_observed(path, look(snapshot)),)


def _gpu_count(snapshot: Snapshot) -> tuple[Observation]:
    """The number of CUDA devices that a program sees; 0 if CUDA cannot be initialised."""
    visible, start = snapshot.visible_count, snapshot.driver.cuda_init
    if visible.known:
        return (_observed("visible_count", visible),)
    if start.value:
        return (Observation("driver.cuda_init", 0, f"cuInit returned {start.value}"),)
    if snapshot.source("libcuda").state is SourceState.ABSENT:
        return (Observation("visible_count", 0, visible.reason or "there is no libcuda"),)
    if "driver.version" in snapshot.assumed and not snapshot.driver.version.known:
        return (Observation("driver.version", 0, "assumed to be absent"),)
    return (_unknown("visible_count", visible.reason or _NOT_REPORTED),)


def _gpus(snapshot: Snapshot) -> tuple[tuple[int, Gpu], ...] | None:
    """The GPUs that a program sees, with their index in the Snapshot; None if unknown."""
    (count,) = _gpu_count(snapshot)
    if count.known and count.value == 0:
        return ()
    visible = visible_gpus(snapshot)
    return tuple((number, gpu) for number, gpu in enumerate(snapshot.gpus) if gpu in visible) if visible else None


def _label(number: int, gpu: Gpu) -> str:
    return f"GPU {number if gpu.index.value is None else gpu.index.value}"


def _each_gpu(field: str, look: Callable[[Gpu], Reading[Any]] | None = None) -> Callable[[Snapshot], Observations]:
    """A field of every visible GPU, or a fact that follows from it."""
    look = look or operators.attrgetter(field)

    def observe(snapshot: Snapshot) -> Observations:
        gpus = _gpus(snapshot)
        if gpus is None:
            return (_unknown("gpus", "no GPU is listed"),)
        return tuple(_observed(f"gpus[{n}].{field}", look(gpu), _label(n, gpu)) for n, gpu in gpus) or "no visible GPU"

    return observe


def _memory(snapshot: Snapshot) -> Observations:
    """Bytes of each visible GPU; with MIG on, of each of its instances, since a program sees one of them."""
    totals = _each_gpu("memory_total")(snapshot)
    gpus = _gpus(snapshot) or ()
    if isinstance(totals, str) or not any(gpu.mig.value for _, gpu in gpus):
        return totals
    found: list[Observation] = []
    for observation, (index, gpu) in zip(totals, gpus, strict=True):
        path, label = f"gpus[{index}].mig_instances", _label(index, gpu)
        if not gpu.mig.value:
            found.append(observation)
        elif not gpu.mig_instances:
            found.append(_unknown(path, "MIG is on, and no instance is listed", label))
        for number, instance in enumerate(gpu.mig_instances if gpu.mig.value else ()):
            reading = Reading(instance.memory_total, "nvml", reason=_NOT_REPORTED)
            found.append(_observed(f"{path}[{number}].memory_total", reading, f"{label}, MIG instance {number}"))
    return tuple(found)


def _total_memory(snapshot: Snapshot) -> Observations:
    """Bytes of all visible GPUs together."""
    each = _memory(snapshot)
    if isinstance(each, str):
        return each
    total = sum(entry.value or 0 for entry in each)
    unknown = tuple(entry for entry in each if not entry.known)
    return unknown or (Observation("gpus[].memory_total", total, f"the sum of {len(each)}"),)


def _is_idle(gpu: Gpu) -> Reading[bool]:
    """Whether no compute process uses the GPU."""
    count = gpu.processes
    return Reading(None if count.value is None else count.value == 0, count.source, reason=count.reason)


def _has_nvlink(gpu: Gpu) -> Reading[bool]:
    if not gpu.nvlinks:
        none = gpu.nvlink_count.value == 0
        return Reading(False if none else None, gpu.nvlink_count.source, reason=gpu.nvlink_count.reason)
    return Reading(any(link.active for link in gpu.nvlinks), "nvml")


def _peer_to_peer(snapshot: Snapshot) -> Observations:
    """Whether each visible GPU can read the memory of every other one."""
    gpus = _gpus(snapshot) or ()
    indices = {gpu.index.value for _, gpu in gpus}
    if len(gpus) == 1:
        return "one GPU has no peer"

    def reads(gpu: Gpu) -> Reading[bool]:
        others = [peer for peer in gpu.peers if peer.index in indices]
        if any(peer.read not in (*_PEER_UNKNOWN, _PEER_READS) for peer in others):
            return Reading(value=False, source="nvml")
        if len(others) < len(gpus) - 1 or any(peer.read in _PEER_UNKNOWN for peer in others):
            return Reading(reason="NVML does not report every peer")
        return Reading(value=True, source="nvml")

    return _each_gpu("peers", reads)(snapshot)


def _has_mig(gpu: Gpu) -> Reading[bool]:
    """MIG mode; off for a probed GPU without this mode."""
    if not gpu.mig.known and gpu.name.source == "nvml":
        return Reading(value=False, source=gpu.mig.reason or "nvml")
    return gpu.mig


def _container(snapshot: Snapshot) -> Observations:
    kind = snapshot.host.container
    is_contained = None if kind.value is None else kind.value is not Container.NONE
    return (_observed("host.container", Reading(is_contained, kind.source, reason=kind.reason)),)


def _driver(snapshot: Snapshot) -> Observations:
    reading = snapshot.driver.version
    states = [snapshot.source(name).state for name in ("nvml", "libcuda")]
    is_absent = "driver.version" in snapshot.assumed or states == [SourceState.ABSENT] * 2
    return "no driver" if is_absent and not reading.known else (_observed("driver.version", reading),)


def _driver_cuda(snapshot: Snapshot) -> Observations:
    """The newest CUDA that the libcuda in use supports."""
    if isinstance(_driver(snapshot), str) and not snapshot.driver.cuda.known:
        return "no driver"
    return (_observed("driver.cuda", snapshot.driver.cuda),)


def _toolkit(snapshot: Snapshot) -> Observations:
    """The first CUDA toolkit on CuPy's search path."""
    if snapshot.toolkits:
        return (_observed("toolkits[0].toolkit", snapshot.toolkits[0].toolkit),)
    is_probed = "toolkits" in snapshot.assumed or snapshot.source("kernel").state is SourceState.ANSWERED
    return "no toolkit" if is_probed else (_unknown("toolkits", "not probed"),)


def _of_target(snapshot: Snapshot, fact: str, found: Iterable[Observation], absent: Observations) -> Observations:
    """The values in the target; ``absent`` if there are none and the target was probed or the fact assumed."""
    source = snapshot.source("target")
    path = "target.packages.numpy" if fact == "target.numpy" else fact
    is_probed = path in snapshot.assumed or source.state is SourceState.ANSWERED
    reason = source.detail or f"the target environment: {source.state.value}"
    return tuple(found) or (absent if is_probed else (_unknown(fact, reason),))


def _cupy(snapshot: Snapshot) -> Observations:
    """Every CuPy in the target; its absence is a value."""
    found = [_release("target.cupy", entry.release, entry.distribution) for entry in snapshot.target.cupy]
    return _of_target(snapshot, "target.cupy", found, (Observation("target.cupy", None, "not installed"),))


def _numpy(snapshot: Snapshot) -> Observations:
    """NumPy in the target; its absence is a value."""
    release = snapshot.target.numpy.value
    found = [] if release is None else [_release("target.numpy", release)]
    return _of_target(snapshot, "target.numpy", found, (Observation("target.numpy", None, "not installed"),))


def _release(fact: str, text: str, subject: str = "") -> Observation:
    try:
        return Observation(fact, Version(text), "its metadata", subject)
    except ValueError:  # InvalidVersion, or more digits than int takes
        return _unknown(fact, f"{text!r} is no version", subject)


def _line(snapshot: Snapshot) -> Observations:
    """The wheel line of every CuPy in the target."""
    found = [Observation("target.cupy", entry.distribution, "its metadata") for entry in snapshot.target.cupy]
    return _of_target(snapshot, "target.cupy", found, "no CuPy is installed")


class Key(NamedTuple):
    """A key of requirements.

    Attributes:
        look: returns the values of a machine.
        of_host: whether another host could meet the requirement.
        counts: whether it is a number or a sum of GPUs, which hidden GPUs make smaller.
    """

    name: str
    value_type: ValueType
    look: Callable[[Snapshot], Observations]
    meaning: str
    example: str
    of_host: bool = True
    counts: bool = False


_ALL = (
    Key("gpu", COUNT, _gpu_count, "number of GPUs visible to a program", "gpu>=1", counts=True),
    Key("cc", CAPABILITY, _each_gpu("compute_capability"), "compute capability of each GPU", "cc>=8.0"),
    Key("name", NAME, _each_gpu("name"), "name of each GPU", "name~=H100|H200"),
    Key("memory", SIZE, _memory, "memory of each GPU (each MIG instance)", "memory>=40GiB"),
    Key(
        "total-memory",
        SIZE,
        _total_memory,
        "memory of all GPUs together",
        "total-memory>=320GiB",
        counts=True,
    ),
    Key("free-memory", SIZE, _each_gpu("memory_free"), "free memory of each GPU", "free-memory>=20GiB"),
    Key(
        "no-other-processes",
        SWITCH,
        _each_gpu("processes", _is_idle),
        "no compute process uses a GPU",
        "no-other-processes",
    ),
    Key("nvlink", SWITCH, _each_gpu("nvlinks", _has_nvlink), "each GPU has an NVLink that is up", "nvlink"),
    Key("p2p", SWITCH, _peer_to_peer, "each GPU reads every other's memory", "p2p"),
    Key("mig", SWITCH, _each_gpu("mig", _has_mig), "MIG mode of each GPU", "mig==off"),
    Key("ecc", SWITCH, _each_gpu("health.ecc"), "error correction of each GPU", "ecc==on"),
    Key("driver", DRIVER, _driver, "the driver's version, or its branch", "driver>=550"),
    Key("driver-cuda", CUDA, _driver_cuda, "newest CUDA that the driver supports", "driver-cuda>=12.4"),
    Key("os", _SYSTEM, _fact("host.os"), "operating system", "os==linux"),
    Key("arch", _PROCESSOR, _fact("host.arch"), "processor architecture", "arch==x86_64"),
    Key("libc", LIBC, _fact("host.libc"), "the C library", "libc>=glibc-2.28", of_host=False),
    Key("container", SWITCH, _container, "inside a container", "container==no", of_host=False),
    Key("toolkit", CUDA, _toolkit, "the CUDA toolkit on the host", "toolkit>=12.4", of_host=False),
    Key("python", PYTHON, _fact("target.python"), "the target's Python", "python>=3.11,<3.14", of_host=False),
    Key("cupy", PACKAGE, _cupy, "CuPy's version; none: not installed", "cupy>=14,<15", of_host=False),
    Key(
        "line",
        one_of(_LINES, is_published),
        _line,
        "the wheel line of CuPy",
        "line==cupy-cuda12x",
        of_host=False,
    ),
    Key("numpy", PACKAGE, _numpy, "NumPy's version; none: not installed", "numpy>=2", of_host=False),
)
KEYS: dict[str, Key] = {key.name: key for key in _ALL}
"""Every key by its name, in the order of the help."""

OF_TARGET = ("python", "cupy", "line", "numpy")
"""The keys that concern the target environment."""

TRANSIENT = ("free-memory", "no-other-processes")
"""The keys of violations that may end by themselves, when other processes leave the GPU."""


# The grammar.

_REQUIREMENT = re.compile(r"([^<>=!~,\s]+)\s*(.*)", re.DOTALL)
_CLAUSE = re.compile(r"(>=|<=|==|!=|~=|>|<)\s*([^<>=!~\s].*)", re.DOTALL)
_ALIASES = {
    "gpus": "gpu", "gpu-count": "gpu", "count": "gpu", "compute-capability": "cc", "capability": "cc", "sm": "cc",
    "gpu-memory": "memory", "vram": "memory", "memory-free": "free-memory", "memory-total": "total-memory",
    "gpu-name": "name", "model": "name", "cuda": "driver-cuda", "driver-version": "driver", "peer-to-peer": "p2p",
    "platform": "arch", "idle": "no-other-processes", "exclusive": "no-other-processes",
}  # fmt: skip
_MAX_LENGTH = 200  # characters


class RequirementError(GpuenvError, ValueError):
    """An invalid requirement; the message has the requirement, what is expected and the nearest spelling."""


class Origin(NamedTuple):
    """The origin of a requirement: an option of the command line, or a line of a file."""

    label: str = "--require"
    file: str | None = None
    line: int | None = None

    @property
    def text(self) -> str:
        """``--require``, or ``pyproject.toml: line 12``."""
        if self.file is None:
            return self.label
        return f"{self.file}: line {self.line}" if self.line else self.file


class Clause(NamedTuple):
    """An operator and a value to compare with."""

    operator: str
    value: str


class Requirement(NamedTuple):
    """A parsed requirement."""

    text: str
    key: str
    clauses: tuple[Clause, ...]
    origin: Origin


_COMMAND_LINE = Origin()


def parse_requirement(text: str, origin: Origin = _COMMAND_LINE) -> Requirement:
    """Parses one requirement.

    Raises:
        RequirementError: with the origin, the requirement, and what is expected.
    """
    try:
        return _parse(text, origin)
    except ValueError as error:
        raise RequirementError(f"{origin.text}: {excerpt(text.strip()) or 'an empty text'}: {error}") from error


def _parse(text: str, origin: Origin) -> Requirement:
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"expected a requirement like gpu>=1, in less than {_MAX_LENGTH} characters")
    text = " ".join(text.split())
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        raise ValueError("expected a requirement like gpu>=1")
    key = KEYS.get(match[1])
    if key is None:
        raise ValueError(_pip_hint(match[1], match[2]) or _unknown_key(match[1]))
    return Requirement(text, key.name, _clauses(key, match[2]), origin)


def _pip_hint(name: str, rest: str) -> str | None:
    """The requirements to write instead of a pip requirement on a CuPy wheel; None for another text."""
    line = re.sub(r"[-_.]+", "-", name.partition("[")[0]).lower()
    if cuda_major(line) is None:
        return None
    version = rest.partition(";")[0].strip()
    replacement = f"'line=={line}'" + (f" and 'cupy{version}'" if version else "")
    return f"the line and the version of a wheel are separate requirements: {replacement}"


def _unknown_key(name: str) -> str:
    folded = re.sub(r"[\W_]+", "-", name).strip("-").lower()
    nearest = _ALIASES.get(folded)
    nearest = nearest or next(iter(difflib.get_close_matches(folded, list(KEYS), 1, 0.5)), None)
    hint = f"; did you mean {nearest}, as in {KEYS[nearest].example}?" if nearest else ""
    return f"unknown key {excerpt(name)!r}{hint} (one of {', '.join(KEYS)})"


def _clauses(key: Key, text: str) -> tuple[Clause, ...]:
    if not text:
        if key.value_type.bare is None:
            raise ValueError(f"expected a comparison, as in {key.example}")
        return (Clause(*key.value_type.bare),)
    clauses = []
    for part in text.split(","):
        match = _CLAUSE.fullmatch(part.strip())
        if match is None:
            hint = "; did you mean ==?" if re.match(r"=(?!=)|is\b|:", part.strip()) else ""
            raise ValueError(f"expected an operator and a value, as in {key.example}{hint}")
        clauses.append(Clause(match[1], match[2].strip()))
    for clause in clauses:
        if clause.operator not in key.value_type.operators:
            usual = ", ".join(key.value_type.operators)
            raise ValueError(f"{key.name} cannot be compared with {clause.operator}, only with {usual}")
        try:
            key.value_type.read(clause.operator, clause.value)
        except ValueError as error:
            raise ValueError(f"{error}, as in {key.example}") from error
    return tuple(clauses)
