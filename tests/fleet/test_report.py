"""``gpuenv fleet report`` and ``resolve``: groups, what differs, who forces what, and who is missing."""

from __future__ import annotations

import json
import subprocess
import tarfile
import xml.etree.ElementTree as ET
import zipfile
from typing import TYPE_CHECKING

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpuenv.fleet.analysis import FleetOptions, analyse
from gpuenv.fleet.groups import Partial, merge, summarize, with_pseudonyms
from gpuenv.fleet.html import render as html_page
from gpuenv.fleet.reader import ReportFile, read_files, report_paths
from gpuenv.fleet.text import fleet_lines
from gpuenv.model.codec import decode, encode
from gpuenv.model.documents import Fleet
from gpuenv.model.json_schema import json_schema
from tests.cli.program import PROGRAM, gpuenv
from tests.fleet.node_reports import HEALTHY, NOW, node_document, node_report, with_finding, write_nodes
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def partial_of(reports: Iterable[bytes]) -> Partial:
    return summarize(ReportFile(f"{number}.json", len(data), data) for number, data in enumerate(reports))


def fleet_of(reports: Iterable[bytes], max_age: float | None = None) -> Fleet:
    return analyse(partial_of(reports), MATRIX, FleetOptions(NOW, max_age))


def text_of(fleet: Fleet) -> str:
    return "\n".join(line.text for line in fleet_lines(fleet))


@pytest.fixture(scope="module")
def with_one_t4() -> Fleet:
    """998 healthy nodes and one T4 on R470."""
    nodes = [node_report(f"node{number:04d}", "l4-550", number) for number in range(1, 999)]
    return fleet_of([*nodes, node_report("t4-old", "t4-470")])


def test_nodes_that_differ_in_identity_and_momentary_values_are_one_group() -> None:
    fleet = fleet_of(node_report(f"node{number}", number=number) for number in range(20))
    (group,) = fleet.groups
    assert len(group.nodes) == 20
    assert fleet.exit_code == 0
    assert fleet.answered == fleet.asked == 20


def reading(value: object) -> dict[str, object]:
    return {"value": value, "source": "nvml", "others": [], "reason": None}


@pytest.mark.parametrize(
    ("part", "name", "usual", "odd", "fact"),
    [
        ("driver", "version", "550.54.15", "535.104.05", "driver.version"),
        ("host", "kernel", "6.1.0-1", "6.1.0-99", "host.kernel"),
        ("gpu", "power_limit", 700.0, 350.0, "gpus[].health.power_limit"),
        ("host", "suspends", 1, 2, None),
        ("gpu", "ecc_corrected", 0, 5, None),
    ],
)
def test_a_node_that_differs_in_what_matters_is_an_outlier(
    part: str, name: str, usual: object, odd: object, fact: str | None
) -> None:
    documents = [node_document(f"node{number}") for number in range(3)]
    for number, document in enumerate(documents):
        snapshot = document["snapshot"]
        record = snapshot["gpus"][0]["health"] if part == "gpu" else snapshot[part]
        record[name] = reading(odd if number == 0 else usual)
    groups = fleet_of(json.dumps(document).encode() for document in documents).groups
    if fact is None:
        assert len(groups) == 1
        return
    large, small = groups
    assert small.nodes == ("node0",)
    assert small.nearest == large.name
    assert fact in {difference.fact for difference in small.differences}


def test_one_lost_gpu_makes_an_outlier_and_says_so() -> None:
    documents = [node_document(f"node{number}") for number in range(5)]
    documents[0]["snapshot"]["gpus"].pop()
    large, small = fleet_of(json.dumps(document).encode() for document in documents).groups
    assert (len(large.nodes), small.nodes) == (4, ("node0",))
    assert [entry for entry in small.differences if entry.fact == "gpus"]


