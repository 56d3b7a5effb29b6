"""``nvidia-smi -q`` and ``nvidia-smi -q -x``: the same facts, complete, truncated, wrapped and damaged."""

from __future__ import annotations

import re
import time
from html import escape
from pathlib import Path

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.model.snapshot import GpuUser, Snapshot, Virtualization
from gpuenv.paste.merge import conflicts
from gpuenv.paste.reader import read_paste
from tests.paste.pasted_facts import MATRIX, primary, snapshot_of, wrong

OUTPUTS = Path(__file__).parent / "outputs"
SAMPLES = Path(__file__).parents[1] / "probe" / "samples"
XML = {path.stem: path.read_text(encoding="utf-8") for place in (OUTPUTS, SAMPLES) for path in place.glob("*.xml")}
T4, MIG, PRO = XML["xml-r515-t4"], XML["xml-r535-a100-mig"], XML["xml-r590-rtx-pro-6000"]
H200 = (OUTPUTS / "smi-q-r610-h200-mig.txt").read_text(encoding="utf-8")
EXPECTED = {
    "xml-r340-8800gt": ("340.102", None, "GeForce 8800 GT"),
    "xml-r430-gtx1080": ("430.26", "10.2", "GeForce GTX 1080"),
    "xml-r460-gtx950": ("460.56", "11.2", "GeForce GTX 950"),
    "xml-r531-windows": ("531.41", "12.1", "NVIDIA GeForce RTX 3080 Ti"),
    "xml-r515-t4": ("515.105.01", "11.7", "Tesla T4"),
    "xml-r535-a100-mig": ("535.54.03", "12.2", "NVIDIA A100-SXM4-80GB"),
    "xml-r590-rtx-pro-6000": ("590.44.01", "13.1", "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"),
}
TOO_OLD = {"xml-r340-8800gt": "gpu-too-old-for-any-driver", "xml-r430-gtx1080": "driver-too-old-for-cuda"}
OF_T4: dict[str, str | None] = {"driver.version": "515.105.01", "driver.cuda": "11.7", "gpus": "Tesla T4 7.5 15"}
MIB = 1 << 20


def test_every_output_has_its_source() -> None:
    sources = (OUTPUTS / "SOURCES.md").read_text(encoding="utf-8")
    names = {path.name for path in OUTPUTS.iterdir()} - {"SOURCES.md"}
    assert sorted(re.findall(r"^\| `([\w.-]+)`", sources, re.MULTILINE)) == sorted(names)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_document_of_each_release_is_read(name: str) -> None:
    assert set(XML) == set(EXPECTED)
    (gpu,) = snapshot_of(XML[name]).gpus
    driver, cuda, product = EXPECTED[name]
    assert gpu.name.value == product
    assert wrong(XML[name], {"driver.version": driver, "driver.cuda": cuda or None}) == {} or cuda is None
    assert primary(XML[name]) == TOO_OLD.get(name)


def test_all_facts_of_a_gpu_are_read_from_a_document() -> None:
    (gpu,) = snapshot_of(T4).gpus
    assert (gpu.uuid.value, gpu.pci.value) == ("GPU-00000000-0000-0000-0000-000000000515", "00000000:00:1E.0")
    assert (gpu.memory_total.value, gpu.memory_free.value) == (15360 * MIB, (15360 - 1032) * MIB)
    assert (gpu.persistence.value, gpu.virtualization.value) == (False, Virtualization.PASSTHROUGH)
    assert (gpu.mig.value, gpu.compute_mode.value) == (None, "default")
    assert (gpu.processes.value, gpu.users) == (1, (GpuUser(7372, "ffmpeg", 1028 * MIB),))
    health = gpu.health
    assert (health.ecc.value, health.ecc_pending.value, health.ecc_uncorrected.value) == (True, True, 0)
    assert (health.temperature.value, health.clock.value, health.clock_most.value) == (40, 585, 1590)
    assert (health.pages_pending.value, health.rows_pending.value, health.throttle_reasons.value) == (False, None, None)


def test_memory_without_error_correction_has_no_error_count() -> None:
    (gpu,) = snapshot_of(PRO).gpus
    assert (gpu.health.ecc.value, gpu.health.ecc_uncorrected.value) == (False, None)
    assert (gpu.health.rows_pending.value, gpu.health.rows_failed.value, gpu.fabric.state.value) == (False, False, None)


