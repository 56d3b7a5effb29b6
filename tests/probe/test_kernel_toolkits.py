"""The CUDA toolkits that the kernel script finds below a driver root, and their versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.probe.probe_runs import kernel_of
from tests.probe.roots import make_root

TOOLKIT = {
    "version.json": '{"cuda": {"name": "CUDA SDK", "version": "12.4.20240301"}, "cuda_nvrtc": {"version": "12.4.127"}}',
    "include/cuda.h": "#ifndef cuda_h\n#define CUDA_VERSION 12060\n#endif\n",
    "version.txt": "CUDA Version 10.2.89\n",
}


@pytest.mark.parametrize(
    ("files", "facts"),
    [
        (TOOLKIT, ("12.4.20240301", "version.json")),
        ({**TOOLKIT, "version.json": "{"}, ("12.6", "cuda.h")),
        ({**TOOLKIT, "version.json": "[]"}, ("12.6", "cuda.h")),
        ({**TOOLKIT, "version.json": '{"cuda": "12.4"}'}, ("12.6", "cuda.h")),
        ({**TOOLKIT, "version.json": '{"cuda": {"version": 12.4}}'}, ("12.6", "cuda.h")),
        ({**TOOLKIT, "version.json": "\xff\xfe"}, ("12.6", "cuda.h")),
        ({"targets/sbsa-linux/include/cuda.h": "#define CUDA_VERSION 13000\n"}, ("13.0", "cuda.h")),
        ({"include/cuda.h": "#define  CUDA_VERSION\t11080 /* 11.8 */\n"}, ("11.8", "cuda.h")),
        ({"version.txt": "CUDA Version 10.2.89\n"}, ("10.2", "version.txt")),
    ],
)
def test_the_version_of_a_toolkit_is_read_from_its_files(
    tmp_path: Path, files: dict[str, str], facts: tuple[str, str]
) -> None:
    root = make_root(tmp_path, {f"usr/local/cuda-12.4/{path}": text for path, text in files.items()})
    (toolkit,) = kernel_of(root).toolkits
    assert (toolkit.path, toolkit.found_via) == ("/usr/local/cuda-12.4", "folder")
    assert (toolkit.toolkit, toolkit.source) == facts


@pytest.mark.parametrize(
    "files",
    [{"bin/nvcc": ""}, {"compat/libcuda.so.550.54.15": ""}, {"include/cuda.h": "no version\n"}, {"version.txt": "?"}],
)
def test_a_folder_without_a_version_is_not_a_toolkit(tmp_path: Path, files: dict[str, str]) -> None:
    root = make_root(tmp_path, {f"usr/local/cuda-12.4/{path}": text for path, text in files.items()})
    assert kernel_of(root).toolkits == ()


def test_a_distributions_toolkit_has_nvrtc_in_a_multiarch_folder(tmp_path: Path) -> None:
    """Such as Debian's: /usr/bin/nvcc, /usr/include/cuda.h, and libnvrtc11.2 below the multiarch folder."""
    files = {"usr/include/cuda.h": "#define CUDA_VERSION 11080\n", "usr/include/cuda_runtime.h": ""}
    root = make_root(tmp_path, {**files, "usr/lib/x86_64-linux-gnu/libnvrtc.so.11.8.89": "", "usr/bin/nvcc": ""})
    (root / "usr/bin/nvcc").chmod(0o755)
    (toolkit,) = kernel_of(root, {"PATH": "/usr/bin"}).toolkits
    assert (toolkit.path, toolkit.found_via, toolkit.toolkit) == ("/usr", "PATH", "11.8")
    assert (toolkit.nvcc, toolkit.has_nvrtc, toolkit.has_headers) == (True, True, True)


def test_the_default_link_is_not_a_second_toolkit(tmp_path: Path) -> None:
    root = make_root(tmp_path, {"usr/local/cuda-12.4/version.json": TOOLKIT["version.json"]})
    (root / "usr/local/cuda").symlink_to("cuda-12.4")
    (root / "usr/local/cuda-12").symlink_to("cuda-12.4")
    assert [toolkit.path for toolkit in kernel_of(root).toolkits] == ["/usr/local/cuda-12.4"]


def test_an_absolute_link_stays_below_the_root(tmp_path: Path) -> None:
    root = make_root(tmp_path / "root", {"usr/local/cuda-12.4/version.txt": "CUDA Version 12.4.1\n"})
    (root / "opt").mkdir()
    (root / "opt/cuda").symlink_to("/usr/local/cuda-12.4")
    (root / "usr/local/cuda").symlink_to(make_root(tmp_path / "elsewhere", {"version.txt": "CUDA Version 9.0.1\n"}))
    assert [toolkit.toolkit for toolkit in kernel_of(root).toolkits] == ["12.4"]


def test_toolkits_of_variables_are_listed_first(tmp_path: Path) -> None:
    root = make_root(
        tmp_path,
        {
            "usr/local/cuda-11.8/version.json": '{"cuda": {"version": "11.8.0"}}',
            "usr/local/cuda-12.4/version.json": TOOLKIT["version.json"],
            "opt/cuda/version.json": '{"cuda": {"version": "13.0.1"}}',
            "home/me/cuda/version.txt": "CUDA Version 12.1.0\n",
            "apps/cuda/12.6/version.txt": "CUDA Version 12.6.0\n",
            "apps/cuda/12.6/bin/nvcc": "",
        },
    )
    (root / "apps/cuda/12.6/bin/nvcc").chmod(0o755)
    environment = {
        "CUDA_PATH": "/home/me/cuda",
        "CUDA_HOME": "/usr/local/cuda-11.8/",
        "PATH": f"/apps/cuda/12.6/bin:{os.defpath}",
    }
    assert [(toolkit.path, toolkit.found_via) for toolkit in kernel_of(root, environment).toolkits] == [
        ("/home/me/cuda", "CUDA_PATH"),
        ("/usr/local/cuda-11.8", "CUDA_HOME"),
        ("/apps/cuda/12.6", "PATH"),
        ("/usr/local/cuda-12.4", "folder"),
        ("/opt/cuda", "folder"),
    ]


def test_a_variable_that_names_a_missing_folder_adds_no_toolkit(tmp_path: Path) -> None:
    environment = {"CUDA_PATH": "/nowhere", "CUDA_HOME": ""}
    assert kernel_of(make_root(tmp_path, {"etc/os-release": ""}), environment).toolkits == ()


def test_nvrtc_and_headers_of_a_toolkit_are_found(tmp_path: Path) -> None:
    full = {"lib64/libnvrtc.so.12": "", "include/cuda_runtime.h": "", "version.txt": "CUDA Version 12.4.1\n"}
    arm = {
        "targets/sbsa-linux/lib/libnvrtc.so.12.4.127": "",
        "targets/sbsa-linux/include/cuda_runtime.h": "",
        "version.txt": "CUDA Version 12.6.0\n",
    }
    bare = {"version.txt": "CUDA Version 12.8.0\n"}
    kits = {"12.4": full, "12.6": arm, "12.8": bare}
    files = {f"usr/local/cuda-{n}/{path}": text for n, toolkit in kits.items() for path, text in toolkit.items()}
    facts = {
        toolkit.toolkit: (toolkit.has_nvrtc, toolkit.has_headers)
        for toolkit in kernel_of(make_root(tmp_path, files)).toolkits
    }
    assert facts == {"12.4": (True, True), "12.6": (True, True), "12.8": (False, False)}
