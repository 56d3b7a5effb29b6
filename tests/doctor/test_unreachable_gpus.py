"""GPUs that this process cannot reach: missing nodes, no runtime class, switched off, or bound to nouveau."""

from __future__ import annotations

import pytest

from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding
from gpuenv.model.nvidia import Nvml
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import (
    Container,
    DriverLibrary,
    Grant,
    LibraryOrigin,
    Module,
    PciGpu,
    Snapshot,
    Source,
    SourceState,
)
from gpuenv.model.versions import DriverVersion
from tests.doctor.kernel_hosts import BUS, findings, working
from tests.doctor.module_hosts import host_without_module, with_reading


def fix_texts(finding: Finding) -> str:
    return "\n".join(f"{fix.text} {' '.join(fix.command or ())}" for fix in finding.fix)


def without_nodes(container: Container = Container.NONE) -> Snapshot:
    snapshot = working(cuda=100, container=container)
    return snapshot._replace(
        driver=snapshot.driver._replace(device_nodes=(), nvml_init=known(int(Nvml.DRIVER_NOT_LOADED), "nvml")),
        gpus=(),
        gpu_count=known(1, "/proc/driver/nvidia/gpus"),
        sources=(
            Source("kernel", SourceState.ANSWERED),
            *(Source(name, SourceState.FAILED) for name in ("nvml", "libcuda")),
        ),
    )


def test_a_process_with_a_private_dev_gets_no_install_command() -> None:
    (finding,) = findings(without_nodes())
    assert (finding.code, finding.cause) == ("CTR303", Cause.DEVICE_NODE_MISSING)
    assert "PrivateDevices" in fix_texts(finding)
    assert "nvidia-modprobe" in fix_texts(finding)


def test_missing_nodes_have_other_causes_in_a_container_or_without_a_gpu() -> None:
    assert [f.code for f in findings(without_nodes(Container.DOCKER))] == ["CTR301"]
    idle = without_nodes()._replace(gpu_count=known(0, "/proc/driver/nvidia/gpus"))
    assert "CTR303" not in {finding.code for finding in findings(idle)}
    unloaded = without_nodes()
    unloaded = unloaded._replace(driver=unloaded.driver._replace(module=known(Module.NOT_LOADED, "/lib/modules")))
    assert "CTR303" not in {finding.code for finding in findings(unloaded)}


def test_a_missing_uvm_node_does_not_explain_a_wrong_libcuda_or_a_jetson() -> None:
    stub, jetson = working(cuda=34), working(cuda=999)
    nodes = tuple(node for node in stub.driver.device_nodes if node.path != "/dev/nvidia-uvm")
    assert len(nodes) < len(stub.driver.device_nodes)
    stub = stub._replace(driver=stub.driver._replace(device_nodes=nodes))
    assert [finding.code for finding in findings(stub)] == ["DRV109"]
    board = jetson.host._replace(tegra=known("R36", "/etc/nv_tegra_release"))
    jetson = jetson._replace(host=board, driver=jetson.driver._replace(device_nodes=nodes))
    (finding,) = findings(jetson)
    assert (finding.code, "nvidia-modprobe" in fix_texts(finding)) == ("DRV113", False)


def test_a_board_whose_gpu_is_not_on_the_bus_gets_no_advice_about_its_seating() -> None:
    snapshot = working(cuda=999)
    board = snapshot.host._replace(tegra=known("R35", "/etc/nv_tegra_release"))
    snapshot = snapshot._replace(host=board, gpus=(), gpu_count=Reading(), pci_gpus=())
    (finding,) = findings(snapshot)
    assert (finding.code, finding.title) == ("DRV113", "CUDA cannot be initialized")
    assert "seating" not in fix_texts(finding)


@pytest.mark.parametrize(
    ("variable", "devices", "first", "runtime"),
    [
        ("GPU-8cbaba1c-2629-a732-f528-66f459089ef6", True, "runtimeClassName", True),
        ("all", False, "resources.limits", True),
        (None, False, "resources.limits", True),
        ("void", False, "resources.limits", False),
    ],
)
def test_a_pod_with_a_granted_gpu_lacks_a_runtime_class(
    variable: str | None,
    devices: bool,  # noqa: FBT001 - a table
    first: str,
    runtime: bool,  # noqa: FBT001 - a table
) -> None:
    named: tuple[str, ...] = (variable or "",)
    granted: Reading[tuple[str, ...]] = known(named, "NVIDIA_VISIBLE_DEVICES") if devices else Reading()
    snapshot = without_nodes(Container.KUBERNETES)._replace(
        environment={"NVIDIA_VISIBLE_DEVICES": variable} if variable else {},
        grant=Grant(known("kubernetes", "x"), known(1, "x") if devices else Reading(), granted),
    )
    (finding,) = findings(snapshot)
    assert finding.cause is Cause.CONTAINER_WITHOUT_GPU
    assert first in finding.fix[0].text
    assert ("runtimeClassName" in fix_texts(finding)) is runtime


