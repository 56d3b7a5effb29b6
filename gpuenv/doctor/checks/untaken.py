"""Files of CuPy and of CUDA that are there, and that the loader cannot take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuenv.doctor.checks.cupy import ONE_CUPY
from gpuenv.doctor.evidence import fact
from gpuenv.doctor.loader_errors import Untaken, untaken
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.pattern import pattern

_LIMIT = pattern(r"ulimit -v is (\d+) KiB")
_FILE = pattern(r"(/[^:]*): (?:failed|cannot|file too|invalid|wrong|ELF|only|object)")
_FINDERS = pattern(r"^Failed to dlopen [^:]*: ")  # cuda-pathfinder's, before the loader's own words
# GNU C Library Manual, Dynamic Linking Tunables: optional_static_tls is "the amount of surplus static TLS in bytes".
_MORE = "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384"
_AGAIN = ("gpuenv", "doctor")
_WHY = {
    Untaken.NOEXEC: "the file system is mounted noexec",
    Untaken.LIMIT: "this process may not map as much memory as that needs",
    Untaken.RESERVE: "too little is reserved for the variables that each thread has of its own",
    Untaken.UNMAPPED: "the loader cannot map it into memory",
    Untaken.DENIED: "this user may not read the file",
    Untaken.DAMAGED: "the file is damaged, or of another machine",
}


@check(
    "LIB613",
    Cause.TARGET_ENVIRONMENT_BROKEN,
    Cause.CORRUPT_INSTALLATION,
    requires=ONE_CUPY,
    unless=("WHL510", "WHL512"),
)
def cannot_be_taken(facts: Facts) -> Outcome:
    """Files of CuPy or of the CUDA libraries are there, and the loader cannot take them.

    What it means: nothing is missing, and to install it again does not help. Nothing can be loaded from a file
    system that is mounted noexec, as temporary folders and home folders of clusters are; a limit of the address
    space (ulimit -v) that is smaller than the libraries keeps them out, or a reserve of static TLS that is; files
    that another user has put there may not be readable; or a file is damaged. CuPy says that the library is not
    found, or import cupy ends with an ImportError.
    How it is seen: the loader's own words when the target loads each file, how their file system is mounted, and the
    limit of this process.
    What to do: put the environment on a file system without noexec, raise the limit, let this user read the files, or
    put damaged ones in anew.
    """
    told = list(_told(facts))
    kind = next((kind for kind in Untaken if any(why is kind for _, _, why in told)), None)
    if kind is None:
        return
    of_kind = [(name, words) for name, words, why in told if why is kind]
    first, more = of_kind[0][0], len(of_kind) - 1
    yield Symptom(
        f"{first}{f' and {more} more' if more else ''} cannot be loaded: {_WHY[kind]}",
        tuple(Evidence(name, _FINDERS.sub("", words), "the target's loader") for name, words in of_kind)
        + fact("target.prefix", facts.snapshot.target.prefix),
        _fixes(kind, [words for _, words in of_kind]),
        cause=Cause.CORRUPT_INSTALLATION if kind is Untaken.DAMAGED else None,
    )


def _told(facts: Facts) -> Iterator[tuple[str, str, Untaken]]:
    """What is there and was not taken, the loader's words and why: CuPy's own module, and the libraries it needs."""
    target = facts.snapshot.target
    own = untaken(target.extension.reason) if not target.extension.known else None
    if own is not None:
        yield "CuPy's compiled module", target.extension.reason or "", own
    for library in target.libraries:
        why = untaken(library.error) if library.path is None and not library.optional else None
        if why is not None:
            yield library.soname, library.error or "", why


def _fixes(kind: Untaken, said: Iterable[str]) -> tuple[Fix, ...]:
    words = list(said)
    files = list(dict.fromkeys(found[1] for text in words if (found := _FILE.search(text))))
    if kind is Untaken.NOEXEC:
        return (Fix("Make the environment on another file system, or have this one mounted without noexec."),)
    if kind is Untaken.LIMIT:
        found = next((found for text in words if (found := _LIMIT.search(text))), None)
        now = f" of {int(found[1]) // 1024} MiB" if found else ""
        return (Fix(f"Raise the limit{now} in the shell or the job that starts the program: ulimit -v unlimited"),)
    if kind is Untaken.RESERVE:
        return (
            Fix("See whether a larger reserve helps; then set that where CuPy is started.", ("env", _MORE, *_AGAIN)),
            Fix("Or leave out what is preloaded (LD_PRELOAD, LD_AUDIT), or import CuPy before what takes the reserve."),
        )
    if kind is Untaken.UNMAPPED:
        return (Fix("See how their file system is mounted, and what limits the memory of this process: ulimit -a"),)
    if kind is Untaken.DENIED:
        return (Fix("Let this user read them, or make an environment of your own."),)
    return (Fix(f"Install again what {', '.join(files) or 'the file'} belongs to."),)
