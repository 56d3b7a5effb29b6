"""Reports of the command line: several formats at once, hostile names, identities, and unwritable files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.cli.output import FORMATS
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Snapshot
from gpuenv.simulate.layout import materialise
from gpuenv.simulate.profile import load
from tests.cli.program import gpuenv
from tests.cli.snapshots import FIT, replace_facts, write_snapshot
from tests.report.readers import READERS, ParsedReport, commands
from tests.report.table import Row, assert_formats_agree, required

if TYPE_CHECKING:
    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

MACHINES = Path(__file__).parents[1] / "machines"
PROFILES = ("h100x8-550", "mismatch-535", "container-without-gpu")


@pytest.fixture(scope="module", params=PROFILES)
def snapshot_file(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, stub_driver: StubDriver,
    cuda_libraries: CudaLibraries, targets: Targets,
) -> Path:  # fmt: skip
    """The snapshot of a simulated machine."""
    profile = load(MACHINES / f"{request.param}.yaml")
    folder = tmp_path_factory.mktemp(request.param)
    machine = materialise(profile, folder, stub_driver, cuda_libraries.of)
    command = [sys.executable, "-m", "gpuenv", "probe", "-o", str(folder / "machine.json"), "--assume", "python=3.12"]
    command += ["--python", str(targets.interpreter(profile.target))]
    process = subprocess.run(
        command, env=dict(machine.environment), capture_output=True, text=True, check=False, timeout=60
    )
    assert process.returncode == 0, process.stderr
    return folder / "machine.json"


def every_format(folder: Path, snapshot: Path, *options: str) -> tuple[int, dict[str, ParsedReport]]:
    """Run preflight once with all formats, and parse each."""
    formats = [part for name in FORMATS for part in ("--format", f"{name}={folder / name}")]
    formats = [part.replace(f"text={folder / 'text'}", "text") for part in formats]
    environment = {"GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    arguments: list[str | Path] = ["--no-config", "--snapshot", snapshot, *options, *formats, "-o", folder / "text"]
    process = gpuenv("preflight", *arguments, environment=environment)
    assert (process.stdout, process.stderr) == ("", "")
    assert (folder / "summary.md").read_text(encoding="utf-8") == (folder / "markdown").read_text(encoding="utf-8")
    return process.returncode, {name: READERS[name](folder / name) for name in FORMATS}


def test_the_formats_of_a_command_agree(snapshot_file: Path, tmp_path: Path) -> None:
    """test_table.py covers the rest of the table within one process."""
    code, forms = every_format(tmp_path, snapshot_file, *required("usual"))
    assert_formats_agree(Row(code, json.loads((tmp_path / "json").read_text(encoding="utf-8")), forms))


def test_the_reason_for_another_host_is_in_every_format(tmp_path: Path) -> None:
    machine = write_snapshot(FIT, tmp_path / "fit.json")
    code, forms = every_format(tmp_path, machine, "--require", "gpu>=8", "--retry-elsewhere")
    assert code == 75
    for form, parsed in forms.items():
        assert parsed.exit_code in (None, 75), form
        assert "another host may meet it" in parsed.text or form in ("gitlab", "prometheus"), form


# Hostile names.

EVIL = (
    "\x1b[2J\x07 ]]> -->\n::error::forged\n%0A::set-env name=x::y ##[error]z <script>alert(1)</script>"
    ' " \' & `x` | [a](http://evil) @everyone \\ \u202e {x="y"} \ud800 ```'
)


def hostile() -> Snapshot:
    gpu = FIT.gpus[0]._replace(name=known(EVIL, "nvml"))
    host = FIT.host._replace(distribution=known(EVIL, "/etc/os-release"))
    return replace_facts(FIT, gpus=(gpu,), host=host)


def test_a_hostile_name_injects_nothing(tmp_path: Path) -> None:
    machine = write_snapshot(hostile(), tmp_path / "evil.json")
    code, forms = every_format(tmp_path, machine, "--require", "name~=H100", "--require", "gpu>=1")
    assert code == 1
    for form, parsed in forms.items():
        assert parsed.findings == {("REQ801", "requirement-not-met")}, form
        raw = (tmp_path / form).read_bytes().decode("utf-8")
        assert [c for c in "\x1b\x07\u202e" if c in raw] == [], form
    read = commands((tmp_path / "github").read_text(encoding="utf-8"))
    assert [properties["title"] for _, properties, _ in read] == [
        "REQ801 requirement-not-met",
        "gpuenv: UNFIT (exit code 1)",
    ]
    page = (tmp_path / "html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_identities_are_hidden_unless_requested(tmp_path: Path) -> None:
    target = FIT.target._replace(executable=known("/home/alice/venv/bin/python3", "the target's interpreter"))
    machine = write_snapshot(replace_facts(FIT, target=target), tmp_path / "alice.json")
    every_format(tmp_path, machine, "--require", "gpu>=2")
    names = [*FORMATS, "summary.md"]
    assert [name for name in names if "alice" in (tmp_path / name).read_text(encoding="utf-8")] == []
    uuid = str(FIT.gpus[0].uuid.value)
    of_the_site = ["prometheus"]  # whose metrics join those of the DCGM exporter
    assert [name for name in names if uuid in (tmp_path / name).read_text(encoding="utf-8")] == of_the_site
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    every_format(open_folder, machine, "--no-redact")
    assert [name for name in names if "alice" not in (open_folder / name).read_text(encoding="utf-8")] == [
        "gitlab",
        "prometheus",
    ]


# Several at once.


def test_text_goes_to_standard_output_next_to_files(tmp_path: Path) -> None:
    machine = write_snapshot(FIT, tmp_path / "fit.json")
    process = gpuenv("doctor", "--snapshot", machine, "--format", f"junit={tmp_path / 'j.xml'}")
    assert process.stdout.startswith("FIT: ")
    assert READERS["junit"](tmp_path / "j.xml").status == "fit"


def test_an_unwritable_file_does_not_prevent_the_others(tmp_path: Path) -> None:
    machine = write_snapshot(FIT, tmp_path / "fit.json")
    formats = ("--format", f"junit={tmp_path / 'missing/j.xml'}", "--format", f"sarif={tmp_path / 's.json'}")
    process = gpuenv("preflight", "--no-config", "--snapshot", machine, *formats)
    assert process.returncode == 2
    assert "missing/j.xml" in process.stderr
    assert READERS["sarif"](tmp_path / "s.json").status == "fit"


def test_the_job_summary_is_appended_to(tmp_path: Path) -> None:
    machine = write_snapshot(FIT, tmp_path / "fit.json")
    summary = tmp_path / "summary.md"
    summary.write_text("# Another step\n", encoding="utf-8")
    gpuenv("doctor", "--snapshot", machine, "--format", "github", environment={"GITHUB_STEP_SUMMARY": str(summary)})
    assert summary.read_text(encoding="utf-8").startswith("# Another step\n## gpuenv: FIT\n")


def test_an_unwritable_job_summary_changes_no_verdict(tmp_path: Path) -> None:
    """As in a container without the runner's folder."""
    machine = write_snapshot(FIT, tmp_path / "fit.json")
    environment = {"GITHUB_STEP_SUMMARY": str(tmp_path / "not/mounted/summary.md")}
    process = gpuenv("doctor", "--snapshot", machine, "--format", "github", environment=environment)
    assert (process.returncode, process.stdout[:2]) == (0, "::")
    assert "not/mounted/summary.md: cannot be written" in process.stderr


