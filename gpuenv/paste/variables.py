"""Environment variables in what is pasted: of env, export, a Windows prompt, PowerShell, and of reports. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.model.pattern import pattern

_NAME = r"(CUDA_\w+|CUPY_\w+|NVIDIA_\w+|LD_LIBRARY_PATH|LD_PRELOAD|CONDA_PREFIX|NUMBA_\w+)"
_WINDOWS_PATH = r"[A-Za-z]:\\[^\"'<>|*?]*"
# A value with blanks in it is the environment of a command, unless something shows that it is one value.
_SET = pattern(
    rf"(?:\$ ?)?(?:export |set |setx |declare -x )?{_NAME}="
    rf"(?:\"([^\"]*)\"|'([^']*)'|({_WINDOWS_PATH}|cuda[<>=]+\S+ .*|[^'\"\s()]*))$"
)
_LISTED = pattern(rf"{_NAME}\s+({_WINDOWS_PATH})$")  # of PowerShell
_DRIVE = pattern(r"[A-Za-z]:\\")


def variable_facts(line: str) -> Iterator[tuple[str, str]]:
    """A variable that a line sets, as ``env.NAME`` and its value; and that a drive is a thing of Windows."""
    told = _SET.match(line) or _LISTED.match(line)
    if told is None:
        return
    value = next((group for group in told.groups()[1:] if group), "").strip()
    yield f"env.{told[1]}", value
    if _DRIVE.match(value):
        yield "os", "windows"
