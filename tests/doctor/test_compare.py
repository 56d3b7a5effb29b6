"""Comparison of two machines: the difference that explains a failure comes first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuenv.doctor.compare import compare
from gpuenv.matrix.assume import assume
from gpuenv.model.causes import Cause
from gpuenv.model.documents import Comparison
from gpuenv.model.finding import Finding
from gpuenv.model.reading import known
from gpuenv.model.snapshot import ComputeMode, DeviceNode, Gpu, KernelMessage, Snapshot, Toolkit
from gpuenv.model.versions import CudaVersion, DriverVersion
from gpuenv.paste.partial_snapshot import to_snapshot
from gpuenv.paste.reader import read_paste
from gpuenv.report.snapshot_text import difference_lines
from tests.cli.snapshots import FIT, UUID, WITHOUT_GPU
from tests.support.diagnosis import diagnosis_of
from tests.support.matrix import MATRIX

OLDER = known(CudaVersion.parse("12.4"), "version.json")


def findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    return diagnosis_of(snapshot).findings


def compare_machines(there: Snapshot, here: Snapshot) -> Comparison:
    return compare(there, here, findings(there), findings(here))


def healthy_except(*options: str) -> Snapshot:
    """The healthy machine with some facts replaced."""
    return assume(FIT, options, MATRIX)._replace(assumed=())


def test_a_machine_does_not_differ_from_itself() -> None:
    comparison = compare_machines(FIT, FIT)
    assert comparison.differences == ()
    assert comparison.findings == ()
    assert comparison.try_first == ()
    assert comparison.compared > 20


@pytest.mark.parametrize(
    ("facts", "first", "cause"),
    [
        (("driver=470.82.01",), {"driver.version", "driver.cuda", "driver.branch"}, Cause.DRIVER_TOO_OLD_FOR_CUDA),
        (("env.CUDA_VISIBLE_DEVICES=-1",), {"environment.CUDA_VISIBLE_DEVICES"}, Cause.VISIBLE_DEVICES_HIDE_GPU),
        (("cupy=none",), {"target.cupy"}, Cause.CUPY_NOT_INSTALLED),
        (("numpy=1.26.4",), {"target.numpy", "target.packages.numpy"}, Cause.NUMPY_INCOMPATIBLE),
    ],
)
def test_a_difference_behind_a_new_finding_comes_first(facts: tuple[str, ...], first: set[str], cause: Cause) -> None:
    noise = ("env.PYTHONPATH=/somewhere", "package.scipy=1.14.0", "toolkit=11.8")
    comparison = compare_machines(FIT, healthy_except(*facts, *noise))
    assert comparison.differences[0].fact in first, comparison.differences[:4]
    assert cause in {finding.cause for finding in comparison.findings}
    assert comparison.try_first
    shares = [difference.likelihood for difference in comparison.differences]
    assert shares == sorted(shares, reverse=True)


def test_the_likeliest_difference_comes_first_without_a_finding() -> None:
    comparison = compare_machines(FIT, healthy_except("package.torch=2.9.0", "env.PYTHONPATH=/somewhere"))
    assert comparison.findings == ()
    (step,) = comparison.try_first
    assert step.shell_line == "unset PYTHONPATH"
    assert {difference.fact for difference in comparison.differences} == {
        "target.packages.torch",
        "environment.PYTHONPATH",
    }


def test_identifiers_and_momentary_values_are_not_differences() -> None:
    (gpu, *rest) = FIT.gpus
    other_machine_gpu = gpu._replace(
        uuid=known("GPU-00000000-1111-2222-3333-444444444444", "nvml"),
        pci=known("00000000:C1:00.0", "nvml"),
        memory_free=known(1, "nvml"),
        health=gpu.health._replace(temperature=known(77, "nvml")),
    )
    elsewhere = FIT._replace(gpus=(other_machine_gpu, *rest), taken_at="2020-01-01T00:00:00+00:00")
    assert compare_machines(FIT, elsewhere).differences == ()


def test_facts_known_for_only_one_machine_are_not_differences() -> None:
    partial = FIT._replace(host=Snapshot().host, target=FIT.target._replace(kind=Snapshot().target.kind))
    assert compare_machines(FIT, partial).differences == ()


def test_gpus_are_compared_by_kind() -> None:
    (gpu, *_) = FIT.gpus
    second_gpu = gpu._replace(name=known("Tesla V100-SXM2-16GB", "nvml"))
    comparison = compare_machines(FIT._replace(gpus=(gpu, second_gpu)), FIT._replace(gpus=(second_gpu, gpu)))
    assert comparison.differences == (), "the order of GPUs is not compared"
    (difference,) = compare_machines(FIT, FIT._replace(gpus=(second_gpu, *FIT.gpus[1:]))).differences
    assert (difference.fact, difference.why) == ("gpus", "other GPUs")


def test_an_inaccessible_device_file_is_reported() -> None:
    def with_node(accessible: bool) -> Snapshot:  # noqa: FBT001 - one argument
        node = DeviceNode("/dev/nvidia0", accessible, "crw-rw----", "0:44")
        return FIT._replace(driver=FIT.driver._replace(device_nodes=(node,)))

    comparison = compare_machines(with_node(True), with_node(False))
    (difference,) = comparison.differences
    assert (difference.fact, difference.here) == ("driver.device_nodes", "none")


def pasted(text: str) -> Snapshot:
    return to_snapshot(read_paste(text), MATRIX)


def table(driver: str, cuda: str, gpu: str = "NVIDIA A100-SXM4-80GB") -> str:
    banner = f"| NVIDIA-SMI {driver}  Driver Version: {driver}  CUDA Version: {cuda} |"
    return f"{banner}\n|   0  {gpu}  On | 00000000:53:00.0 Off |\n"


def test_the_search_path_of_a_different_library_comes_first() -> None:
    libraries = tuple(
        entry._replace(release="12.0") if entry.name == "nvrtc" else entry for entry in FIT.target.libraries
    )
    here = FIT._replace(
        environment={"LD_LIBRARY_PATH": "/usr/local/cuda-12.0/lib64"}, target=FIT.target._replace(libraries=libraries)
    )
    comparison = compare_machines(FIT, here)
    assert [entry.fact for entry in comparison.differences[:2]] == [
        "environment.LD_LIBRARY_PATH",
        "target.libraries.nvrtc",
    ]
    assert comparison.try_first[0].shell_line == "unset LD_LIBRARY_PATH"
    library_only = compare_machines(FIT, FIT._replace(target=FIT.target._replace(libraries=libraries)))
    assert library_only.differences[0].fact == "target.libraries.nvrtc"


def test_the_compute_capability_explains_a_finding_about_the_gpu() -> None:
    there = pasted(table("580.95.05", "13.0") + "cupy-cuda13x==14.2.0\n")
    here = pasted(table("580.95.05", "13.0", "Tesla V100-SXM2-16GB") + "cupy-cuda13x==14.2.0\n")
    first = compare_machines(there, here).differences[0]
    assert (first.fact, first.there, first.here) == ("gpus[].compute_capability", "8.0", "7.0")
    assert first.likelihood > 0.9


def test_pastes_without_python_differ_in_their_cupy() -> None:
    there, here = (pasted(table("550.54.15", "12.4") + f"cupy-cuda{line}==14.2.0\n") for line in ("12x", "13x"))
    assert [entry.fact for entry in compare_machines(there, here).differences] == ["target.cupy"]


def test_facts_missing_from_a_paste_are_not_differences() -> None:
    """A filtered package list is incomplete, and no tool's output lists device files."""
    node = DeviceNode("/dev/nvidia-uvm", accessible=True, mode="0666", owner="root")
    full = FIT._replace(driver=FIT.driver._replace(device_nodes=(node,)))
    full = full._replace(target=full.target._replace(packages={**full.target.packages, "torch": "2.8.0"}))
    searched = pasted(table("550.54.15", "12.4") + "cupy-cuda12x==14.2.0\n")
    assert not {entry.fact for entry in compare_machines(full, searched).differences} & {
        "target.packages.torch",
        "driver.device_nodes",
    }
    full_list = pasted("Package Version\n------- -------\ncupy-cuda12x 14.2.0\nnumpy 2.3.4\nrich 13.0\n")
    assert "target.packages.torch" in {entry.fact for entry in compare_machines(full, full_list).differences}
    assert "target.packages.rich" not in {entry.fact for entry in compare_machines(full, full_list).differences}


