"""What programs of Python's are called. Pure."""

from __future__ import annotations

from gpuenv.model.pattern import pattern

# With a release, a free-threaded, a debugging or a windowed one: python3.13t, python3d, pythonw.exe.
_NAMED_AS_PYTHON = pattern(r"(?:.*[/\\])?(?:python|pypy|graalpy)[\d.]*t?d?w?(?:\.exe)?")


def is_named_as_python(path: str) -> bool:
    """Whether a program is called as an interpreter is: pip, an archive of Python's and a script are not."""
    return _NAMED_AS_PYTHON.fullmatch(path) is not None
