"""The shipped rows measured a second time, by other methods.

NVRTC compiles for every capability of any row, and must succeed for exactly those of its row. GPU code is found by its
magic number anywhere in a file. Symbol versions come from readelf, and the packages of extras from uv. Downloads some
gigabytes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

from gpuenv.data import data_path
from gpuenv.matrix.load import load
from gpuenv.matrix.tables import CudaMinor, Release, WheelLine
from gpuenv.refresh.binaries import CrossCheck, GpuCode, cross_check, read_binaries
from gpuenv.refresh.minors import compile_stub
from tests.matrix.dry_runs import plan_with_uv

pytestmark = [pytest.mark.network, pytest.mark.slow]

MATRIX = load(data_path("matrix.yaml"))
MEASURED = [row for row in MATRIX.cuda_minors if row.source.startswith("nvrtc-")]
LATEST = [
    (line, release)
    for line in MATRIX.wheel_lines
    for release in sorted(line.releases, key=lambda row: Version(row.cupy), reverse=True)[:3]
]
EXTRAS = [(line, release) for line, release in LATEST if release.extras]

_COMPILE = """
import ctypes, json, sys
ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL)
nvrtc = ctypes.CDLL(sys.argv[1])
done = {}
for arch in sys.argv[3:]:
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), b"__global__ void k(int *p) { *p = 1; }", None, 0, None, None)
    option = (ctypes.c_char_p * 1)(("-arch=sm_" + arch).encode())
    if nvrtc.nvrtcCompileProgram(program, 1, option) == 0:
        size = ctypes.c_size_t()
        nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetPTX(program, text)
        done[arch] = text.value.decode().split(".version ")[1].split()[0]
print(json.dumps(done))
"""


def _uv(*words: str | Path) -> None:
    command = [sys.executable, "-m", "uv", *map(str, words)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    assert result.returncode == 0, result.stderr


def _unpacked(requirement: str, digest: str, folder: Path, platform: str = "x86_64-manylinux_2_28") -> Path:
    """Installs the file with the digest that the matrix names."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{requirement} --hash=sha256:{digest}\n", encoding="utf-8")
    options = ("--python-version", "3.11", "--python-platform", platform, "--only-binary", ":all:", "--no-deps")
    _uv(
        "pip",
        "install",
        "--quiet",
        "--require-hashes",
        *options,
        "--target",
        folder / "u",
        "--requirements",
        requirements,
    )
    return folder / "u"


def _source_file(source: str) -> tuple[str, str]:
    """Returns the pinned requirement and the digest of the file that a row was read from."""
    source_row = MATRIX.sources[source]
    name, version = (source_row.file or "").split("-")[:2]
    return f"{name.replace('_', '-')}=={version}", source_row.sha256 or ""


@pytest.mark.parametrize("minor", MEASURED, ids=lambda row: str(row.cuda))
def test_nvrtc_compiles_for_exactly_the_capabilities_of_its_row(minor: CudaMinor, tmp_path: Path) -> None:
    folder = _unpacked(*_source_file(minor.source), tmp_path)
    (compiler,) = [path for path in folder.rglob("libnvrtc.so*") if ".alt." not in path.name]
    (builtins,) = [path for path in folder.rglob("libnvrtc-builtins.so*") if ".alt." not in path.name]
    architectures = sorted({str(c).replace(".", "") for row in MATRIX.cuda_minors for c in row.capabilities})
    command = [sys.executable, "-I", "-c", _COMPILE, str(compiler), str(builtins), *architectures]
    compiled = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout)
    assert set(compiled) == {str(capability).replace(".", "") for capability in minor.capabilities}
    assert set(compiled.values()) == {minor.ptx}
    assert (_soname(compiler), _soname(builtins)) == (minor.soname, minor.builtins)
    assert minor.libc is not None
    assert _symbols(folder, "GLIBC") <= Version(f"{minor.libc.major}.{minor.libc.minor}")


_FREE = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cudaFree(None))"


@pytest.mark.parametrize("minor", [row for row in MEASURED if row.cudart], ids=lambda row: str(row.cuda))
def test_a_cudart_accepts_the_driver_level_of_its_row_but_none_below(minor: CudaMinor, tmp_path: Path) -> None:
    """Tested with another call than the first measurement."""
    ((file, digest),) = MATRIX.sources[minor.source].also.items()
    name, version = file.split("-")[:2]
    folder = _unpacked(f"{name.replace('_', '-')}=={version}", digest, tmp_path)
    (runtime,) = folder.rglob("libcudart.so.*")
    assert minor.cudart is not None
    assert compile_stub(tmp_path, os.environ)
    codes = []
    for level in (minor.cudart.major * 1000 - 10, minor.cudart.major * 1000 + minor.cudart.minor * 10):
        environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "GPUENV_CUDA_LEVEL": str(level)}
        command = [sys.executable, "-I", "-c", _FREE, str(runtime)]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
        codes.append(int(result.stdout))
    assert codes == [35, 100]  # cudaErrorInsufficientDriver, cudaErrorNoDevice


def _soname(path: Path) -> str:
    readelf = shutil.which("readelf") or pytest.skip("no readelf")
    result = subprocess.run([readelf, "-W", "-d", path], capture_output=True, text=True, check=True, timeout=120)
    (name,) = re.findall(r"\(SONAME\) .*\[(\S+)\]", result.stdout)
    return str(name)