def test_the_t4_that_forces_999_nodes_is_named(with_one_t4: Fleet) -> None:
    (answer,) = with_one_t4.answers
    assert answer.candidate.name == "cupy-cuda11x"
    assert len(answer.machines) == 999
    assert with_one_t4.preferred is not None
    assert with_one_t4.preferred.candidate.name == "cupy-cuda12x"
    assert len(with_one_t4.preferred.machines) == 998
    (forcing,) = with_one_t4.forcing
    assert forcing.machines == ("t4-old",)
    assert "470" in forcing.rejections[0].found
    text = text_of(with_one_t4)
    assert "1 node forces cupy-cuda11x" in text
    assert "t4-old" in text
    assert "serves 998 of them" in text


def test_resolve_names_the_machine_that_forces_the_others(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "fleet", ["a1", "a2", "a3"])
    (folder / "t4.json").write_bytes(node_report("t4", "t4-470"))
    result = gpuenv("fleet", "resolve", folder)
    assert result.returncode == 0, result.stderr
    assert "1 wheel serves all 4 nodes" in result.stdout
    assert "serves 3 of them" in result.stdout
    assert "1 node forces cupy-cuda11x" in result.stdout
    assert "image " in result.stdout


def test_the_text_folds_names_and_fits_eighty_columns_of_ascii(with_one_t4: Fleet) -> None:
    lines = [line.text for line in fleet_lines(with_one_t4)]
    assert any("node[0001-0998]" in line for line in lines)
    assert len(lines) <= 100
    assert max(map(len, lines)) <= 80
    assert all(line.isascii() for line in lines)


def test_a_fleet_of_many_kinds_and_faults_fits_a_hundred_lines() -> None:
    reports = []
    for number in range(160):
        document = node_document(f"n{number * 7:05d}-x{number}", number=number)
        document["snapshot"]["host"]["kernel"] = reading(f"6.{number % 23}")
        if number % 2:
            code = f"GPU{200 + number % 60}"
            cause = ("gpu-hardware-fault", "cupy-not-installed")[number % 4 == 1]
            document = with_finding(document, code, cause, f"fault {number % 60} " + "of many words " * 20)
        reports.append(json.dumps(document).encode())
    partial = partial_of([*reports, b"", b"x", b"{}", b"[]", b"1", node_report("n00000-x0")])
    lines = [line.text for line in fleet_lines(analyse(partial, MATRIX, FleetOptions(NOW)))]
    assert len(lines) <= 100
    assert max(len(line) for line in lines if "$ " not in line) <= 80


def test_a_broken_gpu_is_drained_and_a_broken_environment_is_not() -> None:
    broken = with_finding(node_document("n1"), "GPU206", "gpu-hardware-fault", "GPU 3 has failed")
    unready = with_finding(node_document("n2"), "WHL101", "cupy-not-installed", "CuPy is not installed")
    busy = with_finding(node_document("n3"), "GPU301", "gpu-busy", "Other processes use the GPU")
    fleet = fleet_of(json.dumps(each).encode() for each in (broken, unready, busy, node_document("n4")))
    (drained,) = fleet.drain
    assert drained.nodes == ("n1",)
    assert {entry.nodes for entry in fleet.findings} == {("n1",), ("n2",), ("n3",)}
    assert fleet.exit_code == 1


def test_half_of_the_nodes_silent_is_exit_code_8(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "fleet", [f"node{number:02d}" for number in range(1, 6)])
    assert gpuenv("fleet", "report", folder).returncode == 0
    result = gpuenv("fleet", "report", folder, "--expect", "node[01-10]")
    assert result.returncode == 8, result.stdout
    assert "node[06-10]" in result.stdout
    assert "Only 5 of 10 nodes" in result.stdout
    assert gpuenv("fleet", "report", folder, "--expect", "node[01-10]", "--quorum", "0.5").returncode == 0


def test_a_long_list_of_expected_nodes_is_not_taken_for_a_file(tmp_path: Path) -> None:
    expected = ",".join(f"gpu-{number:03d}.rack.example" for number in range(300))
    folder = write_nodes(tmp_path / "fleet", expected.split(",")[:290])
    result = gpuenv("fleet", "report", folder, "--expect", expected)
    assert result.returncode == 0, result.stderr
    assert "300 nodes: 290 fit" in result.stdout


