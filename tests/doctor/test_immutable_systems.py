"""Systems that a package manager does not change in place: ostree images, NixOS, transactional systems."""

from __future__ import annotations

import pytest

from gpuenv.doctor.fixes.adaptation import adapt_for_ostree
from gpuenv.doctor.fixes.distributions import other_kernel_modules_fixes
from gpuenv.model.finding import Finding, Fix
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import Container, Driver, Host, Module, PciGpu, Snapshot, Source, SourceState
from tests.doctor.kernel_hosts import findings

ADA, PASCAL, UNKNOWN = "27b8", "1b81", "3fff"


def without_driver(distribution: str, device: str, *, image: str | None = None) -> Snapshot:
    absent = tuple(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda"))
    return Snapshot(
        host=Host(
            os=known("linux", "uname"),
            container=known(Container.NONE, "marks"),
            distribution=known(distribution, "os-release"),
            image=known(image, "/run/ostree-booted") if image else Reading(),
        ),
        driver=Driver(module=known(Module.NOT_INSTALLED, "/lib/modules")),
        pci_gpus=(PciGpu("0000:01:00.0", "10de", device, None, None),),
        sources=(Source("kernel", SourceState.ANSWERED), *absent),
    )


def fix_texts(finding: Finding) -> str:
    return "\n".join(f"{fix.text} {' '.join(fix.command or ())}" for fix in finding.fix)


def test_packages_are_layered_onto_an_image() -> None:
    (finding,) = findings(without_driver("fedora 43", ADA, image="ostree"))
    assert "rpm-ostree install akmod-nvidia" in fix_texts(finding)
    assert "rpm-ostree kargs" in fix_texts(finding)
    assert "blacklist=nouveau,nova_core" in fix_texts(finding)
    commands = [" ".join(fix.command or ()) for fix in finding.fix if fix.command]
    assert (
        commands.index("sudo systemctl reboot") == [c.startswith("sudo rpm-ostree") for c in commands].index(True) + 1
    )
    assert "akmods" not in fix_texts(finding)
    assert "dnf" not in fix_texts(finding)
    (plain,) = findings(without_driver("fedora 43", ADA))
    assert "sudo dnf install akmod-nvidia" in fix_texts(plain)
    assert "rpm-ostree" not in fix_texts(plain)


@pytest.mark.parametrize(
    ("fix", "layered"),
    [
        (Fix("x", ("sudo", "dnf", "install", "--allowerasing", "a", "b")), ("sudo", "rpm-ostree", "install", "a", "b")),
        (Fix("x", ("sudo", "dnf", "distro-sync")), None),
        (Fix("x", ("sudo", "dnf", "module", "install", "nvidia-driver:580-dkms")), None),
        (Fix("x", ("sudo", "dnf", "module", "enable", "nvidia-driver:open-dkms")), None),
        (Fix("x", ("sudo", "dnf", "install", "@nvidia-driver:580-dkms")), None),
        (Fix("x", ("sudo", "dnf", "-y", "install", "a-1.0")), ("sudo", "rpm-ostree", "install", "a-1.0")),
        (
            Fix("x", ("sudo", "dnf", "install", "https://example.org/a-1.noarch.rpm")),
            ("sudo", "rpm-ostree", "install", "https://example.org/a-1.noarch.rpm"),
        ),
        (Fix("x", ("sudo", "dracut", "--force")), None),
        (Fix("x", ("sudo", "akmods", "--force")), None),
        (Fix("x", ("sudo", "modprobe", "nvidia")), ("sudo", "modprobe", "nvidia")),
        (Fix("x"), None),
    ],
)
def test_commands_that_modify_the_root_are_dropped_on_ostree(fix: Fix, layered: tuple[str, ...] | None) -> None:
    assert adapt_for_ostree([fix], "ostree")[0].command == layered
    assert adapt_for_ostree([fix], None) == (fix,)


@pytest.mark.parametrize(
    ("device", "included", "excluded"),
    [
        (ADA, ("videoDrivers", "open = true"), ("legacy_",)),
        (PASCAL, ("videoDrivers", "open = false", "legacy_580"), ()),
        (UNKNOWN, ("videoDrivers",), ("open =", "legacy_")),
    ],
)
def test_nixos_is_fixed_by_its_configuration(device: str, included: tuple[str, ...], excluded: tuple[str, ...]) -> None:
    (finding,) = findings(without_driver("nixos 25.11", device))
    assert all(words in fix_texts(finding) for words in included)
    assert not any(words in fix_texts(finding) for words in excluded)


@pytest.mark.parametrize(("device", "ending"), [(ADA, "-nvidia-open."), (PASCAL, "-nvidia."), (UNKNOWN, "-nvidia for")])
@pytest.mark.parametrize("name", ["bazzite 43", "bluefin 43", "aurora 43"])
def test_universal_blue_images_are_rebased_to_an_nvidia_image(name: str, device: str, ending: str) -> None:
    snapshot = without_driver(name, device, image="ostree")
    (finding,) = findings(snapshot._replace())
    assert ending in fix_texts(finding)
    assert "rebase" in fix_texts(finding)


@pytest.mark.parametrize("name", ["opensuse-microos 20261110", "sl-micro 6.1"])
def test_transactional_systems_get_no_zypper_command(name: str) -> None:
    (finding,) = findings(without_driver(name, ADA))
    assert "transactional-update" in fix_texts(finding)
    assert not any(fix.command and "zypper" in fix.command for fix in finding.fix)


@pytest.mark.parametrize(("wants_open", "value"), [(True, "true"), (False, "false")])
def test_nixos_selects_the_kind_of_modules_by_an_option(wants_open: bool, value: str) -> None:  # noqa: FBT001 - a table
    (fix,) = other_kernel_modules_fixes(without_driver("nixos 25.05", ADA), wants_open=wants_open)
    assert f"hardware.nvidia.open = {value};" in fix.text
    assert (
        "configuration.nix"
        not in other_kernel_modules_fixes(without_driver("fedora 43", ADA), wants_open=wants_open)[0].text
    )


def held_by_nouveau(snapshot: Snapshot, *, blocked: bool = False) -> Snapshot:
    """The driver is installed, and nouveau has the GPU."""
    failed = tuple(Source(name, SourceState.FAILED) for name in ("nvml", "libcuda"))
    blocks = ("/etc/modprobe.d/x.conf: blacklist nvidia",)
    return snapshot._replace(
        driver=Driver(
            module=known(Module.NOT_LOADED, "/lib/modules"),
            module_blocks=known(blocks, "modprobe.d") if blocked else Reading(),
        ),
        pci_gpus=tuple(gpu._replace(kernel_driver="nouveau") for gpu in snapshot.pci_gpus or ()),
        sources=(Source("kernel", SourceState.ANSWERED), *failed),
    )


@pytest.mark.parametrize("blocked", [False, True])
def test_nixos_excludes_nouveau_in_its_configuration(*, blocked: bool) -> None:
    (finding,) = findings(held_by_nouveau(without_driver("nixos 25.05", ADA), blocked=blocked))
    assert "configuration.nix" in fix_texts(finding)
    assert "modprobe.d" not in fix_texts(finding)
    assert "initramfs" not in fix_texts(finding)


@pytest.mark.parametrize("blocked", [False, True])
def test_ostree_excludes_nouveau_with_kernel_arguments(*, blocked: bool) -> None:
    (finding,) = findings(held_by_nouveau(without_driver("fedora 43", ADA, image="ostree"), blocked=blocked))
    assert "rpm-ostree kargs" in fix_texts(finding)
    assert "blacklist nouveau" not in fix_texts(finding)
    assert blocked or "initramfs" not in fix_texts(finding)
    (plain,) = findings(held_by_nouveau(without_driver("fedora 43", ADA), blocked=blocked))
    assert "blacklist nouveau" in fix_texts(plain)


def test_a_layered_older_branch_needs_kernel_arguments() -> None:
    (finding,) = findings(without_driver("fedora 41", PASCAL, image="ostree"))
    assert "rpm-ostree install akmod-nvidia-580xx" in fix_texts(finding)
    assert "rpm-ostree kargs" in fix_texts(finding)