def _codes(folder: Path) -> tuple[set[str], set[str]]:
    """Returns SASS and PTX of every library, found by the magic number of their containers."""
    sass: set[str] = set()
    ptx: set[str] = set()
    for path in (*folder.rglob("*.so"), *folder.rglob("*.pyd")):
        data = path.read_bytes()
        for match in re.finditer(rb"\x50\xed\x55\xba\x01\x00\x10\x00", data):
            offset, end = match.start() + 16, match.start() + 16 + struct.unpack_from("<Q", data, match.start() + 8)[0]
            while offset < end:
                kind, _, header, size = struct.unpack_from("<HHIQ", data, offset)
                arch, flags = (
                    struct.unpack_from("<I", data, offset + 28)[0],
                    struct.unpack_from("<Q", data, offset + 40)[0],
                )
                suffix = {0x1: "a", 0x2: "f"}.get(flags >> 20 & 0x3, "")
                (sass if kind == 2 else ptx).add(f"{arch // 10}.{arch % 10}{suffix}")
                offset += header + size
    return sass, ptx


def _symbols(folder: Path, kind: str) -> Version:
    """Returns the newest symbol version that any file requires."""
    readelf = shutil.which("readelf") or pytest.skip("no readelf")
    versions = {"0"}
    for path in folder.rglob("*.so*"):
        result = subprocess.run([readelf, "-W", "-V", path], capture_output=True, text=True, check=True, timeout=120)
        versions |= set(re.findall(rf"Name: {kind}_([\d.]+) ", result.stdout))
    return max(map(Version, versions))


@pytest.mark.parametrize(("line", "release"), LATEST, ids=lambda row: getattr(row, "name", getattr(row, "cupy", "")))
def test_a_wheel_agrees_with_its_row(line: WheelLine, release: Release, tmp_path: Path) -> None:
    requirement, digest = _source_file(release.source)
    assert requirement == f"{line.name}=={release.cupy}"
    folder = _unpacked(requirement, digest, tmp_path)
    row = release.platforms["linux-x86_64"]
    sass, ptx = _codes(folder)
    assert (sass, ptx) == (set(row.sass or ()), set(row.ptx))
    assert row.libc is not None
    assert _symbols(folder, "GLIBC") <= Version(f"{row.libc.major}.{row.libc.minor}")
    if row.libstdcxx is not None:
        assert _symbols(folder, "GLIBCXX") == Version(row.libstdcxx)
    (metadata,) = folder.glob("cupy*.dist-info/METADATA")
    text = metadata.read_text(encoding="utf-8")
    assert f"Requires-Python: {release.requires_python}" in text
    numpy_requirements = re.findall(r"^Requires-Dist: numpy ?\(?([^\s;)]*)\)?$", text, re.MULTILINE)
    assert [set(entry.split(",")) for entry in numpy_requirements] == [set(release.numpy.split(","))]
    for extra in release.extras.values():
        assert f"Requires-Dist: {extra.requirement}" in text.replace("cuda-toolkit [", "cuda-toolkit[")


_UV_PLATFORMS = {
    "linux-aarch64": "aarch64-manylinux_2_28",
    "windows-x86_64": "x86_64-pc-windows-msvc",
    "windows-arm64": "aarch64-pc-windows-msvc",
}
ELSEWHERE = [
    (line, release, name)
    for line, release in LATEST
    for name, row in release.platforms.items()
    if name in _UV_PLATFORMS and row.sass is not None
]


@pytest.mark.parametrize(
    ("line", "release", "platform"), ELSEWHERE, ids=lambda row: getattr(row, "name", getattr(row, "cupy", row))
)
def test_gpu_code_for_other_platforms_agrees_with_the_row(
    line: WheelLine, release: Release, platform: str, tmp_path: Path
) -> None:
    row = release.platforms[platform]
    suffix = row.tag.rsplit("_", 1)[-1] if platform.startswith("linux") else row.tag
    (digest,) = {sha for file, sha in MATRIX.sources[release.source].also.items() if file.endswith(f"{suffix}.whl")}
    folder = _unpacked(f"{line.name}=={release.cupy}", digest, tmp_path, _UV_PLATFORMS[platform])
    assert _codes(folder) == (set(row.sass or ()), set(row.ptx))


def test_cuobjdump_finds_the_same_gpu_code(tmp_path: Path) -> None:
    """cuobjdump, installed from its wheel, reads only recent GPU code."""
    _uv("pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "tool", "nvidia-cuda-cuobjdump")
    (program,) = [path for path in (tmp_path / "tool").rglob("cuobjdump") if path.is_file()]
    release = next(row for line in MATRIX.wheel_lines if line.name == "cupy-cuda13x" for row in line.releases)
    codes = read_binaries(_unpacked(*_source_file(release.source), tmp_path)).by_file
    assert len(codes) == 3
    assert cross_check(program, codes, os.environ) == CrossCheck()
    (path, code), *_ = codes.items()
    wrong = cross_check(program, {path: GpuCode(code.sass[1:], code.ptx, code.ptx_versions)}, os.environ)
    assert len(wrong.differences) == 1


@pytest.mark.parametrize(("line", "release"), EXTRAS, ids=lambda row: getattr(row, "name", getattr(row, "cupy", "")))
def test_an_extra_resolves_to_a_known_toolkit_of_its_major(line: WheelLine, release: Release) -> None:
    plan = plan_with_uv(f"{line.name}[ctk]=={release.cupy}", python="3.12")
    toolkit = Version(plan["cuda-toolkit"])
    offered = {str(row.cuda) for row in MATRIX.cuda_minors if row.toolkit_wheels}
    assert toolkit.major == line.cuda_major
    assert f"{toolkit.major}.{toolkit.minor}" in offered
    libraries = ("cuda-nvrtc", "cuda-runtime", "cublas", "cufft", "curand", "cusolver", "cusparse")
    suffix = "-cu12" if line.cuda_major == 12 else ""
    assert {f"nvidia-{name}{suffix}" for name in libraries} <= set(plan)