TEXTS = st.text(max_size=12)
GENERATED_FACTS = st.tuples(
    st.dictionaries(TEXTS, TEXTS, max_size=4), st.dictionaries(TEXTS, TEXTS, max_size=4), st.lists(TEXTS, max_size=3)
)


def machine(generated: tuple[dict[str, str], dict[str, str], list[str]]) -> Snapshot:
    environment, packages, names = generated
    gpus = tuple(Gpu(name=known(name, "nvml")) for name in names)
    return FIT._replace(environment=environment, target=FIT.target._replace(packages=packages), gpus=gpus)


@settings(max_examples=40, deadline=None)
@given(GENERATED_FACTS, GENERATED_FACTS)
def test_differences_are_the_same_in_both_directions(one: Any, other: Any) -> None:  # noqa: ANN401 - generated
    there, here = machine(one), machine(other)
    forth = compare(there, here, (), ()).differences
    back = compare(here, there, (), ()).differences
    assert {(d.fact, d.there, d.here) for d in forth} == {(d.fact, d.here, d.there) for d in back}
    assert all(d.there != d.here and 0 <= d.likelihood <= 1 for d in forth)


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (("gpu=V100", "driver=580.95.05"), ("gpu=V100", "driver=535.104.05")),
        (("driver-cuda=12.4",), ("driver-cuda=12.2",)),
        (("gpu=H100", "driver=535.104.05"), ("gpu=V100", "driver=580.95.05")),
        ((), ("libc=glibc-2.31",)),
    ],
)
def test_no_step_concerns_what_the_user_cannot_undo(there: tuple[str, ...], here: tuple[str, ...]) -> None:
    comparison = compare(healthy_except(*there), healthy_except(*here), (), ())
    assert comparison.differences
    assert comparison.try_first == ()


