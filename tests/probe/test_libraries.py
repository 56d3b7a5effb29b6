"""Loading of CUDA libraries: versions, dependencies, crashes and hangs, with libraries compiled for the tests."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.redaction import hide_secrets
from gpuenv.model.snapshot import SourceState
from gpuenv.probe.assembly import assemble
from gpuenv.probe.context import script
from gpuenv.probe.raw import RawFacts
from tests.install.mounts import mounted
from tests.probe.probe_runs import probe_context, probe_libraries
from tests.probe.raw_facts import Distribution, LibraryFact, LibraryFacts, TargetFacts
from tests.probe.venvs import interpreter_of, make_venv
from tests.support.planted_secrets import LONG_URL, shown_parts

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Source

CUPY = TargetFacts(distributions=(Distribution("cupy-cuda12x", "13.6.0"),))
NAMES = {
    "nvrtc": "libnvrtc.so.12",
    "cublas": "libcublas.so.12",
    "cufft": "libcufft.so.11",
    "curand": "libcurand.so.10",
    "cusolver": "libcusolver.so.11",
    "cusparse": "libcusparse.so.12",
}
PROPERTY = "int {name}GetProperty(int which, int *value) {{ *value = (int[]){{12, 5, 10}}[which]; return 0; }}\n"
PAIR = "int nvrtcVersion(int *major, int *minor) { *major = 12; *minor = 9; return 0; }\n"
WHEN_LOADED = "__attribute__((constructor)) static void when_loaded(void) {{ {body} }}\n"
CRASH = "#include <stdlib.h>\n" + WHEN_LOADED.format(body="abort();")
KILLED = "#include <signal.h>\n" + WHEN_LOADED.format(body="raise(SIGKILL);")
HANG = "#include <unistd.h>\n" + WHEN_LOADED.format(body="for (;;) pause();")


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return interpreter_of(make_venv(tmp_path_factory.mktemp("libraries") / "venv"))


@dataclass(frozen=True, slots=True)
class Libraries:
    """A folder of compiled libraries."""

    folder: Path

    def make(self, soname: str, source: str = "", *options: str) -> None:
        """Compiles a library."""
        text = self.folder / "source.c"
        text.write_text(source, encoding="utf-8")
        command = ["cc", "-shared", "-fPIC", str(text), f"-Wl,-soname,{soname}", "-o", str(self.folder / soname)]
        subprocess.run([*command, f"-L{self.folder}", *options], check=True)

    def make_all(self, **sources: str) -> None:
        """Compiles the six libraries that CuPy needs, by default without functions."""
        for name, soname in NAMES.items():
            self.make(soname, sources.get(name, ""))

    def probe(self, interpreter: Path, limit: float = 20.0, **variables: str) -> tuple[LibraryFacts, Source]:
        """The libraries that CuPy 13 would load from the folder."""
        environment = {"LD_LIBRARY_PATH": str(self.folder), **variables}
        return probe_libraries(probe_context(environment, limit=limit), str(interpreter), CUPY)


@pytest.fixture
def libraries(tmp_path: Path) -> Libraries:
    return Libraries(tmp_path)


def by_name(facts: LibraryFacts) -> dict[str, LibraryFact]:
    return {entry.name: entry for entry in facts.libraries or ()}


def test_each_library_reports_its_version(interpreter: Path, libraries: Libraries) -> None:
    libraries.make_all(nvrtc=PAIR, cublas=PROPERTY.format(name="cublas"), cusparse=PROPERTY.format(name="cusparse"))
    facts, source = libraries.probe(interpreter)
    assert source.state is SourceState.ANSWERED, source.detail
    entries = by_name(facts)
    assert {name: entry.path for name, entry in entries.items()} == {
        name: str(libraries.folder / soname) for name, soname in NAMES.items()
    }
    assert {entry.found_via for entry in entries.values()} == {"loader"}
    releases = {name: entry.release for name, entry in entries.items() if entry.release}
    assert releases == {"nvrtc": "12.9", "cublas": "12.5.10", "cusparse": "12.5.10"}


def test_a_library_whose_version_call_fails_is_still_listed(interpreter: Path, libraries: Libraries) -> None:
    libraries.make_all(nvrtc="int nvrtcVersion(int *a, int *b) { return 1; }\n")
    nvrtc = by_name(libraries.probe(interpreter)[0])["nvrtc"]
    assert nvrtc.path is not None
    assert (nvrtc.release, nvrtc.error) == (None, None)


def test_a_dependency_of_a_library_is_listed(interpreter: Path, libraries: Libraries) -> None:
    libraries.make("libcublasLt.so.12", PROPERTY.format(name="cublasLt"))
    libraries.make_all()
    libraries.make("libcublas.so.12", "", "-Wl,--no-as-needed", "-l:libcublasLt.so.12")
    dependency = by_name(libraries.probe(interpreter)[0])["cublasLt"]
    assert (dependency.soname, dependency.found_via, dependency.release) == (
        "libcublasLt.so.12",
        "dependency",
        "12.5.10",
    )
    assert dependency.path == str(libraries.folder / "libcublasLt.so.12")


def test_a_missing_dependency_is_named_in_the_loaders_error(interpreter: Path, libraries: Libraries) -> None:
    libraries.make("libcublasLt.so.12")
    libraries.make_all()
    libraries.make("libcublas.so.12", "", "-Wl,--no-as-needed", "-l:libcublasLt.so.12")
    (libraries.folder / "libcublasLt.so.12").unlink()
    cublas = by_name(libraries.probe(interpreter)[0])["cublas"]
    assert cublas.path is None
    assert "libcublasLt.so.12" in (cublas.error or "")


def test_a_missing_symbol_is_named_in_the_loaders_error(interpreter: Path, libraries: Libraries) -> None:
    """Such as with cuSPARSE of CUDA 12.9 and nvJitLink of 12.1, whose symbols are versioned by the library's name."""
    versions = libraries.folder / "versions"
    versions.write_text("libnvJitLink.so.12 { global: *; };\n", encoding="utf-8")
    newer = "int __nvJitLinkComplete_12_9(void) { return 0; }\n"
    libraries.make("libnvJitLink.so.12", newer, f"-Wl,--version-script={versions}")
    libraries.make_all()
    calling = "int __nvJitLinkComplete_12_9(void);\nint call(void) { return __nvJitLinkComplete_12_9(); }\n"
    libraries.make("libcusparse.so.12", calling, "-Wl,-z,now", "-l:libnvJitLink.so.12")
    libraries.make("libnvJitLink.so.12", newer.replace("12_9", "12_1"), f"-Wl,--version-script={versions}")
    cusparse = by_name(libraries.probe(interpreter)[0])["cusparse"]
    assert cusparse.path is None
    assert "undefined symbol: __nvJitLinkComplete_12_9, version libnvJitLink.so.12" in (cusparse.error or "")


