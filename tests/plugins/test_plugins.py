"""Checks of other packages, built, installed into an environment and run by gpuenv there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import gpuenv
from gpuenv.doctor.registry import NotKnown
from gpuenv.model.reading import known, missing
from gpuenv.plugins.check_result import run_check
from tests.cli.snapshots import FIT, UNFIT, write_snapshot
from tests.support.planted_secrets import LONG_URL, shown_parts
from tests.support.target import metadata_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuenv.model.snapshot import Snapshot

EXAMPLE = Path(__file__).parent / "example"
CHECKOUT = Path(gpuenv.__file__).parents[1]
GIB = 1024**3
TIMEOUT = 2.0  # seconds until a check that does not end is killed
BAD = {
    "BAD101": ("def check(snapshot):\n    raise RuntimeError('it broke')\n", "it broke"),
    "BAD102": ("import time\ndef check(snapshot):\n    time.sleep(600)\n", "did not end within 2 s, while it ran"),
    "BAD103": ("import os\ndef check(snapshot):\n    os.abort()\n", "ended by SIGABRT, while it ran"),
    "BAD104": ("def check(snapshot):\n    return 42\n", "yields Symptom and NotKnown; found int"),
    "BAD105": ("import no_such_module\n", "No module named 'no_such_module'"),
    "BAD106": ("def check(snapshot):\n    yield 'text'\n", "yields Symptom and NotKnown; found str"),
    "BAD107": ("check = 7\n", "found int"),
    "BAD108": ("def another(snapshot):\n    return ()\n", "has no attribute 'check'"),
    "BAD109": ("import os\ndef check(snapshot):\n    os._exit(0)\n", "ended while it ran, without a result"),
    "BAD110": ("import time\ntime.sleep(600)\n", "did not end within 2 s, while it was imported"),
    "BAD111": (
        "from gpuenv.doctor.registry import Symptom\ndef check(snapshot):\n    yield Symptom('nameless', (), ())\n",
        "'nameless' names none",
    ),
    "BAD112": (
        (
            "from gpuenv.doctor.registry import Symptom\nfrom gpuenv.model.causes import Cause\n"
            "def check(snapshot):\n    yield Symptom(7, 'x', None, cause=Cause.GPU_BUSY)\n"
        ),
        "its result is invalid",
    ),
    "BAD113": (
        "import sys\ndef check(snapshot):\n    while True: sys.stdout.write('gpuenv:[' * 4096)\n",
        "did not end within 2 s",
    ),
    "GPU999": ("def check(snapshot):\n    return ()\n", "has a code reserved for gpuenv"),
    "lower": ("def check(snapshot):\n    return ()\n", "has the invalid code 'lower'"),
}
API = """
import json, sys
from pathlib import Path
import gpuenv
from gpuenv.model.codec import decode
from gpuenv.model.snapshot import Snapshot
snapshot = decode(Snapshot, json.loads(Path("machine.json").read_text()))
print(eval(sys.argv[1]).to_json())
"""
GOOD = """
import os, sys
def check(snapshot):
    print("chatter", file=sys.stdout)
    os.write(2, b"more chatter")
    return None
