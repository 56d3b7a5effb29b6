"""Files of the driver's libraries: in every driver folder, through links, and in mounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.probe.probe_runs import kernel_of
from tests.probe.raw_facts import RawLibrary
from tests.probe.roots import make_root

if TYPE_CHECKING:
    from pathlib import Path

LIBRARY = "usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01"


@pytest.mark.parametrize(
    ("mounts", "mounted"),
    [
        (None, None),
        (("/",), False),
        (("/", f"/{LIBRARY}"), True),
        (("/", "/usr/lib/x86_64-linux-gnu"), True),
        (("/", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"), False),
        (("/", "/usr/lib/x86_64"), False),
    ],
)
def test_a_mounted_library_is_not_part_of_the_image(
    tmp_path: Path,
    mounts: tuple[str, ...] | None,
    mounted: bool | None,  # noqa: FBT001 - a table
) -> None:
    root = make_root(tmp_path, {LIBRARY: ""})
    (root / "usr/lib/x86_64-linux-gnu/libcuda.so.1").symlink_to("libcuda.so.550.163.01")
    if mounts is not None:
        lines = (f"{n} 1 8:1 /x {point} rw - ext4 /dev/sda1 rw" for n, point in enumerate(mounts))
        make_root(root, {"proc/self/mountinfo": "\n".join(lines) + "\nshort line\n"})
    assert kernel_of(root).libraries == (RawLibrary(f"/{LIBRARY}", mounted),)


def test_every_library_in_every_driver_folder_is_listed_once(tmp_path: Path) -> None:
    paths = (
        LIBRARY,
        "usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01",
        "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.163.01",
        "usr/lib/aarch64-linux-gnu/libcuda.so.550.163.01",
        "usr/lib64/libcuda.so.550.163.01",
        "usr/lib/libcuda.so.550.163.01",
        "usr/lib64-nvidia/libcuda.so.1",
        "usr/local/nvidia/lib64/libcuda.so.1",
        "var/lib/nvidia/lib64/libcuda.so.1",
        "usr/local/lib/libcuda.so.1",
        "usr/lib/wsl/lib/libcuda.so.1.1",
        ".singularity.d/libs/libcuda.so.1",
        "usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1",
        "usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1",
        "usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1.1",
        "usr/lib/x86_64-linux-gnu/GL/nvidia-580-82-07/lib/libcuda.so.580.82.07",
        "usr/local/cuda-12.4/compat/libcuda.so.550.54.15",
        "usr/local/cuda-12.4/lib64/stubs/libcuda.so",
    )
    others = ("libcudart.so.12", "libcuda.so.550.bak", "libcudadebugger.so.1", "libnvidia-ml.so.txt")
    root = make_root(tmp_path, {**dict.fromkeys(paths, ""), **{f"usr/lib64/{name}": "" for name in others}})
    (root / "usr/local/cuda").symlink_to("cuda-12.4")
    (root / "usr/lib64/libcuda.so.1").symlink_to("libcuda.so.550.163.01")
    (root / "usr/lib64/libcuda.so.9").symlink_to("nothing")
    assert {entry.path for entry in kernel_of(root).libraries} == {f"/{path}" for path in paths}


def test_a_link_into_the_store_is_followed_below_the_root(tmp_path: Path) -> None:
    root = make_root(tmp_path, {"nix/store/b-nvidia/lib/libcuda.so.545.29.06": ""})
    (root / "run").mkdir()
    (root / "nix/store/a-drivers").mkdir()
    (root / "run/opengl-driver").symlink_to("/nix/store/a-drivers")
    (root / "nix/store/a-drivers/lib").symlink_to("../b-nvidia/./lib")
    (root / "nix/store/b-nvidia/lib/libcuda.so.1").symlink_to("/nix/store/b-nvidia/lib/libcuda.so.545.29.06")
    assert [entry.path for entry in kernel_of(root).libraries] == ["/nix/store/b-nvidia/lib/libcuda.so.545.29.06"]


def test_link_loops_and_links_above_the_root_do_not_stop_the_script(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "usr").mkdir(parents=True)
    (root / "usr/lib64").symlink_to("/usr/lib64")
    (root / "etc").mkdir()
    (tmp_path / "os-release").write_text("ID=outside\n", encoding="utf-8")
    (root / "etc/os-release").symlink_to("../../os-release")
    facts = kernel_of(root)
    assert facts.libraries == ()
    assert facts.distribution is None
