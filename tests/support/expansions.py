# ruff: noqa: E501, T201 - a table, which is printed
"""Inputs that are huge, or small and expand: the table of them, and what a command needs for each.

``python -m tests.support.expansions [WORD...]`` prints the table of the attacks whose names have one of the words.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MOST_MEGABYTES, MOST_SECONDS = 300, 30
_ADDRESS_SPACE = 4 << 30  # an attack that works ends the command, not the machine
_PATIENCE = 90
_MB = 1 << 20
# A small process starts the command: the peak of a child begins at the size of the process that forks it.
_LAUNCHER = """
import json, resource, subprocess, sys, time
space, patience, *command = json.loads(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (space, space))
begin = time.monotonic()
try:
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=patience)
    code, text = run.returncode, (run.stderr or run.stdout)
except subprocess.TimeoutExpired:
    code, text = None, b""
seconds = time.monotonic() - begin
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
print(json.dumps([code, peak, seconds, text[-4000:].decode("utf-8", "replace")]))
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did with an input: exit code (None: not within the time), peak memory, seconds and last words."""

    code: int | None
    megabytes: int
    seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class Attack:
    """An input and the command that reads it.

    Attributes:
        kind: of the input.
        name: of the attack.
        make: writes the input to a folder.
        arguments: of gpuenv, which runs in that folder.
        stdin: the file that is its standard input.
        codes: the exit codes that are right.
    """

    kind: str
    name: str
    make: Callable[[Path], object]
    arguments: tuple[str, ...]
    stdin: str = os.devnull
    codes: tuple[int, ...] = (0, 1, 2, 4)

    @property
    def key(self) -> str:
        """Its name in the table."""
        return f"{self.kind}: {self.name}"

    def run(self, folder: Path) -> Outcome:
        """Runs it."""
        self.make(folder)
        command = [_ADDRESS_SPACE, _PATIENCE, sys.executable, "-m", "gpuenv", *self.arguments]
        environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
        with (folder / self.stdin).open("rb") as stdin:
            done = subprocess.run(
                [sys.executable, "-c", _LAUNCHER, json.dumps(command)],
                cwd=folder, env=environment, stdin=stdin, stdout=subprocess.PIPE, check=True,
            )  # fmt: skip
        return Outcome(*json.loads(done.stdout))


def faults(attack: Attack, outcome: Outcome) -> list[str]:
    """What is wrong with an outcome."""
    found = []
    if outcome.code not in attack.codes:
        found.append(f"exit code {outcome.code}")
    if outcome.megabytes > MOST_MEGABYTES:
        found.append(f"{outcome.megabytes} MB")
    if outcome.seconds > MOST_SECONDS:
        found.append(f"{outcome.seconds:.0f} s")
    if "Traceback" in outcome.text:
        found.append("a traceback")
    return found


def _write(name: str, text: str) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return make


def _write_all(texts: dict[str, str]) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        for name, text in texts.items():
            _write(name, text)(folder)

    return make


def _fill(name: str, line: bytes, size: int, head: bytes = b"") -> Callable[[Path], object]:
    """A file of that many bytes: a head, and one line again and again."""

    def make(folder: Path) -> None:
        block = line * (_MB // len(line) + 1)
        with (folder / name).open("wb") as file:
            file.write(head)
            while file.tell() < size:
                file.write(block[: size - file.tell()])

    return make


_DOCKERFILE = ("check-image", "--no-probe", "--dockerfile", "Dockerfile")
_COMPOSE = ("check-image", "--no-probe", "--dockerfile", "compose.yaml")
_IMAGE = ("check-image", "--no-probe", "./image.tar")
_BUNDLE = ("install", "--dry-run", "--yes", "--python", sys.executable, "--bundle", "bundle.tar")


def _doubling(keyword: str, count: int, form: str = "$A{0} $A{0} $A{0} $A{0}", first: str = "x" * 20) -> str:
    lines = [f'{keyword} A{number + 1}="{form.format(number)}"' for number in range(count)]
    return f"FROM ubuntu:22.04\n{keyword} A0={first}\n" + "\n".join(lines) + f"\nRUN pip install $A{count}\n"


def _nested_default(depth: int) -> str:
    return "${A:-" * depth + "x" + "}" * depth


def _dockerfiles() -> Iterator[Attack]:
    run = "FROM ubuntu:22.04\nRUN "
    texts = {
        "ENV in 4 copies, 14 times": _doubling("ENV", 14),
        "ENV in 4 copies, 24 times": _doubling("ENV", 24),
        "ARG in 4 copies, 14 times": _doubling("ARG", 14, "$A{0}$A{0}$A{0}$A{0}"),
        "ARG before FROM, 24 times": _doubling("ARG", 24, "$A{0}$A{0}$A{0}$A{0}").replace("FROM ubuntu:22.04\n", "")
        + "FROM $A24\n",
        "ENV replaced by ENV (//)": _doubling("ENV", 14, "${{A{0}//x/$A{0}}}"),
        "ENV by defaults": _doubling("ENV", 24, "${{B:-$A{0}$A{0}$A{0}}}"),
        "shell variables, 24 times": run
        + "A0=xxxxxxxxxx && "
        + " && ".join(f'A{number + 1}="$A{number} $A{number} $A{number}"' for number in range(24))
        + " && pip install $A24\n",
        "shell replacing //, 12 times": run
        + "A0=xxxxxxxxxx && "
        + " && ".join(f'A{number + 1}="${{A{number}//x/xxxxxxxxxx}}"' for number in range(12))
        + " && pip install $A12\n",
        "WORKDIR of doubling variables": _doubling("ENV", 16) + "WORKDIR $A16\n" * 50,
        "one long ENV in 2,000 words": f"FROM ubuntu:22.04\nENV A={'x' * 900_000}\nRUN pip install {'$A ' * 2000}\n",
        "2,000 ENVs of one value each 400 characters": "FROM ubuntu:22.04\n"
        + "".join(f"ENV A{number}={'x' * 400}\n" for number in range(2000)),
        "2,000 ENVs and 20,000 RUNs": "FROM ubuntu:22.04\n"
        + "".join(f"ENV A{number}=x\n" for number in range(2000))
        + "RUN pip install cupy\n" * 20_000,
        "nested defaults, 10,000 deep": f"FROM ubuntu:22.04\nENV B={_nested_default(10_000)}\nRUN echo $B\n",
        "open defaults, 100,000": f"FROM ubuntu:22.04\nENV B=\"{'${A:-' * 100_000}\"\nRUN echo $B\n",
        "open defaults in a shell, 100,000": f"{run}echo {'${A:-' * 100_000}\n",
        "open substitutions, 100,000": f"{run}echo {'$(' * 100_000}\n",
        "40,000 continued lines": run + "".join(f"pip install a{number} && \\\n" for number in range(40_000)) + "true\n",
        "100,000 continued lines of one word": run + "a \\\n" * 100_000 + "true\n",
        "40,000 continued pips in one": run + "pip install \\\n" + "  numpy==1.0 \\\n" * 40_000 + "  cupy\n",
        "40,000 continued lines of ENV": "FROM ubuntu:22.04\nENV "
        + "".join(f"A{number}=x \\\n" for number in range(40_000))
        + "B=y\n",
        "40,000 continued lines of ARG": "FROM ubuntu:22.04\nARG "
        + "".join(f"A{number}=x \\\n" for number in range(40_000))
        + "B=y\n",
        "40,000 continued lines of COPY": "FROM ubuntu:22.04\nCOPY " + "a \\\n" * 40_000 + "/b/\n",
        "40,000 continued lines of LABEL": "FROM ubuntu:22.04\nLABEL " + "a=b \\\n" * 40_000 + "c=d\n",
        "20,000 heredocs": run + " ".join(f"<<E{number}" for number in range(20_000)) + "\n"
        + "".join(f"x\nE{number}\n" for number in range(20_000)),
        "heredoc of 300,000 lines": run + "<<E\n" + "a\n" * 300_000 + "E\n",
        "heredocs without end": "FROM ubuntu:22.04\n" + "RUN <<E true\n" * 20_000,
        "500 stages each copied from all": "".join(
            f"FROM {'ubuntu' if not number else f's{number - 1}'} AS s{number}\n"
            + "".join(f"COPY --from=s{other} /a /a\n" for other in range(number))
            for number in range(200)
        )
        + "COPY --from=s0 requirements.txt /a/\nRUN pip install -r /a/requirements.txt\n",
        "40,000 RUNs": "FROM ubuntu:22.04\n" + "RUN pip install cupy\n" * 40_000,
        "40,000 links of a chain": f"{run}{' && '.join(['pip install cupy'] * 40_000)}\n",
        "40,000 pipes": f"{run}{' | '.join(['cat'] * 40_000)}\n",
        "40,000 subshells": f"{run}{'(' * 40_000}true{')' * 40_000}\n",
        "loops in loops": run
        + "".join(f"for v{level} in {' '.join(map(str, range(60)))}; do " for level in range(40))
        + " ".join(f"pip install $v{level};" for level in range(40))
        + "pip install "
        + "".join(f"$v{level}" for level in range(40))
        + "; done" * 40
        + "\n",
        "sh -c in sh -c": run + "sh -c 'sh -c \"" + "pip install cupy; " * 30_000 + "\"'\n",
        "an echo of 100,000 words into xargs": f"{run}echo {'cupy ' * 100_000}| xargs pip install\n",
        "xargs -I with doubling words": f"{run}echo {'cupy ' * 20_000}| xargs -I X pip install {'X ' * 20_000}\n",
        "200,000 quotes": f"{run}echo {chr(34) * 200_000}\n",
        "200,001 quotes": f"{run}echo {chr(34) * 200_001}\n",
        "200,000 backslashes": f"{run}echo {chr(92) * 200_001} x\n",
        "exec form nested 100,000 deep": f"FROM ubuntu:22.04\nRUN {'[' * 100_000}\n",
        "a pattern with 900 stars": f"FROM ubuntu:22.04\nENV A={'a' * 900} B=${{A%{'*a' * 400}b}}\nRUN echo $B\n",
        "spaces, 900,000": f"FROM ubuntu:22.04\nRUN{' ' * 900_000}x\n",
        "a FROM of 900,000 spaces": f"FROM ubuntu{' ' * 300_000}x{' ' * 300_000}y\n",
        "flags, 100,000": f"FROM ubuntu:22.04\nRUN {'--mount=a ' * 100_000}true\n",
        "a flag of open quotes": f"FROM ubuntu:22.04\nRUN --mount={chr(34) * 200_001}\n",
        "directive with spaces": f"# escape = {' ' * 400_000}x{' ' * 400_000}y\nFROM ubuntu\n",
        "comments, 500,000": "#\n" * 500_000 + "FROM ubuntu\n",
    }  # fmt: skip
    for name, text in texts.items():
        yield Attack("Dockerfile", name, _write("Dockerfile", text), _DOCKERFILE)


def _lists() -> Iterator[Attack]:
    install = "FROM ubuntu:22.04\nCOPY . /a/\nWORKDIR /a\nRUN pip install -r {}\n"

    def attack(name: str, texts: dict[str, str], first: str = "r0.txt") -> Attack:
        return Attack("requirements", name, _write_all({"Dockerfile": install.format(first), **texts}), _DOCKERFILE)

    every = "".join(f"-r r{other}.txt\n" for other in range(10))
    yield attack("a cycle of 10 lists of 8 lines", {f"r{n}.txt": "-r r0.txt\n-r r1.txt\n" * 4 for n in range(2)})
    yield attack("10 lists that each name all", {f"r{n}.txt": every * 2 + "cupy\n" for n in range(10)})
    yield attack("constraints that name all", {f"r{n}.txt": every.replace("-r", "-c") * 2 + "a\n" for n in range(10)})
    yield attack("a list that names itself 40,000 times", {"r0.txt": "-r r0.txt\n" * 40_000})
    yield attack("40,000 lists that are not there", {"r0.txt": "".join(f"-r x{n}.txt\n" for n in range(40_000))})
    yield attack(
        "fan-out of 40 by 40 by one large",
        {"r0.txt": "-r r1.txt\n" * 40, "r1.txt": "-r r2.txt\n" * 40, "r2.txt": "numpy==1.0\n" * 20_000},
    )
    yield attack(
        "fan-out by other spellings",
        {
            "r0.txt": "".join(f"-r {'./' * n}r1.txt\n" for n in range(200)),
            "r1.txt": "".join(f"-r a/{'../a/' * n}../r2.txt\n" for n in range(200)),
            "r2.txt": "numpy==1.0\n" * 20_000,
            "a/x": "",
        },
    )
    yield attack("40,000 continued lines", {"r0.txt": "numpy \\\n" * 40_000 + "cupy\n"})
    yield attack("130,000 continued lines", {"r0.txt": "a \\\n" * 130_000 + "cupy\n"})
    yield attack("100,000 requirements", {"r0.txt": "cupy\n" * 100_000})
    yield attack("10 MiB of requirements", {"r0.txt": "cupy\n" * (2 * _MB)})
    yield attack("100,000 different constraints", {"r0.txt": "-c r1.txt\ncupy\n", "r1.txt": "a>=1\n" * 100_000})
    yield attack("one line of 1 MB of specifiers", {"r0.txt": "cupy" + ",".join([">=1"] * 200_000) + "\n"})
    yield attack("one line of 1 MB of brackets", {"r0.txt": "cupy; " + "(" * 1_000_000 + "\n"})
    yield attack("one line of spaces", {"r0.txt": "cupy" + " " * 1_000_000 + "x\n"})
    yield attack("one line of hashes", {"r0.txt": "cupy==1 " + "--hash=sha256:00 " * 60_000 + "\n"})
    yield attack("environment.yml of aliases", {"r0.txt": "cupy\n", **_environment_of_lists()}, "x")
    yield attack(
        "300 RUNs of the same large list",
        {"Dockerfile": install.format("r0.txt") + "RUN pip install -r r0.txt\n" * 300, "r0.txt": "cupy\n" * 100_000},
    )
    project = '[project]\nname = "a"\nversion = "1"\ndependencies = [{}]\n'
    body = {"Dockerfile": "FROM ubuntu:22.04\nCOPY . /a/\nWORKDIR /a\nRUN pip install .\n"}
    many = ", ".join(f'"p{n}"' for n in range(40_000))
    yield attack("pyproject.toml of 40,000 dependencies", {**body, "pyproject.toml": project.format(many)})
    groups = "[dependency-groups]\n" + "".join(
        f"g{n} = [{', '.join('{include-group = ' + chr(34) + f'g{n + 1}' + chr(34) + '}' for _ in range(10))}]\n"
        for n in range(12)
    )
    group = {"Dockerfile": body["Dockerfile"].replace("install .", "install --group g0")}
    yield attack("groups that include groups", {**group, "pyproject.toml": f"{project.format('')}{groups}g12=['a']\n"})
    cyclic = "[project.optional-dependencies]\n" + "".join(
        f"e{n} = [{', '.join([chr(34) + f'a[e{n + 1}]' + chr(34)] * 10)}]\n" for n in range(12)
    )
    extra = {"Dockerfile": body["Dockerfile"].replace("install .", "install .[e0]")}
    yield attack("extras that name extras", {**extra, "pyproject.toml": f"{project.format('')}{cyclic}e12=['b']\n"})
    deep = f"x = {'[' * 200_000}\n"
    yield attack("pyproject.toml nested 200,000 deep", {**body, "pyproject.toml": deep})
    yield attack("setup.cfg of 1 MB", {**body, "setup.cfg": "[options]\ninstall_requires =\n" + "  a\n" * 250_000})
    yield attack("setup.py of brackets", {**body, "setup.py": "setup(install_requires=" + "[" * 100_000})
    yield attack("setup.py of operators", {**body, "setup.py": "setup(install_requires=" + "-" * 500_000 + "1)"})


def _environment_of_lists() -> dict[str, str]:
    lists = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]\n" for n in range(12))
    return {
        "Dockerfile": "FROM ubuntu:22.04\nCOPY . /a/\nWORKDIR /a\nRUN conda env create -f environment.yml\n",
        "environment.yml": f"{lists}dependencies: *a11\n",
    }


def _compose_files() -> Iterator[Attack]:
    service = "services:\n  a:\n    image: ubuntu\n"
    bomb = "".join(
        f"x-{n}: &a{n} {{{', '.join(f'k{k}: *a{n - 1}' if n else f'k{k}: v' for k in range(9))}}}\n" for n in range(12)
    )
    merge = "".join(
        f"x-{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 9)}]\n" if n else "x-0: &a0\n  k: v\n" for n in range(14)
    )
    environment = "".join(f'      A{n + 1}: "$A{n} $A{n} $A{n}"\n' for n in range(24))
    texts: dict[str, dict[str, str]] = {
        "aliases of aliases": {"compose.yaml": f"{bomb}{service}"},
        "merge keys of aliases": {"compose.yaml": f"{merge}{service}"},
        "an alias of a long text, 19,000 times": {
            "compose.yaml": f"x-a: &a {'x' * 500_000}\n{service}    command: [{', '.join(['*a'] * 19_000)}]\n"
        },
        "long keys in depth": {
            "compose.yaml": f"{service}x-a:\n" + "".join(f"{' ' * (n + 1)}{'k' * 20_000}:\n" for n in range(45)) + " " * 60 + "a: b\n"
        },
        "long keys with 19,000 values": {
            "compose.yaml": f"{service}x-a:\n  ? {'k' * 100_000}\n  : [{', '.join(['a'] * 15_000)}]\n"
        },
        "a list of 1 MB": {"compose.yaml": f"{service}x-a: [{'a,' * 400_000}]\n"},
        "brackets, 500,000": {"compose.yaml": f"{service}x-a: {'[' * 500_000}\n"},
        "a cycle of include": {
            "compose.yaml": "include: [a.yaml, b.yaml]\n" + service,
            "a.yaml": "include: [b.yaml, compose.yaml, a/../a.yaml]\n" + service,
            "b.yaml": "include: [a.yaml, ./a.yaml, a/../b.yaml]\n" + service,
        },
        "includes of 50 large files": {
            "compose.yaml": f"include: [{', '.join(f'i{n}.yaml' for n in range(60))}]\n{service}",
            **{f"i{n}.yaml": f"services:\n  s{n}:\n    image: a\n    command: [{', '.join(['a'] * 15_000)}]\n" for n in range(60)},
        },
        "a cycle of extends": {
            "compose.yaml": "services:\n" + "".join(
                f"  s{n}:\n    image: a\n    extends: {{service: s{(n + 1) % 150}}}\n    command: [{', '.join(['a'] * 100)}]\n" for n in range(150)
            )
        },
        "150 services that extend a large one": {
            "compose.yaml": "services:\n  s:\n    image: a\n    volumes: [" + ", ".join(["a:/b"] * 15_000) + "]\n" + "".join(f"  s{n}:\n    extends: s\n" for n in range(150))
        },
        "150 services of one Dockerfile with 8,000 RUNs": {
            "compose.yaml": "services:\n" + "".join(f"  s{n}:\n    build: .\n" for n in range(150)),
            "Dockerfile": "FROM ubuntu:22.04\n" + "RUN pip install cupy\n" * 8000,
        },
        "an .env of 900 kB in 2,000 places": {
            "compose.yaml": "services:\n  a:\n    image: a\n    command: [" + ", ".join(["$A$A$A$A"] * 2000) + "]\n    environment:\n" + "".join(f"      B{n}: $A$A$A\n" for n in range(2000)),
            ".env": f"A={'x' * 900_000}\n",
        },
        "environment in doubling variables": {"compose.yaml": f"{service}    environment:\n      A0: x\n{environment}"},
        "an inline Dockerfile of doubling ENVs": {
            "compose.yaml": "services:\n  a:\n    build:\n      dockerfile_inline: |\n"
            + "".join(f"        {line}\n" for line in _doubling("ENV", 24).splitlines())
        },
        "build args of doubling": {
            "compose.yaml": "services:\n  a:\n    build:\n      context: .\n      args: {A0: xxxxxxxxxxxxxxxxxxxx}\n",
            "Dockerfile": _doubling("ARG", 24, "$A{0}$A{0}$A{0}$A{0}"),
        },
    }  # fmt: skip
    for name, files in texts.items():
        yield Attack("compose", name, _write_all(files), _COMPOSE)
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - {name: a, image: ubuntu}\n"
    pods = {
        "aliases of aliases": f"{bomb}{pod}",
        "30,000 documents": f"{pod}---\n" * 8000,
        "10,000 containers": pod + "  - {name: a, image: ubuntu}\n" * 10_000,
        "variables that name each other": f"{pod}    env:\n" + "".join(
            f"    - {{name: A{n + 1}, value: '$(A{n})$(A{n})$(A{n})'}}\n" for n in range(30)
        ),
    }  # fmt: skip
    for name, text in pods.items():
        yield Attack("pods", name, _write("compose.yaml", text), _COMPOSE)
    container = ("check-image", "--no-probe", "--dockerfile", "devcontainer.json")
    for name, text in {
        "brackets, 500,000": "[" * 500_000,
        "objects, 100,000 deep": '{"a":' * 100_000,
        "comments": "/*" * 500_000,
        "commas": '{"image": "a"' + "," * 900_000 + "}",
        "a long list": '{"image": "a", "x": [' + "1," * 400_000 + "1]}",
        "long keys in depth": "".join('{"%s":' % ("k" * 2000) for _ in range(400)) + "1" + "}" * 400,
    }.items():
        yield Attack("devcontainer.json", name, _write("devcontainer.json", text), container)


def _tar_header(name: bytes, size: int, kind: bytes = b"0") -> bytes:
    """A raw header, whose size may be a lie; in base 256 above 8 GiB."""
    number = b"%011o\0" % size if size < 8 << 30 else b"\x80" + size.to_bytes(11, "big")
    head = bytearray(name.ljust(100, b"\0") + b"0000644\0" * 3 + number + b"%011o\0" % 0 + b" " * 8 + kind)
    head += b"\0" * 100 + b"ustar\x0000" + b"\0" * (512 - 265)
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head[:512])


def _sparse(name: str, *headers: tuple[bytes, int], tail: bytes = b"") -> Callable[[Path], object]:
    """An archive of headers, each with a hole of that size behind it."""

    def make(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            for header, size in headers:
                file.write(header)
                file.seek(-(-size // 512) * 512, os.SEEK_CUR)
            file.write(tail + b"\0" * 1024)

    return make


def _member(name: bytes, data: bytes) -> bytes:
    return _tar_header(name, len(data)) + data.ljust(-(-len(data) // 512) * 512, b"\0")


def _compressed(name: str, opened: Callable[..., object], size: int) -> Callable[[Path], object]:
    """A compressed archive of one member of zeros."""

    def make(folder: Path) -> None:
        with opened(folder / name, "wb") as file:  # type: ignore[attr-defined]
            file.write(_tar_header(b"layer.tar", size))
            for _ in range(size // _MB):
                file.write(b"\0" * _MB)
            file.write(b"\0" * 1024)

    return make


def _archives() -> Iterator[Attack]:
    giant = 4 << 30
    for command, name in ((_IMAGE, "image.tar"), (_BUNDLE, "bundle.tar")):
        kind = "image tar" if name == "image.tar" else "bundle"
        for what, letter in (
            ("pax header", b"x"),
            ("global pax header", b"g"),
            ("long name", b"L"),
            ("long link", b"K"),
            ("Solaris header", b"X"),
        ):
            header = (_tar_header(b"a", giant, letter), giant)
            yield Attack(kind, f"{what} of 4 GiB", _sparse(name, header), command)
        yield Attack(
            kind, "pax header of 4 GiB as the third member",
            _sparse(name, (_member(b"manifest.json", b"[]"), 0), (_tar_header(b"b", 10), 10), (_tar_header(b"x", giant, b"x"), giant)),
            command,
        )  # fmt: skip
        many = b"".join(_tar_header(b"x", 900 * 1024, b"x") + b"\0" * (900 * 1024) for _ in range(64))
        yield Attack(kind, "64 pax headers of 900 KiB", _sparse(name, tail=many), command)
        long = b"".join(_tar_header(b"x", 512, b"L") + b"a" * 512 for _ in range(100_000))
        yield Attack(kind, "100,000 long names in a row", _sparse(name, tail=long), command)
        records = b"".join(b"%d a%d=b\n" % (len(str(n)) + 8 + 0, n) for n in range(40_000))
        yield Attack(
            kind,
            "a pax header of 40,000 records",
            _sparse(
                name,
                tail=_tar_header(b"x", len(records), b"x")
                + records.ljust(-(-len(records) // 512) * 512, b"\0")
                + _member(b"a", b""),
            ),
            command,
        )
        yield Attack(
            kind,
            "200,000 members",
            _sparse(name, tail=b"".join(_tar_header(b"m%d" % n, 0) for n in range(200_000))),
            command,
        )
        sparse_map = b"GNU.sparse.major=1\n"
        record = b"%d %s" % (len(sparse_map) + 3, sparse_map)
        yield Attack(
            kind,
            "a GNU sparse member of 2^60 bytes",
            _sparse(
                name,
                tail=_tar_header(b"x", len(record), b"x") + record.ljust(512, b"\0") + _tar_header(b"a", giant, b"S"),
            ),
            command,
        )
        yield Attack(
            kind,
            "a size that is negative",
            _sparse(name, tail=_tar_header(b"a", 0)[:124] + b"\xff" * 12 + b"\0" * 376),
            command,
        )
        for ending, opened in (("gz", gzip.open), ("bz2", bz2.open), ("xz", lzma.open)):
            yield Attack(kind, f"1 GiB of zeros in .{ending}", _compressed(name, opened, 1 << 30), command)
        if kind == "image tar":
            yield Attack(kind, "4 GiB pax header in .bz2", _pax_in_bz2(name, 4 << 30), command)
    manifest = _member(b"manifest.json", json.dumps([{"Config": "c.json"}]).encode())
    deep = b'{"config":' * 200_000
    yield Attack(
        "image tar",
        "a configuration nested 200,000 deep",
        _sparse("image.tar", tail=manifest + _member(b"c.json", deep)),
        _IMAGE,
    )
    large = b'{"config":{"Env":[' + b'"A=b",' * 600_000 + b'""]}}'
    yield Attack(
        "image tar",
        "a configuration of 600,000 variables",
        _sparse("image.tar", tail=manifest + _member(b"c.json", large)),
        _IMAGE,
    )
    nulls = b'{"config":{"Env":[' + b"[]," * 1_200_000 + b"0]}}"
    yield Attack(
        "image tar",
        "a configuration of 1,200,000 lists",
        _sparse("image.tar", tail=manifest + _member(b"c.json", nulls)),
        _IMAGE,
    )
    bundle = b'{"schema":"gpuenv-bundle/1","files":[' + b"[]," * 1_300_000 + b"0]}"
    yield Attack(
        "bundle",
        "a manifest of 1,300,000 lists",
        _sparse("bundle.tar", tail=_member(b"bundle.json", bundle) + _member(b"manifest.json", bundle)),
        _BUNDLE,
    )


def _pax_in_bz2(name: str, size: int) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        with bz2.open(folder / name, "wb") as file:
            file.write(_tar_header(b"x", size, b"x"))
            for _ in range(size // _MB // 4):
                file.write(b"\0" * _MB)

    return make


def _sized() -> Iterator[Attack]:
    """10 MB, 100 MB and 1 GB of each kind of input."""
    log = b"ImportError: libcublas.so.12: cannot open shared object file: No such file or directory\n"
    smi = b"| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4     |\n"
    values = b'{"schema":"gpuenv-snapshot/1","x":[', b"[],\n"
    kinds: tuple[tuple[str, str, bytes, bytes, tuple[str, ...], bool], ...] = (
        ("explain FILE", "log", b"", log, ("explain", "log"), False),
        ("explain -", "log", b"", log, ("explain", "-"), True),
        ("explain FILE, one line", "log", b"", b"CUDA error ", ("explain", "log"), False),
        ("explain FILE, zeros", "log", b"", b"\0", ("explain", "log"), False),
        ("explain FILE, UTF-16", "log", b"\xff\xfe", log.decode().encode("utf-16-le"), ("explain", "log"), False),
        ("doctor --paste", "paste", b"", smi, ("doctor", "--paste", "paste"), False),
        ("doctor --paste, packages", "paste", b"", b"cupy-cuda12x==13.0.0\n", ("doctor", "--paste", "paste"), False),
        ("doctor --paste -", "paste", b"", smi, ("doctor", "--paste", "-"), True),
        ("resolve --paste", "paste", b"", b"01:00.0 3D controller: NVIDIA Corporation A100 (rev a1)\n", ("resolve", "--paste", "paste"), False),
        ("doctor --snapshot", "s.json", *values, ("doctor", "--snapshot", "s.json"), False),
        ("doctor --snapshot, one text", "s.json", b'{"schema":"', b"x", ("doctor", "--snapshot", "s.json"), False),
        ("diff A B", "s.json", *values, ("diff", "s.json", "s.json"), False),
        ("doctor --matrix", "m.yaml", b"schema: gpuenv-matrix/1\na:\n", b"- [a, b]\n", ("doctor", "--no-probe", "--matrix", "m.yaml"), False),
        ("check-image FILE", "image.tar", b"", b"\0", _IMAGE, False),
        ("check-image FILE, text", "image.tar", b"", log, _IMAGE, False),
        ("check-image FILE, a large layer", "image.tar", _tar_header(b"layer", 1 << 30), b"x", _IMAGE, False),
        ("check-image FILE, headers", "image.tar", b"", _tar_header(b"m", 0), _IMAGE, False),
        ("check-image --dockerfile", "Dockerfile", b"FROM ubuntu\n", b"RUN pip install cupy\n", _DOCKERFILE, False),
        ("check-image --dockerfile (compose)", "compose.yaml", b"services:\n", b"  a: b\n", _COMPOSE, False),
        ("requirement list of a Dockerfile", "r.txt", b"", b"cupy\n", _DOCKERFILE, False),
        (".dockerignore", ".dockerignore", b"", b"a\n", _DOCKERFILE, False),
        (".env of compose", ".env", b"", b"A=b\n", _COMPOSE, False),
        ("uv.lock of a Dockerfile", "uv.lock", b"", b"[[package]]\nname = 'a'\nversion = '1'\n", _DOCKERFILE, False),
        ("gpuenv.toml", "gpuenv.toml", b"", b"# a\n", ("doctor", "--no-probe"), False),
        ("pyproject.toml", "pyproject.toml", b"", b"# gpuenv\n", ("doctor", "--no-probe"), False),
        ("--config", "c.toml", b"a = [", b"1,\n", ("doctor", "--no-probe", "--config", "c.toml"), False),
        ("install --locked", "l.txt", b"", b"cupy==1\n", ("install", "--dry-run", "--locked", "l.txt"), False),
        ("install --locked, TOML", "l.toml", b"", b"[[packages]]\nname = 'a'\n", ("install", "--dry-run", "--locked", "l.toml"), False),
        ("install --bundle", "bundle.tar", b"", b"\0", _BUNDLE, False),
        ("install --bundle, headers", "bundle.tar", b"", _tar_header(b"m", 0), _BUNDLE, False),
        ("simulate", "p.yaml", b"name: a\na:\n", b"- [a, b]\n", ("simulate", "./p.yaml", "--", "true"), False),
        ("simulate --print", "p.yaml", b"", b"# a\n", ("simulate", "--print", "./p.yaml"), False),
        ("smoke --compare", "b.json", b'{"schema":"gpuenv-smoke/1","x":[', b"[],\n", ("smoke", "--compare", "b.json"), False),
        ("preflight --history", "h/a.json", b"[", b"[],\n", ("preflight", "--no-probe", "--require", "gpu>=0", "--history", "h", "--format", "html=x.html"), False),
    )  # fmt: skip
    for what, name, head, line, arguments, is_stdin in kinds:
        for label, size in (("10 MB", 10_000_000), ("100 MB", 100_000_000), ("1 GB", 1_000_000_000)):
            make = _with_setting(_fill(name, line, size, head))
            yield Attack(what, label, make, arguments, name if is_stdin else os.devnull, (0, 1, 2, 3, 4, 5, 6, 7, 8))


def _with_setting(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """The input in a folder with a Dockerfile and a compose file that read it."""

    def whole(folder: Path) -> None:
        (folder / "h").mkdir()
        _write("Dockerfile", "FROM ubuntu:22.04\nCOPY . /a/\nWORKDIR /a\nRUN pip install -r r.txt\nRUN uv sync\n")(
            folder
        )
        _write("compose.yaml", "services:\n  a: {image: ubuntu}\n")(folder)
        make(folder)

    return whole


def attacks() -> tuple[Attack, ...]:
    """All of them."""
    return (*_dockerfiles(), *_lists(), *_compose_files(), *_archives(), *_sized())


def main(words: list[str]) -> None:
    """Prints the table, line by line."""
    for attack in attacks():
        if words and not any(word in attack.key for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            outcome = attack.run(Path(folder))
        said = next((line for line in outcome.text.splitlines() if "error" in line.lower()), "")
        wrong = ", ".join(faults(attack, outcome))
        print(
            f"{attack.key} | {outcome.megabytes} MB | {outcome.seconds:.1f} s | {outcome.code} | {wrong or 'ok'} | {said[:90]}",
            flush=True,
        )


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main(sys.argv[1:])