def test_a_crashing_library_does_not_affect_the_others(interpreter: Path, libraries: Libraries) -> None:
    libraries.make_all(cufft=CRASH, nvrtc=PAIR)
    facts, source = libraries.probe(interpreter)
    assert (source.state, source.detail) == (SourceState.CRASHED, "cufft: crashed with SIGABRT")
    entries = by_name(facts)
    assert (entries["cufft"].path, entries["cufft"].error) == (None, "loading it crashed with SIGABRT")
    assert [name for name, entry in entries.items() if entry.path] == [name for name in NAMES if name != "cufft"]
    assert entries["nvrtc"].release == "12.9"


def test_a_process_killed_from_outside_is_not_a_librarys_crash(interpreter: Path, libraries: Libraries) -> None:
    """Such as by the kernel for lack of memory."""
    libraries.make_all(cufft=KILLED, nvrtc=PAIR)
    facts, source = libraries.probe(interpreter)
    assert source.state is SourceState.FAILED
    assert (source.detail or "").startswith("killed by SIGKILL, mostly for lack of memory")
    assert {"nvrtc", "cublas"} == {name for name, entry in by_name(facts).items() if entry.path}
    assert "cufft" not in by_name(facts)


def test_every_crashing_library_is_named(interpreter: Path, libraries: Libraries) -> None:
    libraries.make_all(**dict.fromkeys(NAMES, CRASH))
    facts, source = libraries.probe(interpreter)
    assert source.state is SourceState.CRASHED
    assert all(f"{name}: crashed with SIGABRT" in (source.detail or "") for name in NAMES)
    assert [entry.path for entry in facts.libraries or ()] == [None] * len(NAMES)


def test_a_hanging_library_does_not_affect_the_others(interpreter: Path, libraries: Libraries) -> None:
    libraries.make_all(cublas=HANG)
    started = time.monotonic()
    facts, source = libraries.probe(interpreter, limit=5)
    assert time.monotonic() - started < 6
    assert (source.state, source.detail) == (SourceState.TIMED_OUT, "cublas: hangs")
    assert [name for name, entry in by_name(facts).items() if entry.path] == [
        name for name in NAMES if name != "cublas"
    ]


def test_the_deadline_holds_if_every_library_hangs(interpreter: Path, libraries: Libraries) -> None:
    libraries.make_all(**dict.fromkeys(NAMES, HANG))
    started = time.monotonic()
    facts, source = libraries.probe(interpreter, limit=2)
    assert time.monotonic() - started < 3
    assert source.state is SourceState.TIMED_OUT
    assert by_name(facts)["nvrtc"].path is None


def test_a_slow_start_of_the_interpreter_is_not_a_librarys_hang(
    interpreter: Path, libraries: Libraries, tmp_path: Path
) -> None:
    """Such as from a cold network file system."""
    libraries.make_all(cublas=HANG)
    hook = tmp_path / "sitecustomize.py"
    for pause in ("60", "1.5"):  # the probe never starts, or with too little time left
        hook.write_text(f"import time\ntime.sleep({pause})\n", encoding="utf-8")
        _, source = libraries.probe(interpreter, limit=2, PYTHONPATH=str(tmp_path))
        assert source.state is SourceState.NOT_ASKED, pause
        assert "--timeout" in (source.detail or "")


