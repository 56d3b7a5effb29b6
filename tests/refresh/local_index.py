"""A local package index (PEP 503, 691 and 658) with small wheels that behave like the real ones.

The wheels contain libraries built with the C compiler: an NVRTC that lists and compiles, a cudart that queries libcuda,
and an extension module with a section of GPU code. The index can yank a release, delay a download, and fail.
"""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LINUX = "manylinux2014_x86_64"
_NVRTC = r"""
static int archs[] = {75, 80, 90};
int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 5; return 0; }
int nvrtcGetNumSupportedArchs(int *count) { *count = 3; return 0; }
int nvrtcGetSupportedArchs(int *out) { for (int i = 0; i < 3; i++) out[i] = archs[i]; return 0; }
int nvrtcCreateProgram(void **p, ...) { *p = archs; return 0; }
int nvrtcCompileProgram(void *p, int count, void *options) { return 0; }
int nvrtcGetPTXSize(void *p, unsigned long *size) { *size = 16; return 0; }
int nvrtcGetPTX(void *p, char *out) { __builtin_strcpy(out, ".version 9.5\n"); return 0; }
int nvrtcDestroyProgram(void **p) { return 0; }
"""
_CUDART = """
#include <dlfcn.h>
int cudaGetDeviceCount(int *count) {
    int level = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*ask)(int *) = driver ? (int (*)(int *))dlsym(driver, "cuDriverGetVersion") : 0;
    if (ask) ask(&level);
    return level < 13000 ? 35 : 100;
}
"""
_COMPILER = """
def _get_max_compute_capability():
    major, minor = _get_nvrtc_version()
    if major == 13:
        return '121'
    return '90'

def _get_arch():
    return min(arch, _get_max_compute_capability(), key=int)
"""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel on the index."""

    name: str
    version: str
    file: str
    data: bytes
    metadata: str


def library(folder: Path, name: str, source: str, *options: str) -> bytes:
    """Builds a shared library with a soname."""
    output = folder / name
    command = ["cc", "-w", "-shared", "-fPIC", "-x", "c", "-", f"-Wl,-soname,{name}", "-o", str(output), *options]
    subprocess.run(command, input=source.encode(), check=True, timeout=120)
    return output.read_bytes()


def gpu_code(*archs: int) -> str:
    """Returns C source of a library whose .nv_fatbin has machine code for these, and PTX for the last."""
    entries = [(2, arch) for arch in archs] + [(1, archs[-1])]
    body = b""
    for kind, arch in entries:
        header = struct.pack("<HHIQ", kind, 0x101, 64, 8) + bytes(8) + struct.pack("<HHI", 5, 9, arch)
        body += header.ljust(64, b"\0")[:64] + bytes(8)
    data = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body
    numbers = ",".join(map(str, data))
    return f'__attribute__((section(".nv_fatbin"), used, aligned(8))) static unsigned char code[] = {{{numbers}}};\n'


def make_wheel(name: str, version: str, tag: str, files: Mapping[str, bytes], *lines: str) -> Wheel:
    """Returns a wheel with these files and lines of metadata."""
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = "".join(
        f"{line}\n" for line in ("Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines)
    )
    info = f"{stem}.dist-info"
    wheel_file = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: false\nTag: {tag}\n"
    all_files = {**files, f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": wheel_file.encode()}
    record = "".join(f"{path},,\n" for path in (*all_files, f"{info}/RECORD"))
    return _zipped(name, version, f"{stem}-{tag}.whl", {**all_files, f"{info}/RECORD": record.encode()}, metadata)


def _zipped(name: str, version: str, file: str, files: Mapping[str, bytes], metadata: str) -> Wheel:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0)), data)
    return Wheel(name, version, file, buffer.getvalue(), metadata)


def wheels(folder: Path) -> list[Wheel]:
    """Returns every wheel that a refresh of the small matrix downloads."""
    nvrtc = {
        "nvidia/cu13/lib/libnvrtc.so.13": library(folder, "libnvrtc.so.13", _NVRTC),
        "nvidia/cu13/lib/libnvrtc-builtins.so.13.5": library(folder, "libnvrtc-builtins.so.13.5", "int builtins;"),
    }
    cudart = {"nvidia/cu13/lib/libcudart.so.13": library(folder, "libcudart.so.13", _CUDART, "-ldl")}
    module = library(folder, "core.so", gpu_code(75, 80, 90))
    cupy = {"cupy/cuda/compiler.py": _COMPILER.encode(), "cupy/core.cpython-311-x86_64-linux-gnu.so": module}
    requirements = ("Requires-Python: >=3.10", "Requires-Dist: numpy<2.6,>=2.0")
    any_python = f"py3-none-{LINUX}"
    return [
        *(
            make_wheel("cupy-cuda13x", release, f"cp311-cp311-{LINUX}", cupy, *requirements)
            for release in ("14.1.1", "14.2.0")
        ),
        make_wheel("nvidia-cuda-nvrtc", "13.5.37", any_python, nvrtc),
        make_wheel("nvidia-cuda-nvrtc", "13.4.92", any_python, {}),
        make_wheel("nvidia-cuda-nvrtc-cu12", "12.9.86", any_python, {}),
        make_wheel("nvidia-cuda-nvrtc-cu11", "11.8.89", any_python, {}),
        make_wheel("nvidia-cuda-runtime", "13.5.40", any_python, cudart),
        make_wheel("cuda-toolkit", "13.5.0", "py3-none-any", {}),
    ]


@dataclass
class LocalIndex:
    """A package index with faults that a test sets.

    Attributes:
        files: the wheels, by file name.
        delayed: part of the name of a project or file that is not sent before ``release``.
        requests: the paths of all requests.
        down: whether every answer is an error.
        down_after_delay: whether every answer after the delayed file is an error.
        yanked: the reasons, by ``name==version``; True for no reason.
    """

    files: Mapping[str, Wheel]
    delayed: str | None = None
    down: bool = False
    down_after_delay: bool = False
    yanked: dict[str, str | bool] = field(default_factory=dict)
    reached: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    requests: list[str] = field(default_factory=list)
    address: str = ""

    def page(self, name: str) -> bytes | None:
        """Returns the list of a project's files, as JSON."""
        wheels = [wheel for wheel in self.files.values() if wheel.name == name]
        self._delay(name)
        if not wheels:
            return None
        entries = [
            {
                "filename": wheel.file,
                "url": f"{self.address}/files/{wheel.file}",
                "hashes": {"sha256": hashlib.sha256(wheel.data).hexdigest()},
                "size": len(wheel.data),
                "upload-time": "2026-08-20T02:40:54.791000Z",
                "core-metadata": {"sha256": hashlib.sha256(wheel.metadata.encode()).hexdigest()},
                "yanked": self.yanked.get(f"{wheel.name}=={wheel.version}", False),
            }
            for wheel in wheels
        ]
        versions = [wheel.version for wheel in wheels]
        project = {"meta": {"api-version": "1.1"}, "name": name, "versions": versions, "files": entries}
        return json.dumps(project).encode()

    def file(self, name: str) -> bytes | None:
        """Returns a wheel, or its metadata."""
        wheel = self.files.get(name.removesuffix(".metadata"))
        if wheel is None:
            return None
        if name.endswith(".metadata"):
            return wheel.metadata.encode()
        self._delay(name)
        return wheel.data

    def _delay(self, name: str) -> None:
        if self.delayed is not None and self.delayed in name:
            self.reached.set()
            self.release.wait(120)
            self.down = self.down or self.down_after_delay


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Ignores clients that tests kill."""


def serve(index: LocalIndex) -> ThreadingHTTPServer:
    """Serves an index until it is shut down."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.requests.append(self.path)
            kind, _, name = self.path.strip("/").partition("/")
            data = index.page(name) if kind == "simple" else index.file(name)
            self.send_response(503 if index.down else 404 if data is None else 200)
            self.send_header("Content-Type", "application/vnd.pypi.simple.v1+json")
            self.send_header("Content-Length", str(len(data or b"") if not index.down else 0))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if data is not None and not index.down:
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    index.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
