"""Finds the CUDA libraries that this environment's CuPy would load, by loading them as CuPy does.

Run in the target's interpreter, with one argument, JSON: an object with

``finder``
    ``pathfinder`` for CuPy 14 and later, which let cuda-pathfinder search site-packages and conda first, and
    ``loader`` for older ones, which leave it to the dynamic loader;
``cupy``
    the folder that CuPy is installed in, or null;
``libraries``
    objects with ``name`` and ``soname``: those that CuPy's extension modules need;
``optional``
    names of those that CuPy loads if they are installed;
``limit``
    seconds allowed for one step, after which an alarm ends this process;
``without``
    steps that ended an earlier process and are skipped.

Standard library only, old syntax; a child of its own, since loading a library runs its code. If a step ends the
process, it is the last one printed. Only version functions are called, and NVRTC compiles an empty program, which makes
it look for its builtins. cuBLASLt opens libcuda when it is loaded; nothing here makes a library call ``cuInit`` (shown
with the wheels of CUDA 12.9 and 13.5 and a libcuda that aborts there), so no CUDA context is created.
"""

import ctypes
import json
import os
import re
import signal
import struct
import sys
import time

from target_shared import content, emit, needed_soname

# Libraries that the wanted ones depend on or open, with a pattern of their file names.
INDIRECT = (
    ("nvrtc-builtins", r"libnvrtc-builtins(\.alt)?\.so\.\d+\.\d+"),
    ("cublasLt", r"libcublasLt\.so\.\d+"),
    ("nvJitLink", r"libnvJitLink\.so\.\d+"),
    ("cudart", r"libcudart\.so\.\d+"),
)
NOT_FOUND = "DynamicLibNotFoundError"  # raised by cuda-pathfinder for a library that it cannot find
FINDER_NAMES = {"cusparselt": "cusparseLt"}  # where cuda-pathfinder's spelling differs from CuPy's
NVRTC_LOG_LIMIT = 100000
MOST_TEXT = 5000  # characters of an error; gpuenv shortens it once its secrets are recognized
NVRTC_INVALID_OPTION = 5
FIRST_WITHOUT_BUNDLE = (12, 2)
HEADER_LIMIT = 4000000
LARGEST = 1 << 31  # bytes; larger than any CUDA library whose full path the loader does not report
LOAD = 1  # PT_LOAD of elf.h
NOEXEC = 8  # ST_NOEXEC of sys/statvfs.h; missing in old Pythons
# Each library's version function: three properties, a pair (major, minor), a number behind a pointer, or a size.
VERSION_FUNCTIONS = {
    "nvrtc": ("pair", "nvrtcVersion"),
    "cublas": ("property", "cublasGetProperty"),
    "cublasLt": ("property", "cublasLtGetProperty"),
    "cufft": ("property", "cufftGetProperty"),
    "curand": ("property", "curandGetProperty"),
    "cusolver": ("property", "cusolverGetProperty"),
    "cusparse": ("property", "cusparseGetProperty"),
    "cusparselt": ("property", "cusparseLtGetProperty"),
    "nvJitLink": ("pair", "nvJitLinkVersion"),
    "cudart": ("cuda", "cudaRuntimeGetVersion"),
    "nccl": ("nccl", "ncclGetVersion"),
    "cutensor": ("size", "cutensorGetVersion"),
}
FIRST_LONG = 10000  # NCCL 2.9 and later return five digits, 20900


# Versions, which each library reports in its own form