@pytest.mark.parametrize(
    ("text", "memory", "count"), [pytest.param(MIG, 80, 4, id="XML"), pytest.param(H200, 140, 1, id="at length")]
)
def test_mig_instances_are_not_gpus(text: str, memory: int, count: int) -> None:
    snapshot = snapshot_of(text)
    (gpu,) = snapshot.gpus
    assert round((gpu.memory_total.value or 0) / 2**30) == memory
    assert (gpu.mig.value, gpu.health.ecc_uncorrected.value is None) == (True, text == H200)
    assert snapshot.gpu_count.value == count, "the list was cut off, and says how many there are"
    cut = text[: text.index("81920") if text == MIG else text.index("143771")]
    assert snapshot_of(cut).gpus[0].memory_total.value is None, "that of an instance is not its GPU's"
    assert primary(text) is None


def test_mig_mode_without_an_instance_is_misconfigured() -> None:
    complete = re.sub(r"(?s)<mig_devices>.*</mig_devices>", "<mig_devices>\nNone\n</mig_devices>", MIG)
    assert primary(complete) == "mig-misconfigured"
    two_gpus = complete.replace("</nvidia_smi_log>", MIG[MIG.index("    <gpu id") :].replace(":01:00.0", ":02:00.0"))
    assert primary(two_gpus) is None


ROWS = """\
GPU 00000000:10:1C.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable            : 0
            DRAM Correctable              : 177
            DRAM Uncorrectable            : {errors}
        Aggregate
            SRAM Uncorrectable            : 8
            DRAM Uncorrectable            : 9
    Retired Pages
        Single Bit ECC                    : N/A
        Double Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 1
        Uncorrectable Error               : 0
        Pending                           : {pending}
        Remapping Failure Occurred        : {failed}
        Bank Remap Availability Histogram
            Max                           : 639 bank(s)
"""
OLD_ROWS = """\
GPU 00000000:06:00.0
    Product Name                    : Tesla V100-SXM2-16GB
    Ecc Mode
        Current                     : Enabled
        Pending                     : Enabled
    ECC Errors
        Volatile
            Single Bit
                Device Memory       : 4
                Total               : 4
            Double Bit
                Device Memory       : {0}
                Total               : {0}
        Aggregate
            Double Bit
                Device Memory       : 7
                Total               : 7
    Retired Pages
        Single Bit ECC              : 0
        Double Bit ECC              : 1
        Pending                     : {1}
"""


@pytest.mark.parametrize(
    ("text", "errors", "code"),
    [
        (ROWS.format(errors=0, pending="No", failed="No"), 0, None),
        (ROWS.format(errors=0, pending="Yes", failed="No"), 0, "GPU206"),
        (ROWS.format(errors=0, pending="No", failed="Yes"), 0, "GPU206"),
        (ROWS.format(errors=3, pending="No", failed="No"), 3, "GPU206"),
        (OLD_ROWS.format(0, "No"), 0, None),
        (OLD_ROWS.format(2, "No"), 2, "GPU206"),
        (OLD_ROWS.format(0, "Yes"), 0, "GPU206"),
        (T4.replace("<dram_uncorrectable>0", "<dram_uncorrectable>2", 1), 2, "GPU206"),
        (T4.replace("<pending_blacklist>No", "<pending_blacklist>Yes"), 0, "GPU206"),
        (PRO.replace("<remapped_row_failure>No", "<remapped_row_failure>Yes"), None, "GPU206"),
        (T4.replace("hw_thermal_slowdown>Not Active", "hw_thermal_slowdown>Active"), 0, "GPU210"),
        (H200.replace("Slowdown                        : Not Active", "Slowdown                        : Active", 1), None, "GPU210"),
        (T4.replace(">Default<", ">Exclusive_Process<"), 0, "GPU205"),
        (PRO.replace(">Default<", ">Exclusive_Process<"), None, None),
        (PRO.replace(">Default<", ">Prohibited<"), None, "GPU205"),
    ],
)  # fmt: skip
def test_the_reported_health_is_judged(text: str, errors: int | None, code: str | None) -> None:
    snapshot = snapshot_of(text)
    assert snapshot.gpus[0].health.ecc_uncorrected.value == errors
    findings = diagnose(snapshot, MATRIX, lambda: 0.0).findings
    of_the_gpu = {finding.code for finding in findings} & {"GPU205", "GPU206", "GPU210"}
    assert of_the_gpu == ({code} if code else set())


