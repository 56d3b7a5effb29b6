"""The order of fixes: what interrupts least comes first, and every step that is known has its command."""

from __future__ import annotations

import pytest

from gpuenv.matrix.tables import Matrix
from gpuenv.model.finding import Finding
from gpuenv.model.nvidia import Nvml
from gpuenv.model.reading import known
from gpuenv.model.snapshot import (
    Container,
    DriverLibrary,
    Fabric,
    Gpu,
    GpuUser,
    LibraryOrigin,
    NvLink,
    Snapshot,
    Source,
    SourceState,
)
from gpuenv.model.versions import DriverVersion
from tests.doctor.kernel_hosts import findings, log, working
from tests.doctor.test_fixes_by_facts import lines, only

LIBCUDA = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01"
SHOW_REMAPPING = "nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT"


def texts(finding: Finding) -> str:
    return "\n".join(fix.text for fix in finding.fix)


def with_sources(snapshot: Snapshot, **states: Source) -> Snapshot:
    kept = tuple(source for source in snapshot.sources if source.name not in {s.name for s in states.values()})
    return snapshot._replace(sources=(*kept, *states.values()))


def on(snapshot: Snapshot, distribution: str) -> Snapshot:
    return snapshot._replace(host=snapshot.host._replace(distribution=known(distribution, "os-release")))


def with_libcuda(snapshot: Snapshot) -> Snapshot:
    library = DriverLibrary(LIBCUDA, DriverVersion.parse("550.163.01"), LibraryOrigin.SYSTEM)
    driver = snapshot.driver._replace(libraries=(library,), branch=known(550, "its version"))
    return snapshot._replace(driver=driver)


def test_a_failed_remapping_needs_a_reset_then_a_look_at_the_remapped_rows(matrix: Matrix) -> None:
    (finding,) = findings(working()._replace(kernel_log=log("NVRM: Xid", xid=64)), matrix)
    assert lines(finding) == ["sudo nvidia-smi --gpu-reset -i 0000:01:00.0", SHOW_REMAPPING]
    assert "seating" not in texts(finding)


@pytest.mark.parametrize("xid", [54, 74, 79])
def test_seating_is_checked_after_a_fault_of_contact_power_or_heat(matrix: Matrix, xid: int) -> None:
    (finding,) = findings(working()._replace(kernel_log=log("NVRM: Xid", xid=xid)), matrix)
    assert "seating" in texts(finding)
    assert SHOW_REMAPPING not in lines(finding)


@pytest.mark.parametrize(("name", "expected"), [("NVIDIA GeForce RTX 4090", True), ("NVIDIA A100-SXM4-40GB", False)])
def test_a_board_in_a_slot_is_examined_before_it_is_replaced(matrix: Matrix, name: str, *, expected: bool) -> None:
    lost = Gpu(index=known(0, "nvml"), name=known(name, "nvml"), fault=known(int(Nvml.GPU_IS_LOST), "nvml"))
    finding = only(working()._replace(gpus=(lost,)), matrix, "GPU203")
    assert ("power cables" in texts(finding)) is expected


@pytest.mark.parametrize(("name", "has_bridge"), [("NVIDIA H100 80GB HBM3", False), ("NVIDIA H100 NVL", True)])
def test_only_a_board_in_a_slot_has_a_bridge(matrix: Matrix, name: str, *, has_bridge: bool) -> None:
    snapshot = working()
    links = tuple(NvLink(number, active=number != 7) for number in range(18))
    gpu = snapshot.gpus[0]._replace(
        name=known(name, "nvml"), nvlinks=links, fabric=Fabric(state=known("completed", "nvml"))
    )
    finding = only(snapshot._replace(gpus=(gpu,)), matrix, "GPU207")
    assert ("bridge" in texts(finding)) is has_bridge
    assert ("sudo reboot" in lines(finding)) is not has_bridge


