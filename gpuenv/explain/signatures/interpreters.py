"""Messages of launchers whose environment's interpreter does not start: services, schedulers, editors, tools."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Signature
from gpuenv.model.causes import Cause

# An environment's own interpreter, by its path.
_PYTHON = r"\S{1,200}/(?:bin|Scripts)/(?:python|pypy|ipython|jupyter)[\d.]{0,6}(?:\.exe)?"
_BROKEN = ((Cause.TARGET_ENVIRONMENT_BROKEN, 0.82),)

SIGNATURES = (
    Signature(
        "target.library-gone",
        "ld.so and dyld, of the interpreter",
        ("libpython",),
        ((Cause.TARGET_ENVIRONMENT_BROKEN, 0.72),),
        "glibc, elf/rtld.c: error while loading shared libraries; dyld: Library not loaded",
        pattern=(
            r"error while loading shared libraries: libpython\d|Library not loaded: \S*libpython\d\S*\.dylib"
            r"|(?:ImportError|OSError|cannot open shared object file).{0,40}libpython\d[\d.]*\.so(?!.{0,40}(?:MATLAB|R_HOME|reticulate))"
        ),
        title="The interpreter's own library is gone",
        decisive_fact="whether the environment's python -V starts",
    ),
    Signature(
        "python.newer-syntax",
        "the Python interpreter",
        ("syntaxerror",),
        ((Cause.PYTHON_UNSUPPORTED, 0.72), (Cause.CORRUPT_INSTALLATION, 0.1)),
        "CPython: a release that needs a newer Python, in the folder of an older one",
        pattern=r"\bSyntaxError: (?:invalid syntax|future feature|Missing parentheses)",
        requires=("old-python-package",),
        title="A package is written for a newer Python than this one",
        decisive_fact="which Pythons that release is for: its Requires-Python",
    ),
    Signature(
        "target.not-executed",
        "systemd, Slurm, Docker, cron, the shell",
        ("no such file or directory", "exec format error", "enoent", "not found"),
        _BROKEN,
        "systemd, src/core/exec-invoke.c: Failed at step EXEC; slurmstepd: execve(); cron and sh; apptainer",
        pattern=(
            rf"(?:Failed at step EXEC spawning|execve\(\):|FATAL:? (?:\w+ )?exec|\bexec:?|spawn) ['\"]?{_PYTHON}['\"]?:? ?(?:failed: )?(?:No such file or directory|ENOENT|stat .{{0,80}}no such file)"
            rf"|^(?:[\w./-]{{1,60}}: ){{0,2}}(?:line \d+: )?['\"]?{_PYTHON}['\"]?: (?:No such file or directory|not found$)"
            rf"|Exec format error:? ['\"]?{_PYTHON}|{_PYTHON}['\"]?: cannot execute(?: binary file)?: Exec format error"
            rf"|\[Errno 2\](?: No such file or directory)?:? ['\"]{_PYTHON}['\"]"
        ),
        title="The environment's interpreter is not there, or is not made for this machine",
        decisive_fact="whether that file is there, and what its link points to",
    ),
    Signature(
        "target.launcher-words",
        "supervisord, uWSGI, Open MPI, tox, Poetry, editors",
        (
            *("can't find command", "python home is not a directory", "could not find an executable"),
            *("could not find executable", "seems to be broken", "invalid python sdk", "python home is invalid"),
            *("could not be resolved", "python runtime and ipykernel"),
        ),
        _BROKEN,
        "supervisor, process.py; uWSGI, plugins/python; tox; poetry, utils/env; PyCharm; the Python extension of VS Code",
        pattern=(
            rf"can't find command ['\"]?{_PYTHON}|!!! Python Home is not a directory|Executable: {_PYTHON}"
            r"|could not find executable ['\"]?(?:\S{1,120}/)?python|virtual environment found in \S+ seems to be broken"
            r"|Invalid Python SDK|python home is invalid"
            r"|[Dd]efault interpreter path '\S{1,200}' could not be resolved"
        ),
        title="What starts the program does not find the environment's interpreter",
        decisive_fact="whether that file is there, and what its link points to",
    ),
)