VGPU = (OUTPUTS / "smi-q-r535-vgpu-a6000.txt").read_text(encoding="utf-8")
SETTINGS = """\
GPU 00000000:10:1C.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    MIG Mode
        Current                           : Disabled
        Pending                           : {pending}
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : 1
                Device Current            : 4
            Link Width
                Max                       : 16x
                Current                   : {width}
    GPU Power Readings
        Current Power Limit               : {limit} W
        Requested Power Limit             : {limit} W
        Default Power Limit               : 400.00 W
    Module Power Readings
        Current Power Limit               : 90.00 W
        Default Power Limit               : 2000.00 W
"""
OLD_POWER = """\
    Power Readings
        Power Limit                       : {limit} W
        Default Power Limit               : 400.00 W
        Enforced Power Limit              : {limit} W
"""
OLD_SETTINGS = SETTINGS[: SETTINGS.index("    GPU Power")] + OLD_POWER
XML_SETTINGS = """\
<nvidia_smi_log>
<gpu id="00000000:10:1C.0">
<product_name>NVIDIA A100-SXM4-80GB</product_name>
<mig_mode><current_mig>Disabled</current_mig><pending_mig>{pending}</pending_mig></mig_mode>
<pci><pci_gpu_link_info>
<pcie_gen><max_link_gen>4</max_link_gen><current_link_gen>1</current_link_gen></pcie_gen>
<link_widths><max_link_width>16x</max_link_width><current_link_width>{width}</current_link_width></link_widths>
</pci_gpu_link_info></pci>
<gpu_power_readings><current_power_limit>{limit} W</current_power_limit>
<default_power_limit>400.00 W</default_power_limit></gpu_power_readings>
<module_power_readings><current_power_limit>90.00 W</current_power_limit>
<default_power_limit>2000.00 W</default_power_limit></module_power_readings>
</gpu>
</nvidia_smi_log>
"""
CORRUPT = "WARNING: infoROM is corrupted at gpu 0000:10:1C.0\n"


@pytest.mark.parametrize("text", [SETTINGS, OLD_SETTINGS, XML_SETTINGS], ids=["R535", "before R535", "XML"])
@pytest.mark.parametrize(
    ("pending", "width", "limit", "warning", "code"),
    [
        ("Disabled", "16x", "400.00", "", None),
        ("Enabled", "16x", "400.00", "", "GPU213"),
        ("Disabled", "4x", "400.00", "", "GPU214"),
        ("Disabled", "16x", "150.00", "", "GPU215"),
        ("Disabled", "16x", "400.00", CORRUPT, "GPU217"),
        ("Disabled", "16x", "400.00", CORRUPT.replace("10:1C", "10:1D"), None),
        ("N/A", "N/A", "N/A", "", None),
    ],
)
def test_the_settings_of_a_gpu_are_judged(
    text: str, pending: str, width: str, limit: str, warning: str, code: str | None
) -> None:
    snapshot = snapshot_of(text.format(pending=pending, width=width, limit=limit) + warning)
    (gpu,) = snapshot.gpus
    assert (gpu.pcie.generation.value, gpu.pcie.generation_most.value, gpu.pcie.width_most.value) == (1, 4, 16)
    assert gpu.health.power_limit_default.value == 400.0
    assert health_codes(snapshot) == ({code} if code else set())


def health_codes(snapshot: Snapshot) -> set[str]:
    findings = diagnose(snapshot, MATRIX, lambda: 0.0).findings
    return {finding.code for finding in findings} & {"GPU213", "GPU214", "GPU215", "GPU216", "GPU217"}