WITHOUT_PIP = {name: release for name, release in FIT.target.packages.items() if name != "pip"}


@pytest.mark.parametrize(
    ("changed", "command"),
    [
        ({"packages": {**WITHOUT_PIP, "pip": "25.0"}}, ("/venv/bin/python", "-m", "pip", "install", "numpy==9.9")),
        ({"packages": WITHOUT_PIP}, ("uv", "pip", "install", "--python", "/venv/bin/python", "numpy==9.9")),
        ({"externally_managed": known(value=True, source="x")}, None),
        (
            {"conda_packages": {"numpy": "2.0"}, "prefix": known("/envs/a", "x")},
            ("conda", "install", "--prefix=/envs/a", "numpy==9.9"),
        ),
        ({"made_by": known("pixi", "x")}, ("pixi", "add", "--pypi", "numpy==9.9")),
    ],
    ids=["pip", "uv", "managed", "conda", "pixi"],
)
def test_a_package_is_changed_by_the_installer_of_its_environment(
    changed: dict[str, Any], command: tuple[str, ...] | None
) -> None:
    target = FIT.target._replace(executable=known("/venv/bin/python", "x"), **changed)
    there = FIT._replace(target=target._replace(packages={**target.packages, "numpy": "9.9"}))
    (step,) = compare(there, FIT._replace(target=target), (), ()).try_first
    assert (step.command, step.safe) == (command, False)
    assert "Install numpy 9.9, as on the other machine" in step.text


def test_a_newer_driver_is_an_unlikely_explanation() -> None:
    comparison = compare(
        healthy_except("gpu=H100", "driver=535.104.05"), healthy_except("gpu=V100", "driver=580.95.05"), (), ()
    )
    facts = [difference.fact for difference in comparison.differences]
    assert facts.index("gpus[].compute_capability") < facts.index("driver.cuda")
    back = compare(
        healthy_except("gpu=V100", "driver=580.95.05"), healthy_except("gpu=H100", "driver=535.104.05"), (), ()
    )
    assert back.differences[0].fact == "driver.cuda"


def test_a_missing_gpu_comes_before_a_toolkit_among_the_differences() -> None:
    eight = FIT._replace(gpus=FIT.gpus * 8, gpu_count=known(8, "nvml"))
    kit = Toolkit("/usr/local/cuda-13.0", "PATH", toolkit=known(CudaVersion.parse("13.0"), "version.json"))
    comparison = compare_machines(eight, WITHOUT_GPU._replace(toolkits=(kit,)))
    result = {entry.fact: entry for entry in comparison.differences}
    assert comparison.differences[0].fact == "gpus"
    assert (result["gpus"].there, result["gpus"].here) == ("8 x NVIDIA A100-SXM4-80GB", "none")
    assert (result["driver.version"].there, result["driver.version"].here) == ("550.54.15", "none")
    assert result["gpus"].finding == "GPU201"
    with_another = compare_machines(
        eight._replace(toolkits=(kit,)), WITHOUT_GPU._replace(toolkits=(kit._replace(toolkit=OLDER),))
    )
    assert next(entry for entry in with_another.differences if entry.fact == "toolkits").finding is None
    assert compare_machines(WITHOUT_GPU, eight).differences