def test_the_record_of_a_collection_says_who_is_silent_although_an_old_report_is_there(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "fleet", ["a", "b", "drained"])
    record = {
        "schema": "gpuenv.collection/1",
        "started_at": NOW + 60,
        "nodes": ["a", "b", "c", "drained"],
        "silent": [{"node": "b", "reason": "no answer within 30 s"}, {"node": "c", "reason": "no route to c"}],
    }
    (folder / "_collection.json").write_text(json.dumps(record), encoding="utf-8")
    (folder / "a.json").write_bytes(node_report("a", taken_at=NOW + 61))
    fleet = analyse(summarize(read_files(report_paths(folder))), MATRIX, FleetOptions(NOW + 100))
    assert [(entry.node, entry.reason) for entry in fleet.silent] == [
        ("b", "no answer within 30 s"),
        ("c", "no route to c"),
    ]
    assert {node.node for node in fleet.nodes} == {"a", "drained"}
    assert (fleet.asked, fleet.answered, fleet.exit_code) == (4, 2, 8)


def test_a_fleet_without_an_examined_node_is_reported(tmp_path: Path) -> None:
    failure = {"schema": "gpuenv.node/1", "node": "n1", "taken_at": NOW, "run": None, "exit_code": 6}
    failure |= {"snapshot": None, "report": None, "error": "the matrix is invalid"}
    (tmp_path / "n1.json").write_text(json.dumps(failure), encoding="utf-8")
    result = gpuenv("fleet", "report", tmp_path)
    assert result.returncode == 8, result.stderr
    assert "Failed: 1 node: the matrix is invalid" in result.stdout
    assert "No node was examined." in result.stdout


def test_stale_and_failed_answers_do_not_count() -> None:
    failed = json.dumps({"schema": "gpuenv.node/1", "node": "n3", "taken_at": NOW, "run": None, "exit_code": 8,
                         "snapshot": None, "report": None, "error": "the driver hangs"}).encode()  # fmt: skip
    reports = [node_report("n1"), node_report("n2", taken_at=NOW - 90_000), failed]
    fleet = fleet_of(reports, max_age=86_400)
    assert fleet.stale == ("n2",)
    assert (fleet.asked, fleet.answered, fleet.exit_code) == (3, 1, 8)
    assert "Failed: 1 node: the driver hangs" in text_of(fleet)


def test_partitions_merge_to_the_same_analysis() -> None:
    reports = [node_report(f"n{number}", (HEALTHY, "t4-470")[number % 3 == 0], number) for number in range(12)]
    reports.append(node_report("n3", number=3, taken_at=NOW + 5))
    files = [ReportFile(f"{number}.json", len(data), data) for number, data in enumerate(reports)]
    whole = analyse(summarize(files), MATRIX, FleetOptions(NOW))
    parts = [summarize(files[start : start + 4]) for start in range(0, len(files), 4)]
    assert analyse(merge(parts), MATRIX, FleetOptions(NOW)) == whole
    assert whole.repeated == ("n3",)
    assert next(node for node in whole.nodes if node.node == "n3").taken_at == NOW + 5


def test_every_format_is_read_by_its_reader(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "fleet", ["a1", "a2"])
    bad = with_finding(node_document("b"), "GPU206", "gpu-hardware-fault", 'A "<b>&" GPU')
    (folder / "b.json").write_text(json.dumps(bad), encoding="utf-8")
    files = {form: tmp_path / f"fleet.{form}" for form in ("json", "html", "junit", "prometheus")}
    formats = [word for form, file in files.items() for word in ("--format", f"{form}={file}")]
    result = gpuenv("fleet", "report", folder, "--expect", "a[1-3],b", *formats)
    assert result.returncode == 1, result.stderr
    document = json.loads(files["json"].read_text(encoding="utf-8"))
    assert document["schema"] == "gpuenv.fleet/1"
    assert decode(Fleet, document).exit_code == 1
    jsonschema.validate(document, json_schema(Fleet, "gpuenv.fleet/1"))
    page = files["html"].read_text(encoding="utf-8")
    assert "A &quot;&lt;b&gt;&amp;&quot; GPU" in page
    assert "<script" not in page
    suite = ET.parse(files["junit"]).getroot()  # noqa: S314 - our own file
    cases = {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}
    assert cases == {"a1": [], "a2": [], "b": ["failure"], "a3": ["error"]}
    families = text_string_to_metric_families(files["prometheus"].read_text(encoding="utf-8"))
    fit = {s.labels["node"]: s.value for f in families if f.name == "gpuenv_node_fit" for s in f.samples}
    assert fit == {"a1": 1.0, "a2": 1.0, "b": 0.0}