@pytest.mark.parametrize(
    ("status", "licensed"),
    [
        ("Unlicensed", False),
        ("Unlicensed (Unrestricted)", False),
        ("Licensed (Expiry: 2026-7-7 16:1:44 GMT)", True),
        ("N/A", None),
    ],
)
def test_the_licence_of_a_virtual_gpu_is_read(status: str, licensed: bool | None) -> None:  # noqa: FBT001 - a table
    product = "<licensed_product_name>NVIDIA RTX Virtual Workstation</licensed_product_name>"
    of_xml = (
        '<nvidia_smi_log>\n<gpu id="00000000:00:10.0">\n<product_name>NVIDIA RTXA6000-24Q</product_name>\n'
        "<gpu_virtualization_mode><virtualization_mode>VGPU</virtualization_mode></gpu_virtualization_mode>\n"
        f"<vgpu_software_licensed_product>{product}<license_status>{status}</license_status>"
        "</vgpu_software_licensed_product>\n</gpu>\n</nvidia_smi_log>\n"
    )
    for text in (VGPU.replace("Unlicensed", status), of_xml):
        snapshot = snapshot_of(text)
        assert (snapshot.gpus[0].name.value, snapshot.gpus[0].licensed.value) == ("NVIDIA RTXA6000-24Q", licensed)
        assert health_codes(snapshot) == ({"GPU216"} if licensed is False else set())


def test_the_table_names_the_gpu_whose_inforom_is_corrupt() -> None:
    row = "|   {0}  NVIDIA A100-SXM4-80GB   On   | 00000000:1{0}:1C.0 Off |                   On |\n"
    snapshot = snapshot_of(row.format(0) + row.format(1) + CORRUPT)
    assert [gpu.health.inforom_valid.value for gpu in snapshot.gpus] == [False, None]


def test_graphics_processes_are_not_compute_processes() -> None:
    process = "    Processes\n        GPU instance ID                   : N/A\n        Process ID : 1200\n            Type                          : {}\n            Name                          : {}\n            Used GPU Memory               : 61 MiB\n"
    begin = H200 + process.format("G", "/usr/lib/xorg/Xorg")
    assert snapshot_of(begin).gpus[0].users == ()
    (user,) = snapshot_of(begin + process.format("C+G", r"C:\Users\Alice\My Tools\python.exe")).gpus[0].users
    assert user == GpuUser(1200, "python.exe", 61 * MIB)
    assert snapshot_of(H200).gpus[0].processes.value is None, "their absence is not reported"
    assert snapshot_of(H200 + "    Processes                             : None\n").gpus[0].processes.value == 0


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"It says:\n\n```xml\n{T4}```\n\nand nothing else.\n", id="a fence"),
        pytest.param("".join(f"> {line}\n" for line in T4.splitlines()), id="quoted"),
        pytest.param(" ".join(T4.split()), id="folded into a line"),
        pytest.param(re.sub(r">\s+<", "><", T4), id="without a blank"),
        pytest.param(escape(T4), id="HTML"),
        pytest.param(T4.replace(">", "&gt;").replace("    ", "&nbsp; &nbsp; "), id="half of it HTML"),
        pytest.param(f"<pre><code>{escape(T4)}</code></pre>", id="pre"),
        pytest.param(T4[T4.index("<driver") :].replace("<driver", "<nvidia_smi_log><driver"), id="without its head"),
        pytest.param(T4.replace("\n", "\r\n"), id="Windows"),
        pytest.param(T4.replace("ffmpeg", "a & b < c \ufffe"), id="a name that is not XML"),
        pytest.param(T4.replace('v11.dtd">', 'v11.dtd" [\n<!ENTITY a "b">\n<!ELEMENT gpu ANY>\n]>'), id="--dtd"),
    ],
)
def test_text_around_a_document_changes_no_fact(text: str) -> None:
    assert wrong(text, OF_T4) == {}
    (gpu,) = snapshot_of(text).gpus
    assert (gpu.health.ecc_uncorrected.value, gpu.processes.value) == (0, 1)


def test_a_document_truncated_anywhere_has_fewer_facts_and_no_others() -> None:
    complete = snapshot_of(T4)
    for end in range(0, len(T4), 97):
        cut = snapshot_of(T4[:end])
        assert cut.driver.version.value in (None, complete.driver.version.value)
        for gpu in cut.gpus:
            assert gpu.name.value in (None, "Tesla T4")
            assert gpu.memory_total.value in (None, 15360 * MIB)
            assert gpu.health.ecc_uncorrected.value in (None, 0)
    for begin in range(0, len(T4), 97):
        snapshot_of(T4[begin:])


def test_after_an_omission_the_next_gpu_is_read() -> None:
    second = T4[T4.index("    <gpu id") :].replace("00:1E.0", "00:1F.0").replace("Tesla T4", "Tesla V100-PCIE-32GB")
    text = T4[: T4.index("<fb_memory_usage>")] + "[... cut ...]\n" + second
    assert wrong(text, {"driver.version": "515.105.01", "gpus": "Tesla T4 7.5 ?; Tesla V100-PCIE-32GB 7.0 15"}) == {}


