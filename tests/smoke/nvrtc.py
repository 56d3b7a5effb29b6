"""Compile sources with one NVRTC library, without a driver, in a child: ``nvrtc.py LIBRARY SOURCES.json``.

Prints one JSON object: the library's version, its architectures, and the sources that failed.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path


def main() -> None:
    nvrtc = ctypes.CDLL(sys.argv[1])
    sources = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    architectures = (ctypes.c_int * count.value)()
    nvrtc.nvrtcGetSupportedArchs(architectures)
    failed, compiled = [], 0
    for number, architecture in enumerate(architectures):
        for entry in sources:
            if number and not entry["everywhere"]:
                continue
            log = compile_one(nvrtc, entry, architecture)
            compiled += log is None
            if log is not None:
                failed.append(f"{entry['name']} for {architecture}: {log}")
    answer = {"version": f"{major.value}.{minor.value}", "architectures": list(architectures), "failed": failed}
    sys.stdout.write(json.dumps({**answer, "compiled": compiled}))


def compile_one(nvrtc: ctypes.CDLL, entry: dict[str, object], architecture: int) -> str | None:
    """The compiler's log on failure, else None."""
    program = ctypes.c_void_p()
    source, name = str(entry["source"]).encode(), str(entry["name"]).encode()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name, 0, None, None) == 0
    try:
        expressions = entry["expressions"]
        assert isinstance(expressions, list)
        for expression in expressions:
            assert nvrtc.nvrtcAddNameExpression(program, expression.encode()) == 0
        options = [f"--gpu-architecture=sm_{architecture}".encode(), *map(str.encode, map(str, entry["options"]))]  # type: ignore[call-overload]
        if nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)) == 0:
            size = ctypes.c_size_t()
            assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
            return None if size.value > 100 else "an empty binary"
        size = ctypes.c_size_t()
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        return log.value.decode("utf-8", "replace")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


if __name__ == "__main__":
    main()