def test_unknown_facts_are_not_reported_as_absent() -> None:
    unseen = WITHOUT_GPU._replace(pci_gpus=None, sources=())
    assert not {"gpus", "driver.version"} & {entry.fact for entry in compare_machines(FIT, unseen).differences}


NODES = tuple(DeviceNode(f"/dev/nvidia{number}", True, "crw-rw-rw-", "0:0") for number in range(8))


def with_nodes(count: int, **driver: Any) -> Snapshot:  # noqa: ANN401 - any field
    return FIT._replace(
        gpus=FIT.gpus * count,
        gpu_count=known(count, "nvml"),
        visible_count=known(count, "libcuda"),
        driver=FIT.driver._replace(device_nodes=NODES[:count], **driver),
    )


def test_device_files_of_absent_gpus_are_not_differences() -> None:
    started = {"cuda_init": known(0, "libcuda")}
    comparison = compare_machines(with_nodes(8, **started), with_nodes(2, **started))
    assert [entry.fact for entry in comparison.differences] == ["gpus"]
    there = with_nodes(2, **started)
    here = there._replace(driver=there.driver._replace(device_nodes=NODES[:1]))
    (difference,) = compare(there, here, (), ()).differences
    assert (difference.fact, difference.here) == ("driver.device_nodes", "/dev/nvidia0")


# Faults of earlier versions


def a100s(count: int, **fields: Any) -> Snapshot:  # noqa: ANN401 - any field of a GPU
    gpus = tuple(
        FIT.gpus[0]._replace(
            index=known(number, "nvml"),
            ordinal=known(number, "libcuda"),
            compute_mode=known(ComputeMode.DEFAULT, "nvml"),
            mig=known(value=False, source="nvml"),
            **fields,
        )
        for number in range(count)
    )
    return with_nodes(count)._replace(gpus=gpus)


def test_more_gpus_of_the_same_kind_are_a_count_and_no_other_value() -> None:
    (difference,) = compare_machines(a100s(1), a100s(2)).differences
    assert (difference.fact, difference.there, difference.here) == (
        "gpus",
        "1 x NVIDIA A100-SXM4-80GB",
        "2 x NVIDIA A100-SXM4-80GB",
    )
    assert difference.why == "a different number of GPUs"


def test_gpus_are_matched_by_product_and_then_by_index() -> None:
    plain = a100s(2)
    first, second = plain.gpus
    prohibited = second._replace(compute_mode=known(ComputeMode.PROHIBITED, "nvml"))
    (difference,) = compare_machines(plain, plain._replace(gpus=(first, prohibited))).differences
    assert (difference.fact, difference.there, difference.here) == (
        "gpus[].compute_mode",
        "default",
        "GPU 0: default; GPU 1: prohibited",
    )
    swapped = plain._replace(gpus=(prohibited._replace(index=first.index), first._replace(index=second.index)))
    assert compare_machines(plain._replace(gpus=(first, prohibited)), swapped).differences, "GPU 0 differs"


def test_a_setting_that_only_the_additional_gpu_has_is_a_difference() -> None:
    first, second = a100s(2).gpus
    exclusive = second._replace(compute_mode=known(ComputeMode.EXCLUSIVE_PROCESS, "nvml"))
    differences = compare_machines(a100s(1), a100s(2)._replace(gpus=(first, exclusive))).differences
    assert {entry.fact for entry in differences} == {"gpus", "gpus[].compute_mode"}


FOLDERS = "/tmp/pytest-1/lib:/usr/local/cuda/lib64"  # noqa: S108 - a value


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (FOLDERS, FOLDERS.replace("pytest-1", "pytest-2")),
        ("/home/one/lib:/opt/lib", "/home/another/envs/lib:/opt/lib"),
        ("/root/a:/home/b", "/var/tmp/c"),  # noqa: S108 - a value
        (r"C:\Users\one\cuda", r"C:\Users\another\cuda"),
    ],
)
def test_temporary_and_home_folders_are_not_differences(there: str, here: str) -> None:
    one, other = (FIT._replace(environment={"LD_LIBRARY_PATH": value}) for value in (there, here))
    assert compare_machines(one, other).differences == ()
    assert compare_machines(FIT, one).differences, "whether the variable is set is a difference"
    elsewhere = FIT._replace(environment={"LD_LIBRARY_PATH": f"{here}:/usr/local/cuda-11.8/lib64"})
    assert compare_machines(one, elsewhere).differences


