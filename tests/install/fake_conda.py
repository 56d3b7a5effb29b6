"""conda's command line over rattler: run under the names of conda, mamba and micromamba, since none can be had here.

It solves, downloads and links as conda does, in the forms of conda's own documentation: ``install`` with
specifications, ``--revision`` or ``--file``, ``remove --force``, ``--dry-run --json``, ``conda-meta/history``. It
stands in for the program alone: the packages, the channel, the prefix and its records are real.

    CONDA_CHANNEL_ALIAS    where a channel's name is looked for, as conda has it
    FAIL_AFTER=N           ends with an error after N packages of an install were taken out
    DEAF=1                 takes --revision and does nothing, as mamba did before 2025
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

from rattler import PrefixRecord, RepoDataRecord, Subdir, install, solve
from rattler.exceptions import SolverError

NAME = Path(sys.argv[0]).name


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write("2.3.2\n" if NAME == "micromamba" else f"{NAME} 25.9.1\n")
        return 0
    parser = argparse.ArgumentParser(NAME)
    parser.add_argument("--prefix", type=Path, required=True)
    for flag in ("yes", "json", "quiet", "dry-run", "freeze-installed", "offline", "force"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--channel", action="append", default=[])
    parser.add_argument("--revision", type=int)
    parser.add_argument("--file", type=Path)
    parser.add_argument("specs", nargs="*")
    given = parser.parse_args(sys.argv[2:])
    given.command = sys.argv[1]
    assert given.command in ("install", "remove")
    assert given.yes
    assert given.json
    try:
        return asyncio.run(run(given))
    except SolverError as error:
        return refuse(str(error))


def refuse(why: str) -> int:
    """In the words of each family."""
    if NAME == "conda":
        answer: dict[str, Any] = {"error": why, "exception_name": "LibMambaUnsatisfiableError", "message": why}
    else:
        answer = {"success": False, "solver_problems": [why]}
    sys.stdout.write(json.dumps(answer))
    return 1


async def run(given: argparse.Namespace) -> int:
    there = [PrefixRecord.from_path(path) for path in sorted((given.prefix / "conda-meta").glob("*.json"))]
    if given.command == "remove":
        wanted: list[Any] = [entry for entry in there if entry.name.normalized not in given.specs]
    elif given.revision is not None:
        wanted = there if os.environ.get("DEAF") else await exact(state(given.prefix, given.revision))
    elif given.file is not None:
        first, *urls = given.file.read_text(encoding="utf-8").split()
        assert first == "@EXPLICIT"
        coming = await exact({stem(url) for url in urls})
        names = {entry.name.normalized for entry in coming}
        wanted = [entry for entry in there if entry.name.normalized not in names] + coming
    else:
        wanted = await solved(given, there)
    return await change(given, there, wanted)


def sources(names: list[str]) -> list[str]:
    alias = os.environ["CONDA_CHANNEL_ALIAS"]
    return [f"{alias}/{name}" for name in names]


async def solved(given: argparse.Namespace, there: list[PrefixRecord]) -> list[RepoDataRecord]:
    return await solve(
        sources(given.channel),
        [*given.specs, *(entry.name.normalized for entry in there)],
        platforms=[Subdir("linux-64"), Subdir("noarch")],
        locked_packages=list(there),
        pinned_packages=list(there) if given.freeze_installed else None,
    )


async def exact(stems: set[str]) -> list[RepoDataRecord]:
    """The packages of these names, versions and builds."""
    parts = (text.rsplit("-", 2) for text in sorted(stems))
    specs = [f"{name}[version='=={release}',build='{build}']" for name, release, build in parts]
    found = await solve(sources(["conda-forge"]), specs, platforms=[Subdir("linux-64"), Subdir("noarch")])
    return [entry for entry in found if f"{entry.name.normalized}-{entry.version}-{entry.build}" in stems]


def stem(url: str) -> str:
    return url.split("#", maxsplit=1)[0].rsplit("/", 1)[-1].removesuffix(".tar.bz2").removesuffix(".conda")


async def change(given: argparse.Namespace, there: list[PrefixRecord], wanted: list[Any]) -> int:
    old = {f"{entry.name.normalized}-{entry.version}-{entry.build}": entry for entry in there}
    new = {f"{entry.name.normalized}-{entry.version}-{entry.build}": entry for entry in wanted}
    link, unlink = [told(new[name]) for name in new.keys() - old], [told(old[name]) for name in old.keys() - new]
    again = given.file is not None
    if not link and not unlink and not again:
        sys.stdout.write(json.dumps({"message": "All requested packages already installed.", "success": True}))
        return 0
    fetch = [
        {**entry, "size": new[f"{entry['name']}-{entry['version']}-{entry['build_string']}"].size} for entry in link
    ]
    actions = {"FETCH": fetch, "LINK": link, "UNLINK": unlink, "PREFIX": str(given.prefix)}
    if not given.dry_run:
        sys.stdout.write('{"fetch": "cupy", "finished": true, "maxval": 1, "progress": 1}\n\0')
        failing = os.environ.get("FAIL_AFTER")
        if failing is not None and given.command == "install" and given.revision is None and not again:
            return await fall(given, there, int(failing))
        names = {entry.name.normalized for entry in wanted} if again else None
        await install(
            list(wanted), given.prefix, installed_packages=there, reinstall_packages=names, show_progress=False
        )
        remember(given.prefix, set(old), set(new))
    sys.stdout.write(
        json.dumps({"actions": actions, "dry_run": given.dry_run, "prefix": str(given.prefix), "success": True})
    )
    return 0


async def fall(given: argparse.Namespace, there: list[PrefixRecord], count: int) -> int:
    """Ends in the middle: some packages are out, the new ones are not in, and the history knows of nothing."""
    await install(list(there[count:]), given.prefix, installed_packages=there, show_progress=False)
    if os.environ.get("KILL_PARENT"):
        os.kill(os.getppid(), signal.SIGKILL)
        return 1
    sys.stdout.write(json.dumps({"error": "No space left on device", "exception_name": "CondaIOError"}))
    return 1


def told(record: RepoDataRecord) -> dict[str, Any]:
    return {
        "base_url": "https://conda.anaconda.org/conda-forge",
        "build_number": record.build_number,
        "build_string": str(record.build),
        "channel": "conda-forge",
        "dist_name": f"{record.name.normalized}-{record.version}-{record.build}",
        "name": record.name.normalized,
        "platform": record.subdir,
        "version": str(record.version),
    }


def state(prefix: Path, revision: int) -> set[str]:
    current: set[str] = set()
    entries = re.split(r"==>.+?<==", (prefix / "conda-meta/history").read_text(encoding="utf-8"))[1:]
    if NAME != "conda":
        entries = [entry for entry in entries if re.search(r"^[+-]", entry, re.MULTILINE)]
    for entry in entries[: revision + 1]:
        for line in entry.splitlines():
            name = line[1:].rsplit("::", 1)[-1]
            if line.startswith("+"):
                current.add(name)
            elif line.startswith("-"):
                current.discard(name)
    return current


def remember(prefix: Path, old: set[str], new: set[str]) -> None:
    lines = ["==> 2026-01-01 00:00:00 <==", f"# cmd: {NAME} {' '.join(sys.argv[1:])}"]
    lines += [f"-conda-forge/noarch::{name}" for name in sorted(old - new)]
    lines += [f"+conda-forge/noarch::{name}" for name in sorted(new - old)]
    with (prefix / "conda-meta/history").open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # rattler 0.28 sometimes crashes while the interpreter takes itself down