def release(name, handle):
    """A library's own version; None if it has no version function, or that fails."""
    form, function = VERSION_FUNCTIONS.get(name, (None, None))
    call = getattr(handle, function, None) if function else None
    if call is None:
        return None
    parts = [ctypes.c_int(-1) for _ in range(3)]
    if form == "property":  # major, minor and patch by one call each (libraryPropertyType)
        failed = any(call(which, ctypes.byref(part)) for which, part in enumerate(parts))
    elif form == "pair":
        parts = parts[:2]
        failed = call(ctypes.byref(parts[0]), ctypes.byref(parts[1]))
    elif form == "size":
        call.restype = ctypes.c_size_t
        parts[0].value = call()
        failed = False
    else:
        failed = call(ctypes.byref(parts[0])) or parts[0].value < 0
    number = parts[0].value
    if form == "cuda":  # 12.9 of 12090
        numbers = (number // 1000, number % 1000 // 10)
    elif form == "nccl" and number < FIRST_LONG:  # before 2.9 the minor has one digit less
        numbers = (number // 1000, number % 1000 // 100, number % 100)
    elif form in ("nccl", "size"):  # 2.32.3 of 23203
        numbers = (number // 10000, number % 10000 // 100, number % 100)
    else:
        numbers = [part.value for part in parts]
    return None if failed else ".".join(str(part) for part in numbers)


# Files


def mapped_files():
    """The paths of all files mapped by this process, in the file system's encoding."""
    try:
        with open("/proc/self/maps", "rb") as maps:
            paths = [line.split(None, 5)[-1].strip() for line in maps if b"/" in line]
    except (IOError, OSError):
        return []
    return [os.fsdecode(path) for path in paths] if hasattr(os, "fsdecode") else paths  # Python 2 has none


def mapped(soname):
    """The first file mapped by this process whose name begins with a soname."""
    for path in mapped_files():
        if os.path.basename(path).startswith(soname):
            return path
    return None


def explain_refusal(text):
    """The loader's message, with the mount option and the memory limit that may prevent the mapping of its file."""
    found = re.search(r"([^:]*): (failed to map segment|cannot allocate memory(?! in static TLS))", text)
    if found is None:
        return text
    path = found.group(1).strip()
    try:
        text += " [its file system is mounted noexec]" if os.statvfs(path).f_flag & NOEXEC else ""
    except OSError:  # not a full path
        pass
    limit = memory_limit(path)
    return text + (" [ulimit -v is %d KiB]" % (limit // 1024) if limit else "")


def memory_limit(path):
    """The limit of mapped bytes if less than twice the file's size is left, else None."""
    try:
        import resource
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    no_limit = limit == resource.RLIM_INFINITY
    return None if no_limit or has_room(2 * (size_in_memory(path) or LARGEST)) else limit


def has_room(size):
    """Whether this process may map that many more bytes; none of them is touched."""
    import mmap

    try:
        mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ).close()
    except (EnvironmentError, OverflowError, ValueError):
        return False
    return True


def size_in_memory(path):
    """The extent of the segments of a 64-bit ELF file, which may exceed its size; 0 if unknown."""
    try:
        with open(path, "rb") as file:
            header = file.read(64)
            first, size, count = struct.unpack("<32xQ14xHH6x", header)
            file.seek(first)
            entries = [struct.unpack("<I12xQ16xQ8x", file.read(size)) for _ in range(count)]
    except (EnvironmentError, struct.error):
        return 0
    return max([start + length for kind, start, length in entries if kind == LOAD] or [0])


def headers_version(folders):
    """The version that the first headers on the path define, and their folder."""
    for folder in folders:
        runtime = defined(os.path.join(folder, "cuda_runtime_api.h"), "CUDART_VERSION")
        driver = defined(os.path.join(folder, "cuda.h"), "CUDA_VERSION")
        if runtime is not None or driver is not None:
            return {"folder": folder, "runtime": runtime, "driver": driver}
    return None


def defined(path, name):
    """The number that a header defines for a macro."""
    text = content(path, HEADER_LIMIT)
    found = re.search(b"^\\s*#\\s*define\\s+" + name.encode("ascii") + b"\\s+([0-9]{1,9})(?![0-9])", text, re.M)
    return int(found.group(1)) if found else None


# Loading


def begin_step(request, name):
    """Prints the next step and the time, and sets the alarm; False if the step ended an earlier process."""
    if name in request["without"]:
        return False
    emit("trying", name)
    emit("since", getattr(time, "monotonic", time.time)())
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, request["limit"])
    return True


def finder(wanted):
    """cuda-pathfinder's load function, if this CuPy uses it and it is installed."""
    if wanted != "pathfinder":
        return None
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
    except Exception as error:  # noqa: BLE001 - a foreign package may raise anything
        emit("pathfinder_error", repr(error))
        return None
    return load_nvidia_dynamic_lib


def load_library(library, load):
    """Lets the finder load its choice of the library, then loads the soname that CuPy needs."""
    answer = {"name": library["name"], "soname": library["soname"], "path": None, "found_via": None, "error": None}
    refusal = None
    if load is not None:
        try:
            found = load(FINDER_NAMES.get(library["name"], library["name"]))
            answer["found_via"] = getattr(found, "found_via", None) or "pathfinder"
            answer["finder_path"] = found.abs_path
        except Exception as error:  # noqa: BLE001 - the finder raises its own errors and the loader's
            # The finder's file cannot be loaded. The loader does not search there and would say "not found".
            if type(error).__name__ != NOT_FOUND:
                refusal = str(error).split("\n")[0]
    try:
        handle = ctypes.CDLL(library["soname"])
    except OSError as error:
        answer["found_via"] = None
        answer["error"] = explain_refusal(refusal or str(error))
        return answer
    answer["path"] = mapped(library["soname"])
    answer["found_via"] = answer["found_via"] or "loader"
    answer["release"] = release(library["name"], handle)
    return answer


def indirect(needed, pattern):
    """A library that this process has mapped as a dependency of another; None if it has not."""
    for path in mapped_files():
        soname = re.match(pattern, os.path.basename(path))
        if soname:
            try:
                handle = ctypes.CDLL(path)  # already loaded: this only returns a handle
            except OSError:
                handle = None
            version = release(needed, handle) if handle is not None else None
            found = {"name": needed, "soname": soname.group(0), "path": path, "found_via": "dependency"}
            return dict(found, release=version)
    return None


def compile_nothing(soname):
    """Lets NVRTC compile an empty program, for which it opens its builtins; the error message on failure.

    Without its cache, for which NVRTC calls ``cuInit`` from 12.9 on. Older ones (seen: 11.8 to 12.8) know neither the
    option nor the cache.
    """
    nvrtc = ctypes.CDLL(soname)
    failed, complaint = compiled(nvrtc, [b"--no-cache"])
    if failed == NVRTC_INVALID_OPTION:
        failed, complaint = compiled(nvrtc, [])
    return complaint or "NVRTC's error %d" % failed if failed else None


def compiled(nvrtc, options):
    """NVRTC's return code for an empty program, and the first line of its log."""
    program = ctypes.c_void_p()
    failed = nvrtc.nvrtcCreateProgram(ctypes.byref(program), b"", b"gpuenv.cu", 0, None, None)
    if failed:
        return failed, None
    array = (ctypes.c_char_p * max(1, len(options)))()
    array[: len(options)] = options
    failed = nvrtc.nvrtcCompileProgram(program, len(options), array)
    size = ctypes.c_size_t()
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    if not 0 < size.value < NVRTC_LOG_LIMIT:
        return failed, None
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    return failed, log.value.decode("utf-8", "replace").strip().split("\n")[0]


def builtins(nvrtc):
    """NVRTC's builtins, which it opens when it first compiles; None if this NVRTC cannot be called."""
    try:
        complaint = compile_nothing(nvrtc["soname"])
    except (AttributeError, OSError):
        return None
    found = indirect(INDIRECT[0][0], INDIRECT[0][1])
    if found is not None or complaint is None:
        return found
    named = re.search(r"libnvrtc-builtins\S*\.so[.\d]*\d", complaint)
    soname = named.group(0) if named else "libnvrtc-builtins.so"
    return {"name": "nvrtc-builtins", "soname": soname, "path": None, "found_via": None, "error": complaint}


def cupy_settings(folder):
    """CuPy's module that finds CUDA, loaded on its own: by its own comment it needs nothing else of CuPy."""
    path = os.path.join(folder or "", "cupy", "_environment.py")
    if not folder or not os.path.isfile(path):
        return None
    try:
        import importlib.util

        spec = importlib.util.spec_from_file_location("gpuenv_cupy_environment", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - a foreign module may raise anything
        emit("settings_error", repr(error)[:MOST_TEXT])
        return None
    return module


def optional_library(name, folder, settings, load):
    """Loads an optional library by the soname that CuPy's extension module needs, as CuPy does."""
    soname = needed_soname(name, folder)
    if soname is None:
        return None
    try:
        settings._preload_library(name)  # noqa: SLF001 - CuPy calls it before it loads the module
    except Exception:  # noqa: BLE001 - a foreign module may raise anything; the library may load all the same
        pass
    answer = load_library({"name": name, "soname": soname}, load)
    answer["optional"] = True
    return answer


def header_folders(request, settings, nvrtc, cuda_path):
    """The folders in which run-time compilation looks for CUDA's headers, in order.

    As in the options that CuPy 13.6.0 and 14.2.0 pass to NVRTC: up to 13 its own headers for CUDA 11, 12.0 and 12.1,
    then the toolkit's, then those of the wheel of the same release; from 14 on the folder that cuda-pathfinder finds.
    """
    if request["finder"] == "pathfinder":
        from cuda.pathfinder import find_nvidia_header_directory

        found = find_nvidia_header_directory("cudart")
        return [found] if found else []
    bundled = os.path.join(request["cupy"], "cupy", "_core", "include", "cupy", "_cuda")
    exact = "cuda-%d.%d" % nvrtc
    rough = "cuda-%d" % nvrtc[0] if nvrtc < FIRST_WITHOUT_BUNDLE else exact
    folders = [os.path.join(bundled, name) for name in (exact, rough) if os.path.isdir(os.path.join(bundled, name))][:1]
    if cuda_path is not None:
        folders.append(os.path.join(cuda_path, "include"))
    further = getattr(settings, "_get_include_dir_from_conda_or_wheel", None)
    return folders + [str(entry) for entry in (further(nvrtc[0], nvrtc[1]) if further else [])]


def emit_settings(request, settings, nvrtc):
    """Prints the folders of the toolkit and of the headers, as CuPy's own code finds them."""
    if not begin_step(request, "settings"):
        return
    try:
        cuda_path = settings.get_cuda_path()
        emit("cuda_path", cuda_path)
        # The libraries that the wheel's configuration preloads, with the version it requires.
        config = settings.get_preload_config() or {}
        emit("preload", {name: entry["version"] for name, entry in config.items() if isinstance(entry, dict)})
        if nvrtc is not None or request["finder"] == "pathfinder":
            folders = header_folders(request, settings, nvrtc, cuda_path)
            emit("headers", folders)
            emit("headers_cuda", headers_version(folders))
    except Exception as error:  # noqa: BLE001 - a foreign module may raise anything
        emit("settings_error", repr(error)[:MOST_TEXT])


def emit_libraries(request, load):
    """Prints one fact per library, their dependencies last, and returns NVRTC's version."""
    answers = []
    for library in request["libraries"]:
        if begin_step(request, library["name"]):
            answers.append(load_library(library, load))
            emit("library." + library["name"], answers[-1])
    nvrtc = [entry for entry in answers if entry["name"] == "nvrtc" and entry["path"]]
    if nvrtc and begin_step(request, "nvrtc-builtins"):
        found = builtins(nvrtc[0])
        if found is not None:
            emit("library.nvrtc-builtins", found)
    for needed, pattern in INDIRECT[1:]:
        found = indirect(needed, pattern) if begin_step(request, needed) else None
        if found is not None:
            emit("library." + needed, found)
    return nvrtc[0]["release"] if nvrtc else None


def emit_extension(folder):
    """Loads CuPy's core extension with its dependencies; no function of it is called."""
    try:
        from importlib.machinery import EXTENSION_SUFFIXES
    except ImportError:  # Python 2
        return
    core = os.path.join(folder or "", "cupy", "_core")
    for suffix in EXTENSION_SUFFIXES:
        path = os.path.join(core, "core" + suffix)
        if folder and os.path.isfile(path):
            try:
                ctypes.CDLL(path)
                emit("extension", path)
            except OSError as error:
                emit("extension_error", explain_refusal(str(error)[:MOST_TEXT]))
            return


def main():
    """Loads what CuPy would load, in its order."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    request = json.loads(sys.argv[1])
    load = finder(request["finder"]) if begin_step(request, "pathfinder") else None
    nvrtc = emit_libraries(request, load)
    if begin_step(request, "extension"):
        emit_extension(request["cupy"])
    settings = cupy_settings(request["cupy"]) if begin_step(request, "_environment") else None
    if settings is not None:
        for name in request["optional"]:
            found = optional_library(name, request["cupy"], settings, load) if begin_step(request, name) else None
            if found is not None:
                emit("library." + name, found)
        emit_settings(request, settings, tuple(int(part) for part in nvrtc.split(".")) if nvrtc else None)
    emit("done", True)