def test_a_crash_in_a_version_call_is_reported(interpreter: Path, libraries: Libraries) -> None:
    libraries.make_all(curand="#include <stdlib.h>\nint curandGetProperty(int a, int *b) { abort(); }\n")
    facts, source = libraries.probe(interpreter)
    assert (source.state, source.detail) == (SourceState.CRASHED, "curand: crashed with SIGABRT")
    assert by_name(facts)["cusparse"].path is not None


def test_a_broken_module_of_cupy_does_not_affect_the_libraries(
    interpreter: Path, libraries: Libraries, tmp_path: Path
) -> None:
    """Such as an _environment.py truncated by an interrupted copy."""
    libraries.make_all()
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy/_environment.py").write_text("def get_cuda_path(:", encoding="utf-8")
    target = TargetFacts(distributions=(Distribution("cupy-cuda12x", "13.6.0", str(tmp_path)),))
    ctx = probe_context({"LD_LIBRARY_PATH": str(libraries.folder)})
    facts, source = probe_libraries(ctx, str(interpreter), target)
    assert source.state is SourceState.ANSWERED
    assert len([entry for entry in facts.libraries or () if entry.path]) == len(NAMES)
    assert "cuda_path" not in facts
    assert "SyntaxError" in (facts.settings_error or "")


def test_an_error_of_cupys_module_is_not_cut_within_a_secret(
    interpreter: Path, libraries: Libraries, tmp_path: Path
) -> None:
    libraries.make_all()
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy/_environment.py").write_text(f"raise OSError('cannot open {LONG_URL.line}')\n", encoding="utf-8")
    target = TargetFacts(distributions=(Distribution("cupy-cuda12x", "13.6.0", str(tmp_path)),))
    ctx = probe_context({"LD_LIBRARY_PATH": str(libraries.folder)})
    facts, source = probe_libraries(ctx, str(interpreter), target)
    reason = assemble(RawFacts(target=target, libraries=facts, sources=(source,)), None).target.cuda_path.reason or ""
    assert "cannot open" in reason
    assert shown_parts(LONG_URL, hide_secrets(reason)) == []


def test_a_memory_limit_that_prevents_loading_is_reported(
    interpreter: Path, libraries: Libraries, tmp_path: Path
) -> None:
    """The loader's own error has no reason."""
    libraries.make_all(cublas="char much[1L << 30];")
    wrapper = tmp_path / "limited"
    wrapper.write_text(f'#!/bin/sh\nulimit -v 900000\nexec {interpreter} "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    reported = by_name(libraries.probe(wrapper)[0])
    assert (reported["cublas"].error or "").endswith("[ulimit -v is 900000 KiB]")
    assert reported["cufft"].error is None
    assert by_name(libraries.probe(interpreter)[0])["cublas"].error is None


@pytest.mark.parametrize("limit", ["8000000", "unlimited"])
def test_a_sufficient_memory_limit_is_not_reported(
    interpreter: Path, libraries: Libraries, tmp_path: Path, limit: str
) -> None:
    """Batch systems always set a limit."""
    reserved = '__thread __attribute__((tls_model("initial-exec"))) char much[100000];'
    libraries.make_all(cublas=f"{reserved} char one(int i) {{ return much[i]; }}")
    wrapper = tmp_path / "limited"
    wrapper.write_text(f'#!/bin/sh\nulimit -v {limit}\nexec {interpreter} "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    reported = by_name(libraries.probe(wrapper)[0])
    assert (reported["cublas"].error or "").endswith("static TLS block")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import libraries as l; print(l.explain_refusal(sys.argv[2]))"
    message = f"{libraries.folder / NAMES['cufft']}: failed to map segment from shared object"
    command = [str(wrapper), "-c", code, str(Path(script("libraries.py")).parent), message]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    assert done.stdout.strip() == message


def test_a_file_system_mounted_noexec_is_reported(interpreter: Path, tmp_path: Path) -> None:
    with mounted(tmp_path / "noexec", "-t", "tmpfs", "-o", "noexec,size=4m", "tmpfs") as folder:
        core = folder / "cupy/_core"
        core.mkdir(parents=True)
        suffix = subprocess.run(
            [str(interpreter), "-c", "from importlib.machinery import EXTENSION_SUFFIXES as s; print(s[0])"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        command = ["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", str(core / f"core{suffix}")]
        subprocess.run(command, check=True)
        facts = TargetFacts(distributions=(Distribution("cupy-cuda12x", "13.6.0", str(folder)),))
        reported = probe_libraries(probe_context({}, limit=20.0), str(interpreter), facts)[0]
    assert (reported.extension_error or "").endswith("[its file system is mounted noexec]")
