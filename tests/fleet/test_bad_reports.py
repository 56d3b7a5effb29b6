"""Files that are no good reports: each is named with its size and reason, and none ends the run."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
import tracemalloc
import zipfile
from typing import TYPE_CHECKING

import pytest

from gpuenv.fleet.analysis import FleetOptions, analyse
from gpuenv.fleet.drain import kubernetes_commands, slurm_commands
from gpuenv.fleet.groups import summarize
from gpuenv.fleet.node_report import LARGEST
from gpuenv.fleet.reader import ReportFile, read_reports
from tests.cli.program import gpuenv
from tests.fleet.node_reports import NOW, node_document, node_report, with_finding, write_nodes
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from pathlib import Path

NODES = [f"node{number}" for number in range(1, 20)]


def reason_for(data: bytes) -> str:
    """Why a file among good ones is not read."""
    good = ReportFile("good.json", None, node_report("good"))
    partial = summarize([ReportFile("bad.json", len(data), data), good])
    (file,) = partial.unreadable
    assert (file.file, file.size) == ("bad.json", len(data))
    assert set(partial.nodes) == {"good"}
    return file.reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no JSON"),
        (node_report("n")[:30_000], "no JSON"),
        (bytes(range(256)), "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[1]", "expected schema gpuenv.node/1"),
        (node_report("n").replace(b"gpuenv.node/1", b"gpuenv.node/2"), "'gpuenv.node/2'; a newer gpuenv reads it"),
        (node_report("n; rm -rf /"), "no name of a node"),
        (node_report("-x"), "no name of a node"),
        (node_report("../../etc/passwd"), "no name of a node"),
        (node_report("n\\u001b[31m"), "no name of a node"),
        (b'{"schema":"gpuenv.node/1","node":"n"}', "lacks taken_at"),
        (b'{"schema":"gpuenv.node/1","node":"n","taken_at":NaN}', "expected a number"),
        (b'{"schema":"gpuenv.node/1","node":"n","taken_at":1,"snapshot":{"gpus":7}}', "gpus: expected a list"),
        (
            b'{"schema":"gpuenv.node/1","node":"n","taken_at":1,"snapshot":{"x":' + b"[" * 60 + b"]" * 60 + b"}}",
            "nested more than 40 levels",
        ),
    ],
)
def test_a_bad_report_is_named_with_its_reason(data: bytes, reason: str) -> None:
    assert reason in reason_for(data)


def test_a_truncated_file_does_not_end_the_run(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "fleet", NODES)
    (folder / "node20.json").write_bytes(node_report("node20")[:40_000])
    result = gpuenv("fleet", "report", folder)
    assert result.returncode == 0, result.stderr
    assert "20 nodes: 19 fit" in result.stdout
    assert "node20.json (40000 bytes): no JSON" in result.stdout


def test_a_file_of_two_gigabytes_a_link_and_a_pipe_are_not_read(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "fleet", NODES)
    with (folder / "big.json").open("wb") as file:
        file.truncate(2 << 30)
    (folder / "link.json").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    started = time.monotonic()
    tracemalloc.start()
    partial = summarize(read_reports(folder))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.monotonic() - started < 5
    assert peak < 20_000_000
    assert sorted(partial.nodes) == sorted(NODES)
    assert {file.file: file.reason for file in partial.unreadable} == {
        "big.json": f"larger than {LARGEST} bytes",
        "link.json": "a symbolic link, which is not followed",
        "pipe.json": "not a regular file",
        "folder.json": "Is a directory",
    }
    assert next(file.size for file in partial.unreadable if file.file == "big.json") == 2 << 30


def test_the_newest_report_of_a_duplicate_counts(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "fleet", NODES)
    newer = with_finding(node_document("node7", taken_at=NOW + 9), "GPU206", "gpu-hardware-fault", "broken")
    (folder / "again.json").write_text(json.dumps(newer), encoding="utf-8")
    result = gpuenv("fleet", "report", folder)
    assert result.returncode == 1
    assert "19 nodes: 18 fit, 1 unfit" in result.stdout
    assert "Repeated: 1 node" in result.stdout
    assert result.stdout.count("node7") == 2


def test_a_damaged_archive_gives_what_is_before_the_damage(tmp_path: Path) -> None:
    archive = tmp_path / "fleet.tar"
    with tarfile.open(archive, "w") as tar:
        for name in NODES:
            info = tarfile.TarInfo(f"{name}.json")
            data = node_report(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    partial = summarize(read_reports(archive))
    assert 5 < len(partial.nodes) < len(NODES)
    assert "damaged after" in partial.unreadable[-1].reason


def test_a_zip_archive_with_invalid_names_is_read_as_far_as_possible(tmp_path: Path) -> None:
    archive = tmp_path / "fleet.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("", "a.json", "\u00e9.json"):
            file.writestr(zipfile.ZipInfo(name), node_report("a"))
    good = archive.read_bytes()
    seen = []
    for count in (0, 1, 2):  # the name is before the data, and in the list at the end
        archive.write_bytes(good.replace("\u00e9".encode(), b"\xff\xfe", count))
        seen.append([(file.name, file.reason.partition(":")[0]) for file in read_reports(archive)])
    assert seen == [
        [("a.json", ""), ("\u00e9.json", "")],
        [("a.json", ""), ("\u00e9.json", "damaged")],
        [("fleet.zip", "damaged after 0 reports")],
    ]


def test_members_that_are_no_small_files_are_not_read(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "fleet.tar", "w") as tar:
        link = tarfile.TarInfo("link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        big = tarfile.TarInfo("../big.json")
        big.size = LARGEST + 1
        tar.addfile(big, io.BytesIO(bytes(LARGEST + 1)))
    with zipfile.ZipFile(tmp_path / "fleet.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("/bomb.json", bytes(50_000_000))
        archive.writestr("good.json", node_report("good"))
    from_tar, from_zip = (summarize(read_reports(tmp_path / name)) for name in ("fleet.tar", "fleet.zip"))
    assert [(file.file, file.reason) for file in from_tar.unreadable] == [
        ("link.json", "not a regular file"),
        ("big.json", f"larger than {LARGEST} bytes"),
    ]
    assert [file.file for file in from_zip.unreadable] == ["bomb.json"]
    assert set(from_zip.nodes) == {"good"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fleet.tar", "fleet.zip"]


def test_a_hostile_report_gets_nothing_into_a_command() -> None:
    title = "x'; rm -rf / #\n$(reboot) `id` \u202e"
    documents = [
        with_finding(node_document(name), "GPU206", "gpu-hardware-fault", title)
        for name in ("n1", "n2", "$(id)", "n;a")
    ]
    files = [ReportFile(f"{number}.json", 1, json.dumps(each).encode()) for number, each in enumerate(documents)]
    fleet = analyse(summarize(files), MATRIX, FleetOptions(NOW))
    assert {node.node for node in fleet.nodes} == {"n1", "n2"}
    (command,) = slurm_commands(fleet)
    reason = "Reason=gpuenv: gpu-hardware-fault: x_; rm -rf / __x0a_(reboot) _id_ _u202e"
    assert command == f"scontrol update 'NodeName=n[1-2]' State=DRAIN '{reason}'"
    for line in kubernetes_commands(fleet):
        assert line.startswith(("# gpuenv: gpu-hardware-fault: x_", "kubectl cordon n", "kubectl drain n"))
