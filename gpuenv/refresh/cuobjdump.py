"""NVIDIA's own reader of GPU code, where it is there: it has to find what our own reader has found."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuenv.probe.children import Ending, run_child
from gpuenv.refresh.fatbin import GpuCode

_PATIENCE = 300.0
_ELF = re.compile(r"\.sm_(\d+)[af]?\.(?:cubin|elf)")  # it leaves the suffix of a family out
_PTX = re.compile(r"\.(?:sm|compute)_(\d+)[af]?\.ptx")
_EMPTY = "does not contain device code"


@dataclass(frozen=True, slots=True)
class Checked:
    """What a second reader says.

    Attributes:
        refused: files that it cannot read, as those with code for old GPUs.
        differences: files in which it finds other code, each with both findings.
    """

    refused: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()


def find_cuobjdump(environment: Mapping[str, str]) -> Path | None:
    """The program on PATH, or that of the system's toolkit."""
    found = shutil.which("cuobjdump", path=environment.get("PATH"))
    folders = [Path(environment[name]) for name in ("CUDA_PATH", "CUDA_HOME") if environment.get(name)]
    places = [folder / "bin" / "cuobjdump" for folder in (*folders, Path("/usr/local/cuda"))]
    return Path(found) if found else next((path for path in places if path.is_file()), None)


def cross_check(program: Path, codes: Mapping[Path, GpuCode], environment: Mapping[str, str]) -> Checked:
    """Holds the code that was found in each file against what ``cuobjdump`` lists."""
    refused, differences = [], []
    for path, code in codes.items():
        elf, ptx = (_listed(program, option, path, environment) for option in ("--list-elf", "--list-ptx"))
        if elf is None or ptx is None:
            refused.append(path.name)
            continue
        theirs = set(_ELF.findall(elf)), set(_PTX.findall(ptx))
        ours = {_plain(text) for text in code.sass}, {_plain(text) for text in code.ptx}
        if theirs != ours:
            differences.append(f"{path.name}: cuobjdump finds {_told(theirs)}, and not {_told(ours)}")
    return Checked(tuple(refused), tuple(differences))


def _listed(program: Path, option: str, path: Path, environment: Mapping[str, str]) -> str | None:
    done = run_child([str(program), "--all-fatbin", option, str(path)], environment, time.monotonic() + _PATIENCE)
    if done.ending is Ending.EXITED and (done.exit_code == 0 or _EMPTY in done.stdout + done.stderr):
        return done.stdout
    return None


def _plain(capability: str) -> str:
    return capability.replace(".", "").rstrip("af")


def _told(found: tuple[set[str], set[str]]) -> str:
    return f"SASS {' '.join(sorted(found[0])) or 'none'} and PTX {' '.join(sorted(found[1])) or 'none'}"