def test_an_archive_and_a_stream_give_the_same_answer_as_the_folder(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "fleet", [f"n{number}" for number in range(1, 4)])
    with tarfile.open(tmp_path / "fleet.tgz", "w:gz") as tar:
        tar.add(folder, "fleet")
    with zipfile.ZipFile(tmp_path / "fleet.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in folder.iterdir():
            archive.write(path, f"fleet/{path.name}")
    expected = gpuenv("fleet", "report", folder).stdout
    assert "3 nodes: 3 fit" in expected
    assert gpuenv("fleet", "report", tmp_path / "fleet.tgz").stdout == expected
    assert gpuenv("fleet", "report", tmp_path / "fleet.zip").stdout == expected
    lines = b"".join(path.read_bytes() + b"\n" for path in sorted(folder.iterdir()))
    for stream in (lines, (tmp_path / "fleet.tgz").read_bytes()):
        answer = subprocess.run([*PROGRAM, "fleet", "report", "-"], input=stream, capture_output=True, check=True)
        assert answer.stdout.decode() == expected


def test_a_damaged_standard_input_is_called_by_that_name() -> None:
    command = [*PROGRAM, "fleet", "report", "-"]
    result = subprocess.run(command, input="junk", capture_output=True, check=False, text=True, timeout=30)
    assert "\n  standard input (4 bytes): damaged after 0 reports: " in result.stdout


def test_a_closed_standard_input_is_a_usage_error() -> None:
    command = ["sh", "-c", '"$@" <&-', "sh", *PROGRAM, "fleet", "report", "-"]
    result = subprocess.run(command, capture_output=True, check=False, text=True, timeout=30)
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    assert "standard input is closed" in result.stderr


def test_redacted_reports_have_numbers_for_names() -> None:
    failed = with_finding(node_document("secret-b2"), "GPU206", "gpu-hardware-fault", "GPU of secret-b2 has failed")
    partial = partial_of([node_report("secret-a1"), json.dumps(failed).encode(), b"x"])
    fleet = analyse(with_pseudonyms(partial), MATRIX, FleetOptions(NOW))
    assert "secret" not in json.dumps(encode(fleet))
    assert "secret" not in html_page(fleet)
    assert "GPU of node2 has failed" in text_of(fleet)


def test_a_node_whose_file_cannot_be_read_is_one_node_under_its_pseudonym_too(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "fleet", [f"n{number}" for number in range(1, 20)])
    (folder / "n20.json").write_bytes(node_report("n20")[:30_000])
    command = ("fleet", "report", folder, "--expect", "n[1-20]")
    open_result, hidden_result = gpuenv(*command), gpuenv(*command, "--redact")
    assert "n20" not in hidden_result.stdout
    for result in (open_result, hidden_result):
        assert "20 nodes: 19 fit, 1 silent" in result.stdout
        assert result.returncode == 0


def test_a_folder_without_reports_and_wrong_options_are_usage_errors(tmp_path: Path) -> None:
    assert gpuenv("fleet", "report", tmp_path).returncode == 2
    assert gpuenv("fleet", "report", tmp_path / "none").returncode == 2
    folder = write_nodes(tmp_path / "fleet", ["a"])
    for options in (["--expect", "a["], ["--max-age", "soon"], ["--via", "dask"], ["--format", "sarif"]):
        result = gpuenv("fleet", "report", folder, *options)
        assert result.returncode == 2, result.stdout
        assert options[-1] in result.stderr