def test_uuids_addresses_job_numbers_and_suspends_are_not_differences() -> None:
    def in_job(number: int) -> Snapshot:
        return FIT._replace(
            environment={"CUDA_VISIBLE_DEVICES": f"{UUID[:-3]}{number}", "SLURM_JOB_ID": str(number)},
            host=FIT.host._replace(suspends=known(number, "power")),
            gpus=(FIT.gpus[0]._replace(hidden_by=known(f"control group: 0000:{number % 100}:00.0", "nvml")),),
        )

    assert compare_machines(in_job(111), in_job(222)).differences == ()


@pytest.mark.parametrize("value", ["/opt/other/lib64", FOLDERS, "C:\\CUDA\\bin"])
def test_no_step_sets_a_variable_to_a_folder_of_the_other_machine(value: str) -> None:
    there = FIT._replace(environment={"LD_LIBRARY_PATH": value})
    here = FIT._replace(environment={"LD_LIBRARY_PATH": "/usr/lib"})
    assert compare_machines(there, here).try_first == ()
    assert compare_machines(there, FIT).try_first == ()


def test_a_cause_that_the_doctor_finds_comes_before_every_other_difference() -> None:
    here = healthy_except("env.CUDA_VISIBLE_DEVICES=-1", "cupy=cupy-cuda12x==13.6.0", "driver=550.90.07")
    there = FIT._replace(environment={"LD_LIBRARY_PATH": FOLDERS})
    comparison = compare_machines(there, here)
    belonging = [entry.fact for entry in comparison.differences if entry.finding == "GPU202"]
    assert belonging
    assert belonging == [entry.fact for entry in comparison.differences[: len(belonging)]]
    assert "target.cupy" not in belonging
    primary = next(finding for finding in findings(here) if finding.primary)
    assert (comparison.explanation and comparison.explanation.code, comparison.try_first) == ("GPU202", primary.fix)


def test_a_new_finding_is_reported_even_if_no_compared_fact_differs() -> None:
    event = KernelMessage("NVRM: Xid (PCI:0000:53:00): 79, GPU has fallen off the bus.", 79, "0000:53:00")
    comparison = compare_machines(FIT, FIT._replace(kernel_log=known((event,), "/dev/kmsg")))
    assert comparison.differences == ()
    assert [finding.cause for finding in comparison.findings] == [Cause.GPU_HARDWARE_FAULT]
    text = "\n".join(line.text for line in difference_lines(comparison))
    assert "gpu-hardware-fault" in text
    assert "No difference" not in text


def test_findings_of_the_first_machine_and_of_both_are_named() -> None:
    hidden = healthy_except("env.CUDA_VISIBLE_DEVICES=-1")
    swapped = compare_machines(hidden, FIT)
    assert (swapped.findings, swapped.explanation) == ((), None)
    assert [finding.code for finding in swapped.findings_there] == ["GPU202"]
    assert "GPU202" in "\n".join(line.text for line in difference_lines(swapped))
    both = compare_machines(hidden, hidden)
    assert [finding.code for finding in both.findings_on_both] == ["GPU202"]
    assert both.try_first == ()


def test_a_driver_is_one_difference_and_its_cuda_another() -> None:
    def machine_with(version: str, cuda: str) -> Snapshot:
        parsed = DriverVersion.parse(version)
        number = known(parsed, "nvml")
        driver = FIT.driver._replace(
            version=number, module_version=number, library_version=number, branch=known(parsed.branch, "nvml")
        )
        return FIT._replace(driver=driver._replace(cuda=known(CudaVersion.parse(cuda), "libcuda")))

    comparison = compare_machines(machine_with("550.54.15", "12.4"), machine_with("535.104.05", "12.2"))
    assert {entry.fact for entry in comparison.differences} == {"driver.version", "driver.cuda"}


def test_an_error_code_has_its_name() -> None:
    there = FIT._replace(driver=FIT.driver._replace(cuda_init=known(0, "libcuda")))
    here = FIT._replace(driver=FIT.driver._replace(cuda_init=known(999, "libcuda")))
    difference = next(e for e in compare_machines(there, here).differences if e.fact == "driver.cuda_init")
    assert (difference.there, difference.here) == ("0 (success)", "999 (unknown)")