@pytest.mark.parametrize(
    ("release", "first"), [("545.29.06", "flatpak update"), ("570.86.16", "Restart the host")], ids=["older", "newer"]
)
def test_flatpak_updates_its_own_driver_libraries(release: str, first: str) -> None:
    snapshot = working(cuda=803, container=Container.OTHER)
    path = "/usr/lib/x86_64-linux-gnu/GL/nvidia/lib/libcuda.so." + release
    library = DriverLibrary(path, DriverVersion.parse(release), LibraryOrigin.FLATPAK, mounted=True)
    driver = snapshot.driver._replace(
        nvml_init=known(int(Nvml.LIB_RM_VERSION_MISMATCH), "nvml"),
        library_version=known(DriverVersion.parse(release), "x"),
        cuda_library=known(path, "the loader"),
        cuda_origin=known(LibraryOrigin.FLATPAK, "its path"),
        libraries=(library,),
    )
    (finding,) = findings(snapshot._replace(driver=driver, gpus=(), gpu_count=Reading()))
    assert finding.cause is Cause.DRIVER_LIBRARY_VERSION_MISMATCH
    assert first in f"{finding.fix[0].text} {' '.join(finding.fix[0].command or ())}"
    assert "flatpak update" in fix_texts(finding)
    assert "nvidia-ctk" not in fix_texts(finding)


def test_a_gpu_switched_off_by_a_modprobe_file_is_reported() -> None:
    intel = (PciGpu("0000:00:02.0", "8086", "a7a0", None, "i915"),)
    off = ("/etc/modprobe.d/blacklist-nvidia.conf: alias nvidia off",)
    snapshot = with_reading(host_without_module(Module.NOT_LOADED), "arch", module_blocks=off)._replace(pci_gpus=intel)
    (finding,) = findings(snapshot)
    assert (finding.code, finding.cause) == ("GPU201", Cause.DRIVER_MODULE_NOT_LOADED)
    assert finding.fix[0].command == ("sudo", "envycontrol", "-s", "hybrid")
    assert off[0] in finding.fix[1].text
    without_alias = with_reading(snapshot, "arch", module_blocks=("/etc/modprobe.d/x.conf: blacklist nvidia",))
    assert [entry.cause for entry in findings(without_alias)] == [Cause.NO_NVIDIA_GPU]


@pytest.mark.parametrize(
    ("module", "display"),
    [
        (Module.NOT_INSTALLED, PciGpu("0000:00:02.0", "8086", "a7a0", None, "i915")),
        (Module.NOT_LOADED, PciGpu("0000:02:00.0", "1a03", "2000", None, "ast")),
        (Module.NOT_LOADED, None),
    ],
    ids=["no driver", "a server's display", "no display"],
)
def test_a_leftover_file_does_not_imply_a_gpu(module: Module, display: PciGpu | None) -> None:
    off = ("/etc/modprobe.d/blacklist-nvidia.conf: alias nvidia off",)
    server = host_without_module(module)._replace(pci_gpus=(display,) if display else ())
    (finding,) = findings(with_reading(server, "ubuntu 24.04", module_blocks=off))
    assert (finding.code, finding.cause) == ("GPU201", Cause.NO_NVIDIA_GPU)
    assert off[0] in {evidence.value for evidence in finding.evidence}
    assert "alias nvidia off" in fix_texts(finding)
    assert not any(fix.command for fix in finding.fix)


def test_nouveau_is_removed_without_reinstalling_the_driver() -> None:
    bound_to_nouveau = (BUS[0]._replace(kernel_driver="nouveau"),)
    snapshot = host_without_module(Module.NOT_LOADED)._replace(pci_gpus=bound_to_nouveau)
    (finding,) = findings(snapshot)
    assert finding.cause is Cause.NOUVEAU_LOADED
    assert "update-initramfs" in fix_texts(finding)
    assert "ubuntu-drivers" not in fix_texts(finding)
    absent = tuple(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda"))
    bare = snapshot._replace(sources=(snapshot.sources[0], *absent))
    assert "ubuntu-drivers install" in fix_texts(findings(bare)[0])


@pytest.mark.parametrize(("device", "kind"), [("1b06", "proprietary"), ("2b85", "open"), ("2684", None)])
def test_the_module_kind_is_checked_before_excluding_nouveau(device: str, kind: str | None) -> None:
    bound_to_nouveau = (PciGpu("0000:01:00.0", "10de", device, None, "nouveau"),)
    (finding,) = findings(host_without_module(Module.NOT_LOADED)._replace(pci_gpus=bound_to_nouveau))
    assert ("modinfo" in (finding.fix[0].command or ())) is (kind is not None)
    assert kind is None or f"the {kind} ones" in finding.fix[0].text


def test_a_missing_nvidia_uvm_node_is_fixed_by_loading_the_module() -> None:
    snapshot = working(cuda=999)
    nodes = snapshot.driver.device_nodes
    lacking = snapshot._replace(driver=snapshot.driver._replace(device_nodes=nodes[:2]))
    (finding,) = findings(lacking)
    assert "nvidia-uvm" in finding.fix[0].text
