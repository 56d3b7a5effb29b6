"""The package with the headers of a kernel, by its distribution and its kind."""

from __future__ import annotations

import pytest

from gpuenv.doctor.fixes.distributions import headers_package


@pytest.mark.parametrize(
    ("family", "distribution", "kernel", "package"),
    [
        ("ubuntu", "ubuntu 24.04", "6.8.0-60-generic", "linux-headers-6.8.0-60-generic"),
        ("debian", "debian 12", "6.1.0-32-amd64", "linux-headers-6.1.0-32-amd64"),
        ("debian", "debian 12", "6.8.12-9-pve", "proxmox-headers-6.8.12-9-pve"),
        ("debian", "debian 12", "6.5.11-7-pve", "proxmox-headers-6.5.11-7-pve"),
        ("debian", "debian 11", "5.15.158-2-pve", "pve-headers-5.15.158-2-pve"),
        ("fedora", "fedora 42", "6.17.8-200.fc42.x86_64", "kernel-devel-6.17.8-200.fc42.x86_64"),
        ("rhel", "rhel 9.6", "5.14.0-570.el9.aarch64+64k", "kernel-64k-devel-5.14.0-570.el9.aarch64"),
        ("rhel", "rhel 9.6", "5.14.0-570.el9.x86_64+rt", "kernel-rt-devel-5.14.0-570.el9.x86_64"),
        ("rhel", "ol 9.5", "5.15.0-306.el9uek.x86_64", "kernel-uek-devel-5.15.0-306.el9uek.x86_64"),
        ("rhel", "ol 9.5", "5.14.0-503.el9_5.x86_64", "kernel-devel-5.14.0-503.el9_5.x86_64"),
        ("rhel", "amzn 2", "5.10.236-228.amzn2.x86_64", "kernel-devel-5.10.236-228.amzn2.x86_64"),
        ("rhel", "amzn 2023", "6.1.156-177.amzn2023.x86_64", "kernel-devel-6.1.156-177.amzn2023.x86_64"),
        ("rhel", "amzn 2023", "6.12.55-74.amzn2023.x86_64", "kernel6.12-devel-6.12.55-74.amzn2023.x86_64"),
        ("suse", "opensuse-leap 15.6", "6.4.0-150600.23.65-default", "kernel-default-devel"),
        ("suse", "sles 15.6", "6.4.0-150600.8.40-azure", "kernel-azure-devel"),
        ("suse", "sles 15.6", "6.4.0-150600.23.65-64kb", "kernel-64kb-devel"),
        ("arch", "arch rolling", "6.18.2-arch2-1", "linux-headers"),
        ("arch", "arch rolling", "6.12.60-1-lts", None),
        ("", "gentoo 2.17", "6.12.58-gentoo", None),
    ],
)
def test_each_kind_of_kernel_has_a_package_of_its_own(
    family: str, distribution: str, kernel: str, package: str | None
) -> None:
    assert headers_package(family, distribution, kernel) == package
