"""A kernel module that a file or a parameter keeps out, or whose GPU is kept for something else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.matrix.records import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import DkmsBuild, Module, Source, SourceState
from tests.doctor.kernel_hosts import BUS, findings
from tests.doctor.module_hosts import BUILT, host_without_module, with_reading


@pytest.mark.parametrize(
    ("block", "distribution", "commands"),
    [
        ("/lib/modprobe.d/blacklist-nvidia.conf: alias nvidia off", "ubuntu 24.04", ["sudo prime-select on-demand"]),
        (
            "/usr/lib/modprobe.d/blacklist-nvidia.conf: alias nvidia off",
            "linuxmint 22",
            ["sudo prime-select on-demand"],
        ),
        ("/etc/modprobe.d/blacklist-nvidia.conf: alias nvidia off", "ubuntu 24.04", ["sudo update-initramfs -u"]),
        ("/etc/modprobe.d/blacklist-nvidia.conf: alias nvidia off", "fedora 42", ["sudo dracut --force"]),
        ("/usr/lib/modprobe.d/blacklist-nvidia.conf: alias nvidia off", "fedora 42", ["sudo dracut --force"]),
        ("/etc/modprobe.d/system76-power.conf: alias nvidia off", "pop 22.04", ["sudo update-initramfs -u"]),
        (
            "/etc/modprobe.d/x.conf: blacklist nvidia",
            "ubuntu 24.04",
            ["sudo modprobe nvidia", "sudo update-initramfs -u"],
        ),
        ("/etc/modprobe.d/x.conf: install nvidia /bin/false", "fedora 42", ["sudo dracut --force"]),
        ("/etc/modprobe.d/x.conf: blacklist nvidia", "arch", ["sudo modprobe nvidia", "sudo mkinitcpio -P"]),
        ("/proc/cmdline: modprobe.blacklist=nvidia", "arch", ["sudo modprobe nvidia"]),
        ("/proc/cmdline: module_blacklist=nvidia", "arch", []),
    ],
)
def test_what_keeps_the_module_out_is_taken_out(
    matrix: Matrix, block: str, distribution: str, commands: list[str]
) -> None:
    snapshot = with_reading(host_without_module(Module.NOT_LOADED, BUILT), distribution, module_blocks=(block,))
    (finding,) = findings(snapshot, matrix)
    assert finding.cause is Cause.DRIVER_MODULE_NOT_LOADED
    assert block in {entry.value for entry in finding.evidence}
    assert [" ".join(fix.command) for fix in finding.fix if fix.command] == commands
    loaded = replace(snapshot, driver=replace(snapshot.driver, module=known(Module.LOADED, "x"), nvml_init=Reading()))
    assert not any(entry.code == "DRV105" for entry in findings(loaded, matrix))


@pytest.mark.parametrize(
    ("module", "code"), [(Module.NOT_LOADED, "DRV105"), (Module.NOT_INSTALLED, "DRV105"), (None, "DRV106")]
)
@pytest.mark.parametrize("nouveau", [True, False])
def test_a_host_that_passes_its_gpus_on_is_not_told_to_take_them_back(
    matrix: Matrix,
    module: Module | None,
    code: str,
    nouveau: bool,  # noqa: FBT001 - a table
) -> None:
    block = "/etc/modprobe.d/passthrough.conf: blacklist nvidia"
    snapshot = with_reading(host_without_module(module or Module.NOT_INSTALLED), "debian 12", module_blocks=(block,))
    driver = replace(snapshot.driver, nouveau=known(nouveau, "x"))
    sources = snapshot.sources
    if module is None:
        driver = replace(driver, nvml_init=Reading())
        sources = (sources[0], *(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda")))
    gpus = tuple(replace(BUS[0], pci=pci, kernel_driver="vfio-pci") for pci in ("0000:01:00.0", "0000:02:00.0"))
    held = replace(snapshot, driver=driver, sources=sources, pci_gpus=gpus)
    (finding,) = findings(held, matrix)
    assert finding.code == code
    assert "vfio-pci" in finding.title
    assert {f"kernel driver of {gpu.pci}" for gpu in gpus} <= {entry.fact for entry in finding.evidence}
    assert [fix.command for fix in finding.fix] == [None, None]
    assert not any(word in fix.text for fix in finding.fix for word in ("Take out", "nstall", "Load"))
    unbuilt = DkmsBuild("nvidia", "550.163.01")
    (finding,) = findings(replace(held, driver=replace(driver, dkms=(unbuilt,))), matrix)
    assert (finding.code, "vfio-pci" in finding.title) == (code, True)
    one_left = replace(held, pci_gpus=(gpus[0], replace(gpus[1], kernel_driver=None)))
    assert not any("virtual machine" in fix.text for found in findings(one_left, matrix) for fix in found.fix)


def test_a_line_that_only_hides_the_aliases_leaves_the_other_cures_standing(matrix: Matrix) -> None:
    block = "/etc/modprobe.d/x.conf: blacklist nvidia"
    snapshot = with_reading(host_without_module(Module.NOT_LOADED, BUILT), module_blocks=(block,))
    secure = replace(snapshot, host=replace(snapshot.host, secure_boot=known(True, "SecureBoot")))
    (finding,) = findings(secure, matrix)
    assert [(fix.command or ("",) * 2)[1] for fix in finding.fix] == ["modprobe", "mokutil", "", "", "update-initramfs"]
    assert any(block in fix.text for fix in finding.fix)


def test_what_concerns_the_initial_disk_alone_does_not_keep_the_module_out(matrix: Matrix) -> None:
    plain = with_reading(host_without_module(Module.NOT_LOADED, BUILT))
    block = "/proc/cmdline: rd.driver.blacklist=nvidia"
    snapshot = with_reading(host_without_module(Module.NOT_LOADED, BUILT), module_blocks=(block,))
    (finding,), (usual,) = findings(snapshot, matrix), findings(plain, matrix)
    assert finding.fix == usual.fix


def test_a_blocked_module_that_is_not_installed_is_installed_first(matrix: Matrix) -> None:
    block = "/etc/modprobe.d/x.conf: blacklist nvidia"
    snapshot = with_reading(host_without_module(Module.NOT_INSTALLED), module_blocks=(block,))
    (finding,) = findings(snapshot, matrix)
    texts = [fix.text for fix in finding.fix]
    (out,) = (number for number, text in enumerate(texts) if block in text)
    assert 0 < out < texts.index("Then load it.")


@pytest.mark.parametrize(
    ("module", "block", "chosen"),
    [
        (Module.NOT_LOADED, "/etc/modprobe.d/x.conf: blacklist nvidia", True),
        (Module.NOT_LOADED, "/proc/cmdline: modprobe.blacklist=nvidia", True),
        (Module.NOT_LOADED, "/proc/cmdline: rd.driver.blacklist=nvidia", False),
        (Module.NOT_INSTALLED, "/etc/modprobe.d/x.conf: blacklist nvidia", False),
        (Module.NOT_LOADED, None, False),
    ],
)
def test_where_nouveau_was_chosen_the_block_is_named_and_no_driver_installed(
    matrix: Matrix,
    module: Module,
    block: str | None,
    chosen: bool,  # noqa: FBT001 - a table
) -> None:
    snapshot = with_reading(host_without_module(module), module_blocks=(block,) if block else ())
    held = replace(snapshot, pci_gpus=(replace(BUS[0], kernel_driver="nouveau"),))
    (finding,) = findings(held, matrix)
    assert finding.code == "DRV104"
    assert any(block is not None and block in fix.text for fix in finding.fix) is chosen
    missing = module is Module.NOT_INSTALLED  # one whose module is there is not installed again, whoever chose nouveau
    assert any("Install the NVIDIA driver" in fix.text for fix in finding.fix) is missing
    assert (block in {entry.value for entry in finding.evidence}) or not chosen