def test_entities_are_not_expanded_and_files_not_fetched() -> None:
    levels = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">\n' for n in range(1, 10))
    text = f'<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a0 "x">{levels}<!ENTITY f SYSTEM "file:///etc/passwd">]>\n'
    entities = "<product_name>&a9;</product_name>\n<uuid>&f;</uuid>\n"
    snapshot = snapshot_of(
        f'{text}<nvidia_smi_log>\n<gpu id="00000000:01:00.0">\n{entities}</gpu>\n</nvidia_smi_log>\n'
    )
    (gpu,) = snapshot.gpus
    assert (gpu.name.value, gpu.uuid.value) == ("&a9;", "&f;")


@pytest.mark.parametrize(
    "unit",
    [
        "<nvidia_smi_log>",
        "<nvidia_smi_log>\n",
        '<gpu id="00000000:01:00.0">\n',
        "<nvidia_smi_log>\n<a>\n",
        "<a>" * 100 + "\n",
        "</gpu>\n",
        '<gpu id="0"><uuid>x</uuid></gpu>\n',
        "<nvidia_smi_log " + "<" * 500 + "\n",
        "GPU 00000000:01:00.0\n    Product Name   : x\n",
        "| NVIDIA-SMI 1 |" + "| " * 400 + "\n",
        "| NVIDIA-SMI 1 |" + "|" * 4000 + "\n",
    ],
)
def test_a_hostile_paste_is_read_in_bounded_time(unit: str) -> None:
    text = "<nvidia_smi_log>\n" + unit * (300_000 // len(unit))
    begin = time.process_time()
    read_paste(text)
    assert time.process_time() - begin < 2


def test_a_list_of_some_gpus_completes_the_list_of_all() -> None:
    """``nvidia-smi -q -i 1`` next to the table, or a document truncated after its first GPU."""
    row = "|   {0}  NVIDIA A100-SXM4-80GB   On   | 00000000:0{1}:00.0 Off |                   On |\n"
    table = "".join(row.format(number, number + 1) for number in range(4))
    pasted = read_paste(MIG + table)
    snapshot = snapshot_of(MIG + table)
    assert [gpu.uuid.known for gpu in snapshot.gpus] == [True, False, False, False]
    assert snapshot.gpus[0].health.temperature.value == 27
    assert not [entry for entry in conflicts(pasted) if entry.fact == "GPUs"]
    assert [entry.fact for entry in conflicts(read_paste(T4 + table))] == ["GPUs"], "that one is whole"


@pytest.mark.parametrize(
    ("states", "cause"),
    [
        (("In Progress", "In Progress"), "fabric-manager-not-running"),
        (("Not Started", "In Progress"), "fabric-manager-not-running"),
        (("Completed", "Completed"), None),
        (("Completed", "In Progress"), None),
        (("N/A", "N/A"), None),
        (("In Progress", "N/A"), None),
    ],
)
@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe"])
def test_gpus_that_wait_for_their_fabric_lack_the_fabric_manager(
    states: tuple[str, str], cause: str | None, name: str
) -> None:
    at_length = "Driver Version                : 580.95.05\nCUDA Version                  : 13.0\n"
    gpu = (
        "GPU 00000000:0{0}:00.0\n    Product Name              : {1}\n    Fabric\n        State                 : {2}\n"
    )
    text = at_length + "".join(gpu.format(number, name, state) for number, state in enumerate(states))
    of_xml = '<gpu id="00000000:0{0}:00.0"><product_name>{1}</product_name><fabric><state>{2}</state></fabric></gpu>'
    xml = "".join(of_xml.format(number, name, state) for number, state in enumerate(states))
    expected = cause if "HBM3" in name else None
    assert primary(text) == primary(f"<nvidia_smi_log>{xml}</nvidia_smi_log>") == expected


@pytest.mark.parametrize("number", ["0", "card0", ""])
def test_an_element_of_another_program_is_not_a_gpu(number: str) -> None:
    other = f'<gpus>\n<gpu id="{number}"><name>AMD Radeon RX 7900 XTX</name></gpu>\n</gpus>\n'
    assert snapshot_of(other).gpus == ()
    assert [gpu.name.value for gpu in snapshot_of(T4 + other).gpus] == ["Tesla T4"]