def test_a_page_shows_earlier_runs(tmp_path: Path) -> None:
    history = tmp_path / "history"
    history.mkdir()
    machine = tmp_path / "m.json"
    for number, options in enumerate((["--require", "gpu>=8"], [], ["--require", "nvlink"])):
        snapshot = replace_facts(FIT, taken_at=f"2026-11-2{number}T12:00:00+00:00")
        write_snapshot(snapshot, machine)
        gpuenv(
            "preflight",
            "--no-config",
            "--snapshot",
            machine,
            *options,
            "--format",
            "json",
            "-o",
            history / f"{number}.json",
        )
    (history / "broken.json").write_text("{", encoding="utf-8")
    (history / "other.json").write_text("[]", encoding="utf-8")
    endless = {"schema": "gpuenv.report/1", "status": "fit", "duration": float("inf")}
    endless |= {"findings": [], "snapshot": {"taken_at": None}}
    (history / "endless.json").write_text(json.dumps(endless), encoding="utf-8")
    page = tmp_path / "page.html"
    process = gpuenv(
        "preflight", "--no-config", "--snapshot", machine, "--history", history, "--format", f"html={page}"
    )
    assert process.returncode == 0, process.stderr
    text = page.read_text(encoding="utf-8")
    section = text[text.index('id="history"') : text.index('id="checks"')]
    assert section.count("<rect") == 3
    assert section.index("2026-11-22") < section.rindex("2026-11-21") < section.rindex("2026-11-20")
    assert "REQ801 requirement-not-met" in section