def test_a_busy_gpu_is_left_alone_if_another_one_is_free(matrix: Matrix) -> None:
    snapshot = working()
    gpu = snapshot.gpus[0]._replace(memory_total=known(1 << 34, "nvml"), ordinal=known(0, "libcuda"))
    full = gpu._replace(memory_free=known(1 << 20, "nvml"), users=(GpuUser(4711),))
    free = gpu._replace(
        index=known(1, "nvml"),
        ordinal=known(1, "libcuda"),
        memory_free=known(1 << 34, "nvml"),
        uuid=known("GPU-2", "x"),
    )
    finding = only(snapshot._replace(gpus=(full, free), gpu_count=known(2, "nvml")), matrix, "GPU208")
    shell, command = lines(finding)
    assert shell.endswith("CUDA_VISIBLE_DEVICES=1")
    assert command == "ps -o user,pid,etime,args -p 4711"
    assert "if it is yours" in texts(finding)


def test_more_time_comes_before_a_restart_and_a_reinstallation(matrix: Matrix) -> None:
    hung = Source("nvml", SourceState.TIMED_OUT)
    snapshot = on(with_sources(with_libcuda(working()), nvml=hung), "ubuntu 24.04")
    result = lines(only(snapshot, matrix, "DRV100"))
    assert result[0] == "gpuenv doctor --timeout 120"
    assert result[-1] == "sudo apt-get install --reinstall libnvidia-compute-550"


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        ("debian 13", [f"dpkg -S {LIBCUDA}", "sudo apt-get install --reinstall libcuda1 libnvidia-ml1"]),
        ("rocky 9.5", [f"rpm -qf {LIBCUDA}", f'sudo sh -c dnf reinstall "$(rpm -qf {LIBCUDA})"']),
        ("arch", [f"pacman -Qo {LIBCUDA}", "sudo pacman -Syu nvidia-utils"]),
    ],
)
def test_a_crashing_library_is_reinstalled_by_its_package(
    matrix: Matrix, distribution: str, expected: list[str]
) -> None:
    crashed = Source("libcuda", SourceState.CRASHED)
    snapshot = on(with_sources(with_libcuda(working()), libcuda=crashed), distribution)
    assert lines(only(snapshot, matrix, "DRV100"))[-2:] == expected


def test_a_hanging_nvidia_smi_is_traced_instead_of_started_again(matrix: Matrix) -> None:
    snapshot = with_sources(working(), smi=Source("nvidia-smi", SourceState.TIMED_OUT))
    result = lines(only(snapshot, matrix, "DRV103"))
    assert result[:2] == ["which -a nvidia-smi", "timeout 60 strace -f nvidia-smi"]
    assert "nvidia-smi" not in result


def refused(container: Container) -> Snapshot:
    """A machine whose loader refuses the file of libcuda."""
    state = Source("libcuda", SourceState.FAILED, f"{LIBCUDA}: file too short")
    snapshot = on(with_sources(working(container=container), libcuda=state), "debian 13")
    return snapshot._replace(driver=snapshot.driver._replace(cuda_init=type(snapshot.driver.cuda_init)()))


def test_a_refused_file_is_named_with_the_package_that_restores_it(matrix: Matrix) -> None:
    finding = only(refused(Container.NONE), matrix, "DRV114")
    assert LIBCUDA in finding.title
    assert lines(finding) == [
        f"dpkg -S {LIBCUDA}",
        "sudo apt-get install --reinstall libcuda1 libnvidia-ml1",
        f"sudo rm {LIBCUDA}",
    ]


def test_a_refused_file_of_an_image_is_removed_by_its_dockerfile(matrix: Matrix) -> None:
    finding = only(refused(Container.DOCKER), matrix, "DRV114")
    assert f"RUN rm -f {LIBCUDA} && ldconfig" in texts(finding)
    assert lines(finding) == [f"dpkg -S {LIBCUDA}", "docker run --gpus all IMAGE"]
