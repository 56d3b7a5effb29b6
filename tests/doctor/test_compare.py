"""Comparison of two machines: the difference that explains a failure comes first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuenv.doctor.compare import compare
from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.model.causes import Cause
from gpuenv.model.documents import Comparison
from gpuenv.model.finding import Finding
from gpuenv.model.reading import known
from gpuenv.model.snapshot import DeviceNode, Gpu, Snapshot, Toolkit
from gpuenv.model.versions import CudaVersion
from gpuenv.paste.partial_snapshot import to_snapshot
from gpuenv.paste.reader import read_paste
from tests.cli.snapshots import FIT, WITHOUT_GPU
from tests.support.matrix import MATRIX

OLDER = known(CudaVersion.parse("12.4"), "version.json")


def findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    return diagnose(snapshot, MATRIX, resolve(snapshot, MATRIX), lambda: 0.0).findings


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
    assert difference.fact == "gpus[].name"


def test_an_inaccessible_device_file_is_reported() -> None:
    def with_node(accessible: bool) -> Snapshot:  # noqa: FBT001 - one argument
        node = DeviceNode("/dev/nvidia0", accessible, "crw-rw----", "0:44")
        return FIT._replace(driver=FIT.driver._replace(device_nodes=(node,)))

    comparison = compare_machines(with_node(True), with_node(False))
    assert comparison.differences[0].fact == "driver.device_nodes./dev/nvidia0"
    assert (comparison.differences[0].there, comparison.differences[0].here) == ("accessible", "not accessible")


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
        environment={"LD_LIBRARY_PATH": "/usr/local/cuda-12.0/lib64"},
        target=FIT.target._replace(libraries=libraries),
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
    assert (first.fact, first.there, first.here) == ("gpus[].compute_capability", "1 x 8.0", "1 x 7.0")
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
        "driver.device_nodes./dev/nvidia-uvm",
    }
    full_list = pasted("Package Version\n------- -------\ncupy-cuda12x 14.2.0\nnumpy 2.3.4\nrich 13.0\n")
    assert "target.packages.torch" in {entry.fact for entry in compare_machines(full, full_list).differences}
    assert "target.packages.rich" not in {entry.fact for entry in compare_machines(full, full_list).differences}


TEXTS = st.text(max_size=12)
GENERATED_FACTS = st.tuples(
    st.dictionaries(TEXTS, TEXTS, max_size=4),
    st.dictionaries(TEXTS, TEXTS, max_size=4),
    st.lists(TEXTS, max_size=3),
)


def machine(expected: tuple[dict[str, str], dict[str, str], list[str]]) -> Snapshot:
    environment, packages, names = expected
    gpus = tuple(Gpu(name=known(name, "nvml")) for name in names)
    return FIT._replace(environment=environment, target=FIT.target._replace(packages=packages), gpus=gpus)


@given(GENERATED_FACTS, GENERATED_FACTS)
def test_differences_are_the_same_in_both_directions(one: Any, other: Any) -> None:  # noqa: ANN401 - generated
    there, here = machine(one), machine(other)
    forth = compare(there, here, (), ()).differences
    back = compare(here, there, (), ()).differences
    assert {(d.fact, d.there, d.here) for d in forth} == {(d.fact, d.here, d.there) for d in back}
    assert all(d.there != d.here and 0 <= d.likelihood <= 1 for d in forth)


@pytest.mark.parametrize(
    ("there", "here", "expected"),
    [
        (
            ("gpu=V100", "driver=580.95.05"),
            ("gpu=V100", "driver=535.104.05"),
            "the driver of the other machine: 580.95.05",
        ),
        (("driver-cuda=12.4",), ("driver-cuda=12.2",), "Load the same libcuda as on the other machine"),
        (
            ("gpu=H100", "driver=535.104.05"),
            ("gpu=V100", "driver=580.95.05"),
            "Try a GPU like that of the other machine",
        ),
        ((), ("libc=glibc-2.31",), "Try a system like that of the other machine"),
    ],
)
def test_advice_concerns_only_facts_that_the_user_can_change(
    there: tuple[str, ...], here: tuple[str, ...], expected: str
) -> None:
    comparison = compare(healthy_except(*there), healthy_except(*here), (), ())
    (step,) = comparison.try_first
    assert expected in step.text
    assert "Make driver" not in step.text


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
    assert comparison.differences[0].fact == "gpu_count"
    assert (result["gpu_count"].there, result["gpu_count"].here) == ("8", "none")
    assert (result["driver.version"].there, result["driver.version"].here) == ("550.54.15", "none")
    assert "GPU201" in result["gpu_count"].why
    with_another = compare_machines(
        eight._replace(toolkits=(kit,)), WITHOUT_GPU._replace(toolkits=(kit._replace(toolkit=OLDER),))
    )
    assert "GPU201" not in next(entry for entry in with_another.differences if entry.fact == "toolkits").why
    assert compare_machines(WITHOUT_GPU, eight).differences


def test_unknown_facts_are_not_reported_as_absent() -> None:
    unseen = WITHOUT_GPU._replace(pci_gpus=None, sources=())
    assert not {"gpu_count", "driver.version"} & {entry.fact for entry in compare_machines(FIT, unseen).differences}


NODES = tuple(DeviceNode(f"/dev/nvidia{number}", True, "crw-rw-rw-", "0:0") for number in range(8))


def with_nodes(count: int, **driver: Any) -> Snapshot:  # noqa: ANN401 - any field
    return FIT._replace(
        gpus=FIT.gpus * count,
        gpu_count=known(count, "nvml"),
        visible_count=known(count, "libcuda"),
        driver=FIT.driver._replace(device_nodes=NODES[:count], **driver),
    )


def test_device_files_of_absent_gpus_get_no_advice() -> None:
    started = {"cuda_init": known(0, "libcuda")}
    comparison = compare_machines(with_nodes(8, **started), with_nodes(2, **started))
    nodes = [entry for entry in comparison.differences if "device_nodes" in entry.fact]
    assert len(nodes) == 6
    assert all(entry.likelihood <= 0.2 for entry in nodes)
    assert [step.text for step in comparison.try_first if "device_nodes" in step.text] == []


def test_a_missing_device_file_is_described_in_words() -> None:
    refused = known(999, "libcuda")
    there = with_nodes(2, cuda_init=refused)
    here = there._replace(driver=there.driver._replace(device_nodes=NODES[:1]))
    (step,) = compare(there, here, (), ()).try_first
    assert (
        step.text
        == "Make driver.device_nodes./dev/nvidia1 the same as on the other machine: accessible instead of not there."
    )