"""


@dataclass(frozen=True, slots=True)
class Home:
    """An environment with gpuenv and plug-ins in it."""

    interpreter: Path
    folder: Path

    def install(self, *wheels: Path) -> None:
        options = ["--offline", "--no-index", "--no-deps", "--no-config", "--no-cache", "--python", self.interpreter]
        run([sys.executable, "-m", "uv", "pip", "install", "--quiet", *options, *wheels])

    def wheel(self, code: str, source: str, package: str | None = None) -> Path:
        """The wheel of a package with one check."""
        name = package or f"plugin-{code.lower()}"
        module = name.replace("-", "_")
        entry = f"{module}-1.0.dist-info/entry_points.txt"
        content = {f"{module}.py": source.encode(), entry: f"[gpuenv.checks]\n{code} = {module}:check\n".encode()}
        return metadata_wheel(self.folder, f"{name}==1.0", content)

    def plugin(self, code: str, source: str) -> None:
        """Installs a package with one check."""
        self.install(self.wheel(code, source))

    def gpuenv(self, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [str(self.interpreter), "-m", "gpuenv", *map(str, arguments)],
            cwd=self.folder,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": str(self.folder), **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert "Traceback" not in result.stderr, result.stderr
        return result

    def doctor(self, machine: Snapshot, *options: object) -> tuple[int, Any]:
        snapshot_file = write_snapshot(machine, self.folder / "machine.json")
        result = self.gpuenv("doctor", "--snapshot", snapshot_file, "--format", "json", *options)
        assert result.stdout, result.stderr
        return result.returncode, json.loads(result.stdout)


def run(command: list[Any], cwd: Path | None = None) -> str:
    result = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture
def home(tmp_path: Path) -> Home:
    run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"])
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (site / "gpuenv.pth").write_text(f"{CHECKOUT}\n{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return Home(tmp_path / "venv/bin/python", tmp_path)


@pytest.fixture(scope="module")
def example_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's wheel, built by its back end."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], EXAMPLE)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture
def example(home: Home, example_wheel: Path) -> Home:
    """An environment with the example."""
    home.install(example_wheel)
    return home


def status(report: Mapping[str, Any], code: str) -> tuple[str, str]:
    (statuses,) = [(run["status"], run["reason"] or "") for run in report["checks"] if run["code"] == code]
    return statuses


SMALL = FIT._replace(gpus=(FIT.gpus[0]._replace(memory_total=known(24 * GIB, "nvml")),))
UNKNOWN_MEMORY = FIT._replace(gpus=(FIT.gpus[0]._replace(memory_total=missing("not reported")),))


def test_the_example_reports_only_its_own_finding(example: Home) -> None:
    code, report = example.doctor(FIT)
    assert (code, report["status"], report["findings"]) == (0, "fit", [])
    assert status(report, "ACME101") == ("clean", "")
    code, report = example.doctor(SMALL)
    assert (code, report["status"]) == (0, "degraded")
    (finding,) = report["findings"]
    assert (finding["code"], finding["cause"]) == ("ACME101", "out-of-memory")
    assert finding["title"] == "NVIDIA A100-SXM4-80GB has 24 GiB, and our smallest model takes 40"
    assert finding["docs"].startswith("acme-gpu-checks 1.2: A GPU has less memory")
    _, report = example.doctor(UNKNOWN_MEMORY)
    assert status(report, "ACME101") == ("skipped", "unknown: the memory of GPU 0 is not known")


def test_a_plug_in_is_listed_skipped_selected_and_suppressed_like_a_check(example: Home) -> None:
    listed = example.gpuenv("doctor", "--list").stdout
    assert "ACME101  from acme-gpu-checks 1.2 (acme_gpu_checks:enough_memory)" in listed
    _, report = example.doctor(SMALL, "--skip", "acme101")
    assert (report["findings"], status(report, "ACME101")[0]) == ([], "skipped")
    _, report = example.doctor(SMALL, "--only", "ACME101")
    assert [run["code"] for run in report["checks"] if run["status"] != "skipped"] == ["ACME101"]
    allow = '[[allow]]\ncode = "ACME101"\nreason = "small models alone"\nexpires = 2999-01-01\n'
    (example.folder / "gpuenv.toml").write_text(allow, encoding="utf-8")
    _, report = example.doctor(SMALL)
    assert report["status"] == "fit"
    assert report["findings"][0]["allowed"]["reason"] == "small models alone"
    result = example.gpuenv("preflight", "--snapshot", example.folder / "machine.json", "--no-config")
    assert "ACME101 out-of-memory" in result.stdout


def test_a_broken_check_is_reported_and_does_not_affect_other_checks(example: Home) -> None:
    """Each of many broken checks is reported with its own error; the findings of other checks are unchanged."""
    _, without_broken = example.doctor(UNFIT)
    example.install(*(example.wheel(code, source) for code, (source, _) in BAD.items()), example.wheel("GOOD101", GOOD))
    started = time.monotonic()
    exit_code, report = example.doctor(UNFIT, "--timeout", TIMEOUT)
    duration = time.monotonic() - started
    for name, (_, message) in BAD.items():
        state, reason = status(report, name)
        assert state == "crashed"
        assert reason.startswith(f"plug-in of plugin-{name.lower()} 1.0: ")
        assert message in reason
    assert status(report, "GOOD101") == ("clean", "")
    assert status(report, "ACME101") == ("clean", "")
    assert (exit_code, report["findings"]) == (1, without_broken["findings"])
    codes = [run["code"] for run in report["checks"] if not run["code"].startswith(("BAD", "GOOD", "lower", "GPU999"))]
    assert codes == [run["code"] for run in without_broken["checks"]]
    assert duration < 2 * TIMEOUT + len(BAD), "the checks run in parallel, each until its deadline"


def test_a_machine_is_not_fit_if_a_check_crashed(home: Home) -> None:
    home.plugin("BAD101", BAD["BAD101"][0])
    code, report = home.doctor(FIT)
    assert (code, report["status"]) == (8, "unknown")
    result = home.gpuenv("doctor", "--snapshot", home.folder / "machine.json")
    output = " ".join(result.stdout.split())
    assert "Check BAD101 crashed: plug-in of plugin-bad101 1.0: failed while it ran" in output
    assert home.doctor(FIT, "--skip", "BAD101")[0] == 0


@pytest.mark.parametrize(
    ("call", "command"),
    [
        ("gpuenv.diagnose(snapshot)", ["doctor"]),
        ("gpuenv.check('gpu>=1', snapshot=snapshot)", ["preflight", "--no-config", "--require", "gpu>=1"]),
    ],
)
def test_the_python_interface_runs_plug_ins_as_the_commands_do(example: Home, call: str, command: list[str]) -> None:
    example.plugin("BAD101", BAD["BAD101"][0])
    for machine in (SMALL, FIT):
        snapshot_file = write_snapshot(machine, example.folder / "machine.json")
        expected = json.loads(example.gpuenv(*command, "--snapshot", snapshot_file, "--format", "json").stdout)
        assert status(expected, "BAD101")[0] == "crashed"
        report = json.loads(run([example.interpreter, "-c", API, call], example.folder))
        for name in ("status", "exit_code", "findings"):
            assert report[name] == expected[name]
        assert [(r["code"], r["status"], r["reason"]) for r in report["checks"]] == [
            (r["code"], r["status"], r["reason"]) for r in expected["checks"]
        ]


@pytest.mark.parametrize(
    "body",
    ["raise OSError(text)", "yield NotKnown(text)", "yield Symptom(text, (), (), cause=Cause.GPU_BUSY)"],
)
def test_the_text_of_a_plug_in_is_not_cut_within_a_secret(home: Home, body: str) -> None:
    text = f"cannot open {'a' * 200} {LONG_URL.line}"
    imports = "from gpuenv.doctor.registry import NotKnown, Symptom\nfrom gpuenv.model.causes import Cause\n"
    home.plugin("LONG101", f"{imports}text = {text!r}\ndef check(snapshot):\n    {body}\n")
    report = json.dumps(home.doctor(FIT)[1])
    assert "cannot open aaa" in report
    assert shown_parts(LONG_URL, report) == []


def test_malformed_entry_points_of_a_package_do_not_affect_others(home: Home) -> None:
    home.plugin("GOOD101", GOOD)
    (site,) = home.interpreter.parents[1].glob("lib/python*/site-packages")
    broken = site / "broken-1.0.dist-info"  # as an old setuptools leaves it; uv installs no such file
    broken.mkdir()
    (broken / "entry_points.txt").write_text("[console_scripts]\na line without an equals sign\n", encoding="utf-8")
    code, report = home.doctor(FIT)
    assert (code, status(report, "GOOD101")) == (0, ("clean", ""))


def test_an_endless_check_is_limited_to_50_results() -> None:
    def endless(_: Snapshot) -> Iterator[NotKnown]:
        yield from (NotKnown("not yet") for _ in range(10_000))
        pytest.fail("more results were requested than are read")

    assert len(run_check(endless, FIT).unknown) == 50


def test_two_packages_with_the_same_code_are_reported(home: Home) -> None:
    home.install(*(home.wheel("SAME101", GOOD, name) for name in ("plugin-one", "plugin-two")))
    _, report = home.doctor(FIT)
    assert "has the same code in plugin-one 1.0 and plugin-two 1.0" in status(report, "SAME101")[1]


def test_a_fix_of_a_plug_in_is_never_run_by_gpuenv(home: Home) -> None:
    source = (
        "from gpuenv.doctor.registry import Symptom\nfrom gpuenv.model.causes import Cause\n"
        "from gpuenv.model.finding import Fix\ndef check(snapshot):\n"
        "    yield Symptom('x', (), (Fix('run it', ('rm', '-r', 'x'), safe=True),), cause=Cause.GPU_BUSY)\n"
    )
    home.plugin("SAFE101", source)
    code, report = home.doctor(FIT)
    assert (code, report["findings"][0]["primary"]) == (1, True)
    (fix,) = report["findings"][0]["fix"]
    assert (fix["text"], fix["command"], fix["safe"]) == ("run it", ["rm", "-r", "x"], False)


def test_the_code_of_a_plug_in_is_explained_by_its_docstring(example: Home) -> None:
    result = example.gpuenv("explain", "acme101")
    output = " ".join(result.stdout.split())
    assert result.returncode == 0
    assert "ACME101: A GPU has less memory than our smallest model takes." in output
    assert "provided by acme-gpu-checks 1.2 (acme_gpu_checks:enough_memory)" in output
    assert "What to do: take a machine with larger GPUs." in output
    assert example.gpuenv("explain", "ACME102").returncode == 2


def test_explain_reports_a_check_that_cannot_be_loaded(home: Home) -> None:
    home.install(*(home.wheel(code, BAD[code][0]) for code in ("BAD105", "BAD108", "BAD110", "GPU999")))
    for code, reason in (
        ("BAD105", "No module named"),
        ("BAD108", "no attribute"),
        ("BAD110", "did not end within 0.5 s"),
        ("GPU999", "reserved for gpuenv"),
    ):
        result = home.gpuenv("explain", code, "--timeout", 0.5 if code == "BAD110" else 20)
        output = " ".join(result.stdout.split())
        assert result.returncode == 0
        assert f"provided by plugin-{code.lower()} 1.0" in output
        assert reason in output, output
