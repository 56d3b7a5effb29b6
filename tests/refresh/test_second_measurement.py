"""The shipped rows measured a second time, in other ways than they were measured at first: no contradiction.

NVRTC is not asked for its list: it is made to compile for every capability that any row knows, and for those alone of
its own row may it succeed. GPU code is found by its magic number anywhere in a file, without the file's sections.
Symbol versions are those that readelf tells. What the extras bring is what uv resolves. Some gigabytes are downloaded.
"""

from __future__ import annotations

import json
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
from gpuenv.matrix.records import CudaMinor, Release, WheelLine
from tests.matrix.dry_runs import by_uv

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
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stderr


def _unpacked(requirement: str, digest: str, folder: Path, platform: str = "x86_64-manylinux_2_28") -> Path:
    """The very file that the matrix names: any other one has another digest."""
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{requirement} --hash=sha256:{digest}\n", encoding="utf-8")
    where = ("--python-version", "3.11", "--python-platform", platform, "--only-binary", ":all:", "--no-deps")
    _uv("pip", "install", "--quiet", "--require-hashes", *where, "--target", folder / "u", "--requirements", wanted)
    return folder / "u"


def _proof(source: str) -> tuple[str, str]:
    """The pinned requirement and the digest of the file that a row was read from."""
    told = MATRIX.sources[source]
    name, version = (told.file or "").split("-")[:2]
    return f"{name.replace('_', '-')}=={version}", told.sha256 or ""


@pytest.mark.parametrize("minor", MEASURED, ids=lambda row: str(row.cuda))
def test_nvrtc_compiles_for_exactly_the_capabilities_of_its_row(minor: CudaMinor, tmp_path: Path) -> None:
    folder = _unpacked(*_proof(minor.source), tmp_path)
    (compiler,) = [path for path in folder.rglob("libnvrtc.so*") if ".alt." not in path.name]
    (builtins,) = [path for path in folder.rglob("libnvrtc-builtins.so*") if ".alt." not in path.name]
    every = sorted({str(c).replace(".", "") for row in MATRIX.cuda_minors for c in row.capabilities})
    command = [sys.executable, "-I", "-c", _COMPILE, str(compiler), str(builtins), *every]
    done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout)
    assert set(done) == {str(capability).replace(".", "") for capability in minor.capabilities}
    assert set(done.values()) == {minor.ptx}


def _codes(folder: Path) -> tuple[set[str], set[str]]:
    """SASS and PTX of every library, found by the magic number of their containers."""
    sass: set[str] = set()
    ptx: set[str] = set()
    for path in folder.rglob("*.so"):
        data = path.read_bytes()
        for found in re.finditer(rb"\x50\xed\x55\xba\x01\x00\x10\x00", data):
            place, end = found.start() + 16, found.start() + 16 + struct.unpack_from("<Q", data, found.start() + 8)[0]
            while place < end:
                kind, _, header, size = struct.unpack_from("<HHIQ", data, place)
                arch, flags = (
                    struct.unpack_from("<I", data, place + 28)[0],
                    struct.unpack_from("<Q", data, place + 40)[0],
                )
                suffix = {0x1: "a", 0x2: "f"}.get(flags >> 20 & 0x3, "")
                (sass if kind == 2 else ptx).add(f"{arch // 10}.{arch % 10}{suffix}")
                place += header + size
    return sass, ptx


def _glibc(folder: Path) -> Version:
    readelf = shutil.which("readelf") or pytest.skip("no readelf")
    found = set()
    for path in folder.rglob("*.so"):
        done = subprocess.run([readelf, "-W", "-V", path], capture_output=True, text=True, check=True, timeout=120)
        found |= set(re.findall(r"Name: GLIBC_([\d.]+)", done.stdout))
    return max(map(Version, found))


@pytest.mark.parametrize(("line", "release"), LATEST, ids=lambda row: getattr(row, "name", getattr(row, "cupy", "")))
def test_a_wheel_is_what_its_row_says(line: WheelLine, release: Release, tmp_path: Path) -> None:
    requirement, digest = _proof(release.source)
    assert requirement == f"{line.name}=={release.cupy}"
    folder = _unpacked(requirement, digest, tmp_path)
    row = release.platforms["linux-x86_64"]
    sass, ptx = _codes(folder)
    assert (sass, ptx) == (set(row.sass or ()), set(row.ptx))
    assert row.libc is not None
    assert _glibc(folder) <= Version(f"{row.libc.major}.{row.libc.minor}")
    (metadata,) = folder.glob("cupy*.dist-info/METADATA")
    text = metadata.read_text(encoding="utf-8")
    assert f"Requires-Python: {release.requires_python}" in text
    told = re.findall(r"^Requires-Dist: numpy ?\(?([^\s;)]*)\)?$", text, re.MULTILINE)
    assert [set(entry.split(",")) for entry in told] == [set(release.numpy.split(","))]
    for extra in release.extras.values():
        assert f"Requires-Dist: {extra.requirement}" in text.replace("cuda-toolkit [", "cuda-toolkit[")


@pytest.mark.parametrize(("line", "release"), EXTRAS, ids=lambda row: getattr(row, "name", getattr(row, "cupy", "")))
def test_what_an_extra_brings_is_of_its_major_and_of_minors_that_are_known(line: WheelLine, release: Release) -> None:
    plan = by_uv(f"{line.name}[ctk]=={release.cupy}", python="3.12")
    toolkit = Version(plan["cuda-toolkit"])
    offered = {str(row.cuda) for row in MATRIX.cuda_minors if row.toolkit_wheels}
    assert toolkit.major == line.cuda_major
    assert f"{toolkit.major}.{toolkit.minor}" in offered
    libraries = ("cuda-nvrtc", "cuda-runtime", "cublas", "cufft", "curand", "cusolver", "cusparse")
    suffix = "-cu12" if line.cuda_major == 12 else ""
    assert {f"nvidia-{name}{suffix}" for name in libraries} <= set(plan)
