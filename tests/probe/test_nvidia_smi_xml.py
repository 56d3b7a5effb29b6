"""Parsing the XML and the rows of nvidia-smi."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuenv.probe.nvidia_smi import parse_gpus
from gpuenv.probe.nvidia_smi_xml import parse_xml
from gpuenv.probe.raw import ListedGpu
from tests.probe.test_nvidia_smi import H200, MIB, ROW

XML = {path.stem: path for path in (Path(__file__).parent / "samples").glob("*.xml")}
XML_VALUES = {
    "xml-r340-8800gt": ("340.102", None, "GeForce 8800 GT", "GPU-da613ba8-27bb-76b9-2c57-d36a5905478a"),
    "xml-r430-gtx1080": ("430.26", "10.2", "GeForce GTX 1080", "GPU-90e3dab0-b59d-8bf6-d909-d4fab8d2f29b"),
    "xml-r460-gtx950": ("460.56", "11.2", "GeForce GTX 950", "GPU-0738929a-d4ff-aef4-0bf1-7d4bc7d6597f"),
    "xml-r531-windows": ("531.41", "12.1", "NVIDIA GeForce RTX 3080 Ti", "GPU-63259fac-e138-76b5-a59e-9fc57a9990a4"),
}


def test_every_document_has_expected_values_and_a_source() -> None:
    assert set(XML) == set(XML_VALUES)
    sources = (Path(__file__).parent / "samples/SOURCES.md").read_text(encoding="utf-8")
    assert [name for name in XML if f"`{name}.xml`" not in sources] == []


@pytest.mark.parametrize("warning", ["", "WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n\n"])
@pytest.mark.parametrize("name", XML_VALUES)
def test_each_truncated_document_is_parsed_also_after_a_warning(name: str, warning: str) -> None:
    facts = parse_xml(warning + XML[name].read_text(encoding="utf-8"))
    assert facts is not None
    assert facts.gpus is not None
    (gpu,) = facts.gpus
    assert (facts.driver_version, facts.cuda, gpu.name, gpu.uuid) == XML_VALUES[name]


def test_a_document_with_an_entity_declaration_is_rejected() -> None:
    """As in a billion-laughs document."""
    levels = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    text = f'<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a0 "x">{levels}]>'
    assert parse_xml(f"{text}<nvidia_smi_log><driver_version>&a9;</driver_version></nvidia_smi_log>") is None


@pytest.mark.parametrize(
    "text",
    ["", "No devices were found", "<?xml", "<html><gpu id='x'/></html>", "<?xml version='1.0'?><nvidia_smi_log", "\0"],
)
def test_other_documents_have_no_facts(text: str) -> None:
    facts = parse_xml(text)
    assert facts is None or (facts.driver_version, facts.gpus) == (None, ())


@pytest.mark.parametrize("placeholder", ["N/A", "ERR!", "GPU is lost", "Unknown Error", "[N/A]", ""])
def test_an_element_without_a_value_is_unknown(placeholder: str) -> None:
    gpu = (
        f"<gpu id='{placeholder}'><product_name>{placeholder}</product_name><uuid>{placeholder}</uuid>"
        f"<fb_memory_usage><total>{placeholder}</total></fb_memory_usage></gpu>"
    )
    facts = parse_xml(
        f"<?xml version='1.0'?><nvidia_smi_log><driver_version>{placeholder}</driver_version>{gpu}</nvidia_smi_log>"
    )
    assert facts is not None
    assert (facts.driver_version, facts.gpus) == (None, (ListedGpu(0),))


@pytest.mark.long
def test_a_deeply_nested_document_is_parsed() -> None:
    deep = "<a>" * 100_000 + "</a>" * 100_000
    facts = parse_xml(f"<nvidia_smi_log>{deep}<driver_version>580.65.06</driver_version></nvidia_smi_log>")
    assert facts is not None
    assert facts.driver_version == "580.65.06"


@pytest.mark.parametrize("memory", ["9" * 5000, "-1", "\u0661", "1e5", "ERR!"])
def test_a_memory_size_that_is_not_a_number_is_unknown(memory: str) -> None:
    (gpu,) = parse_gpus(ROW.rpartition(",")[0] + f", {memory}")
    assert (gpu.memory_total, gpu.name) == (None, "NVIDIA H200")


def test_memory_sizes_in_mebibytes_are_converted_to_bytes() -> None:
    assert parse_gpus(ROW + "\n") == (H200,)


def test_blank_lines_between_rows_are_skipped() -> None:
    text = "\n".join([ROW, "", ROW.replace("0, GPU", "1, GPU", 1), "   ", ""])
    assert [gpu.number for gpu in parse_gpus(text)] == [0, 1]


def test_rows_with_windows_line_ends_are_parsed() -> None:
    assert parse_gpus(ROW + "\r\n") == (H200,)


@pytest.mark.parametrize("placeholder", ["[N/A]", "[Not Supported]", "[Unknown Error]", "[GPU is lost]", "N/A", ""])
def test_a_field_that_nvidia_smi_cannot_fill_is_unknown(placeholder: str) -> None:
    (gpu,) = parse_gpus("0" + f", {placeholder}" * 4)
    assert gpu == ListedGpu(0)


def test_a_memory_size_with_a_unit_is_parsed() -> None:
    (gpu,) = parse_gpus(ROW + " MiB")
    assert gpu.memory_total == 143771 * MIB


@pytest.mark.parametrize(
    "odd",
    [
        "index, uuid, name, pci.bus_id, memory.total [MiB]",
        "No devices were found",
        "0, GPU-1",
        ROW + ", one more",
        "x" + ROW,
        "Unable to determine the device handle for GPU0000:3A:00.0: GPU is lost.",
        pytest.param("\0"),
        pytest.param("x" * 200_000, id="long"),
    ],
)
def test_a_malformed_row_is_skipped(odd: str) -> None:
    assert parse_gpus(f"{ROW}\n{odd}\n{ROW}\n") == (H200, H200)


def test_empty_output_has_no_gpus() -> None:
    assert parse_gpus("") == ()
