"""Which CUDA libraries this environment's CuPy would load: asked of the loader, as CuPy itself asks it.

Run in the target's interpreter, with one argument, JSON: an object with

``finder``
    ``pathfinder`` for CuPy 14 and later, which let cuda-pathfinder look in site-packages and conda first, and
    ``loader`` for older ones, which leave it to the dynamic loader;
``cupy``
    the folder that CuPy is installed in, or null;
``libraries``
    objects with ``name`` and ``soname``: those that CuPy's extension modules name;
``optional``
    names of those that CuPy loads where they are there;
``limit``
    seconds that one step may take; then the alarm ends this process;
``without``
    steps that ended an earlier process, and are not tried again.

Standard library only, old syntax; a child of its own, since loading a library runs its code. What ends this process is
known by the step told last. Only functions that tell a version are called, and NVRTC compiles an empty program, which
is how it looks for its builtins. cuBLASLt opens libcuda when it is loaded; nothing here lets anybody call ``cuInit``
(shown with the wheels of CUDA 12.9 and 13.5 and a libcuda that aborts there), so no CUDA context comes to be.
"""

import ctypes
import json
import os
import re
import signal
import struct
import sys
import time

from target_shared import content, needed_soname, tell

# Libraries that those above need or open by themselves, by what the file names begin with and how the soname ends.
INDIRECT = (
    ("nvrtc-builtins", r"libnvrtc-builtins(\.alt)?\.so\.\d+\.\d+"),
    ("cublasLt", r"libcublasLt\.so\.\d+"),
    ("nvJitLink", r"libnvJitLink\.so\.\d+"),
    ("cudart", r"libcudart\.so\.\d+"),
)
NOT_FOUND = "DynamicLibNotFoundError"  # what cuda-pathfinder raises for a library that is nowhere
FINDER_NAMES = {"cusparselt": "cusparseLt"}  # where cuda-pathfinder spells it otherwise than CuPy
NVRTC_LOG_LIMIT = 100000
NVRTC_INVALID_OPTION = 5
FIRST_WITHOUT_BUNDLE = (12, 2)
HEADER_LIMIT = 4000000
LARGEST = 1 << 31  # bytes; a library of CUDA's that the loader does not name whole is smaller
LOAD = 1  # PT_LOAD of elf.h
NOEXEC = 8  # ST_NOEXEC of sys/statvfs.h; old Pythons do not name it
# How a library tells its version: three properties, a pair (major, minor), one number behind a pointer or a size.
ASKED = {
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
FIRST_LONG = 10000  # NCCL 2.9 and later tell five digits, 20900


# Versions, which each library tells in its own form


def release(name, handle):
    """A library's version as it tells it itself; None where it has no such function, or that fails."""
    form, function = ASKED.get(name, (None, None))
    ask = getattr(handle, function, None) if function else None
    if ask is None:
        return None
    parts = [ctypes.c_int(-1) for _ in range(3)]
    if form == "property":  # major, minor and patch, each asked for by itself (libraryPropertyType)
        failed = any(ask(which, ctypes.byref(part)) for which, part in enumerate(parts))
    elif form == "pair":
        parts = parts[:2]
        failed = ask(ctypes.byref(parts[0]), ctypes.byref(parts[1]))
    elif form == "size":
        ask.restype = ctypes.c_size_t
        parts[0].value = ask()
        failed = False
    else:
        failed = ask(ctypes.byref(parts[0])) or parts[0].value < 0
    number = parts[0].value
    if form == "cuda":  # 12.9 of 12090
        told = (number // 1000, number % 1000 // 10)
    elif form == "nccl" and number < FIRST_LONG:  # before 2.9 the minor has one digit less
        told = (number // 1000, number % 1000 // 100, number % 100)
    elif form in ("nccl", "size"):  # 2.32.3 of 23203
        told = (number // 10000, number % 10000 // 100, number % 100)
    else:
        told = [part.value for part in parts]
    return None if failed else ".".join(str(part) for part in told)


# Files


def mapped_files():
    """Every file that this process has mapped, by a name that is a file's whatever the locale's encoding is."""
    try:
        with open("/proc/self/maps", "rb") as maps:
            paths = [line.split(None, 5)[-1].strip() for line in maps if b"/" in line]
    except (IOError, OSError):
        return []
    return [os.fsdecode(path) for path in paths] if hasattr(os, "fsdecode") else paths  # Python 2 has none


def mapped(soname):
    """The file that this process has mapped under a soname, or under a name that begins with it."""
    for path in mapped_files():
        if os.path.basename(path).startswith(soname):
            return path
    return None


def refusal(text):
    """The loader's words, and what they leave out where it could not map a file: how that is mounted, and the limit."""
    found = re.search(r"([^:]*): (failed to map segment|cannot allocate memory(?! in static TLS))", text)
    if found is None:
        return text
    path = found.group(1).strip()
    try:
        text += " [its file system is mounted noexec]" if os.statvfs(path).f_flag & NOEXEC else ""
    except OSError:  # the file is not named whole
        pass
    limit = limit_of_memory(path)
    return text + (" [ulimit -v is %d KiB]" % (limit // 1024) if limit else "")


def limit_of_memory(path):
    """Bytes that this process may map, where a file and as much again would not find room; None where they would."""
    try:
        import resource
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    no_limit = limit == resource.RLIM_INFINITY
    return None if no_limit or has_room(2 * (size_in_memory(path) or LARGEST)) else limit


def has_room(size):
    """Whether this process may map so much more, of which nothing is touched."""
    import mmap

    try:
        mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ).close()
    except (EnvironmentError, OverflowError, ValueError):
        return False
    return True


def size_in_memory(path):
    """How far the segments of a 64-bit ELF file reach, which may be beyond its size; 0 where nobody knows."""
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
    """What the headers that are met first say of their version, and in which folder."""
    for folder in folders:
        runtime = defined(os.path.join(folder, "cuda_runtime_api.h"), "CUDART_VERSION")
        driver = defined(os.path.join(folder, "cuda.h"), "CUDA_VERSION")
        if runtime is not None or driver is not None:
            return {"folder": folder, "runtime": runtime, "driver": driver}
    return None


def defined(path, name):
    """The number that a header defines a name as."""
    text = content(path, HEADER_LIMIT)
    found = re.search(b"^\\s*#\\s*define\\s+" + name.encode("ascii") + b"\\s+([0-9]{1,9})(?![0-9])", text, re.M)
    return int(found.group(1)) if found else None


# Loading


def step(asked, name):
    """Tells what comes next, and when, and winds the alarm; False where it has ended a process before."""
    if name in asked["without"]:
        return False
    tell("trying", name)
    tell("since", getattr(time, "monotonic", time.time)())
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, asked["limit"])
    return True


def finder(wanted):
    """cuda-pathfinder's loading function, where this CuPy uses it and it is there."""
    if wanted != "pathfinder":
        return None
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
    except Exception as error:  # noqa: BLE001 - someone else's package: whatever it raises is an answer
        tell("pathfinder_error", repr(error))
        return None
    return load_nvidia_dynamic_lib


def look(library, load):
    """Lets the finder load what it takes for the library, then asks the loader for the very name CuPy needs."""
    answer = {"name": library["name"], "soname": library["soname"], "path": None, "found_via": None, "error": None}
    refused = None
    if load is not None:
        try:
            found = load(FINDER_NAMES.get(library["name"], library["name"]))
            answer["found_via"] = getattr(found, "found_via", None) or "pathfinder"
            answer["finder_path"] = found.abs_path
        except Exception as error:  # noqa: BLE001 - the finder raises its own errors and the loader's
            # A file that is there and cannot be loaded: the loader, which does not look there, will say "not found".
            if type(error).__name__ != NOT_FOUND:
                refused = str(error).split("\n")[0]
    try:
        handle = ctypes.CDLL(library["soname"])
    except OSError as error:
        answer["found_via"] = None
        answer["error"] = refusal(refused or str(error))
        return answer
    answer["path"] = mapped(library["soname"])
    answer["found_via"] = answer["found_via"] or "loader"
    answer["release"] = release(library["name"], handle)
    return answer


def indirect(needed, pattern):
    """A library that this process has mapped because another one needs it; None where none does."""
    for path in mapped_files():
        soname = re.match(pattern, os.path.basename(path))
        if soname:
            try:
                handle = ctypes.CDLL(path)  # it is loaded: this only gives a handle
            except OSError:
                handle = None
            told = release(needed, handle) if handle is not None else None
            return {"name": needed, "soname": soname.group(0), "path": path, "found_via": "dependency", "release": told}
    return None


def compile_nothing(soname):
    """Lets NVRTC compile an empty program, for which it opens its builtins; its complaint where it cannot.

    Without its cache, which from 12.9 on it keeps with the driver's help and for which it calls ``cuInit``. Older ones
    (seen: 11.8 to 12.8) know neither the option nor the cache.
    """
    nvrtc = ctypes.CDLL(soname)
    failed, complaint = compiled(nvrtc, [b"--no-cache"])
    if failed == NVRTC_INVALID_OPTION:
        failed, complaint = compiled(nvrtc, [])
    return complaint or "NVRTC's error %d" % failed if failed else None


def compiled(nvrtc, options):
    """NVRTC's return code for an empty program, and the first line of its complaint."""
    program = ctypes.c_void_p()
    failed = nvrtc.nvrtcCreateProgram(ctypes.byref(program), b"", b"gpuenv.cu", 0, None, None)
    if failed:
        return failed, None
    given = (ctypes.c_char_p * max(1, len(options)))()
    given[: len(options)] = options
    failed = nvrtc.nvrtcCompileProgram(program, len(options), given)
    size = ctypes.c_size_t()
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    if not 0 < size.value < NVRTC_LOG_LIMIT:
        return failed, None
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    return failed, log.value.decode("utf-8", "replace").strip().split("\n")[0]


def builtins(nvrtc):
    """NVRTC's builtins, which it opens when it first compiles; None where this NVRTC cannot be asked."""
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
    """CuPy's module that finds CUDA, loaded by itself: it depends on nothing else of CuPy's, as it says."""
    path = os.path.join(folder or "", "cupy", "_environment.py")
    if not folder or not os.path.isfile(path):
        return None
    try:
        import importlib.util

        spec = importlib.util.spec_from_file_location("gpuenv_cupy_environment", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - someone else's module: whatever it raises is an answer
        tell("settings_error", repr(error)[:300])
        return None
    return module


def optional_library(name, folder, settings, load):
    """A library that CuPy loads where it is there: the name that its extension module needs, found as CuPy does."""
    soname = needed_soname(name, folder)
    if soname is None:
        return None
    try:
        settings._preload_library(name)  # noqa: SLF001 - what CuPy itself calls before it loads the module
    except Exception as error:  # noqa: BLE001 - likewise
        tell("preload_error", repr(error)[:300])
    answer = look({"name": name, "soname": soname}, load)
    answer["optional"] = True
    return answer


def header_folders(asked, settings, nvrtc, cuda_path):
    """The folders in which run-time compilation looks for CUDA's headers, in order.

    As the options show that CuPy 13.6.0 and 14.2.0 hand to NVRTC: up to 13 its own headers for CUDA 11 and for 12.0 and
    12.1, then those of the toolkit, then those of the wheel of the same release; from 14 on what cuda-pathfinder names.
    """
    if asked["finder"] == "pathfinder":
        from cuda.pathfinder import find_nvidia_header_directory

        found = find_nvidia_header_directory("cudart")
        return [found] if found else []
    bundled = os.path.join(asked["cupy"], "cupy", "_core", "include", "cupy", "_cuda")
    exact = "cuda-%d.%d" % nvrtc
    rough = "cuda-%d" % nvrtc[0] if nvrtc < FIRST_WITHOUT_BUNDLE else exact
    folders = [os.path.join(bundled, name) for name in (exact, rough) if os.path.isdir(os.path.join(bundled, name))][:1]
    if cuda_path is not None:
        folders.append(os.path.join(cuda_path, "include"))
    further = getattr(settings, "_get_include_dir_from_conda_or_wheel", None)
    return folders + [str(entry) for entry in (further(nvrtc[0], nvrtc[1]) if further else [])]


def tell_settings(asked, settings, nvrtc):
    """The toolkit's folder and the headers' that CuPy takes, by its own code."""
    if not step(asked, "settings"):
        return
    try:
        cuda_path = settings.get_cuda_path()
        tell("cuda_path", cuda_path)
        # The libraries that the wheel's own configuration loads beforehand, with the version it wants.
        config = settings.get_preload_config() or {}
        tell("preload", {name: entry["version"] for name, entry in config.items() if isinstance(entry, dict)})
        if nvrtc is not None or asked["finder"] == "pathfinder":
            folders = header_folders(asked, settings, nvrtc, cuda_path)
            tell("headers", folders)
            tell("headers_cuda", headers_version(folders))
    except Exception as error:  # noqa: BLE001 - someone else's module: whatever it raises is an answer
        tell("settings_error", repr(error)[:300])


def tell_libraries(asked, load):
    """Tells one fact a library; what they need comes after all of them."""
    told = []
    for library in asked["libraries"]:
        if step(asked, library["name"]):
            told.append(look(library, load))
            tell("library." + library["name"], told[-1])
    nvrtc = [entry for entry in told if entry["name"] == "nvrtc" and entry["path"]]
    if nvrtc and step(asked, "nvrtc-builtins"):
        found = builtins(nvrtc[0])
        if found is not None:
            tell("library.nvrtc-builtins", found)
    for needed, pattern in INDIRECT[1:]:
        found = indirect(needed, pattern) if step(asked, needed) else None
        if found is not None:
            tell("library." + needed, found)
    return nvrtc[0]["release"] if nvrtc else None


def tell_extension(folder):
    """Lets the loader take CuPy's central compiled module, with the libraries that it needs; no function is called."""
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
                tell("extension", path)
            except OSError as error:
                tell("extension_error", refusal(str(error)[:300]))
            return


def main():
    """Loads what CuPy would load, in the order in which it would."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    asked = json.loads(sys.argv[1])
    load = finder(asked["finder"]) if step(asked, "pathfinder") else None
    nvrtc = tell_libraries(asked, load)
    if step(asked, "extension"):
        tell_extension(asked["cupy"])
    settings = cupy_settings(asked["cupy"]) if step(asked, "_environment") else None
    if settings is not None:
        for name in asked["optional"]:
            found = optional_library(name, asked["cupy"], settings, load) if step(asked, name) else None
            if found is not None:
                tell("library." + name, found)
        tell_settings(asked, settings, tuple(int(part) for part in nvrtc.split(".")) if nvrtc else None)
    tell("done", True)
