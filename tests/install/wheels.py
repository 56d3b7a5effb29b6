"""Small, valid wheels that stand in for CuPy, NumPy and the CUDA libraries."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CUPY = "cupy_cuda12x-14.2.0-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class Package:
    """The contents of a wheel.

    Attributes:
        name: the distribution's name.
        release: its version.
        requires: its Requires-Dist lines.
        extras: its Provides-Extra lines.
        files: the installed files, without metadata.
        scripts: the console scripts.
        wrong_digests: paths with a wrong digest in RECORD.
        python: its Requires-Python.
    """

    name: str
    release: str
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    scripts: tuple[str, ...] = ()
    wrong_digests: tuple[str, ...] = ()
    python: str = ""

    @property
    def stem(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.release}"


def cupy(line: str, release: str, *, ctk: str | None = None, numpy: str = "numpy>=1.22") -> Package:
    """Returns a CuPy; all lines install the same file names."""
    modules = {f"cupy/part{number}.py": f"# {line} {release} {number}\n" for number in range(64)}
    major = line.removeprefix("cupy-cuda").removesuffix("x")
    return Package(
        line,
        release,
        (numpy, *([f'cuda-toolkit[nvrtc]=={ctk}.*; extra == "ctk"'] if ctk else [])),
        ("ctk",) if ctk else (),
        {
            "cupy/__init__.py": f"__version__ = {release!r}\n__line__ = {line!r}\n",
            "cupyx/__init__.py": "",
            f"cupy/.data/only{major}.txt": line,
            "cupy_backends/__init__.py": f"# {line} {release}\n",
            **modules,
        },
    )


def numpy(release: str, *scripts: str) -> Package:
    """Returns a NumPy with version.py, which distinguishes it from a script named numpy."""
    files = {"numpy/__init__.py": f"__version__ = {release!r}\n", "numpy/version.py": f"version = {release!r}\n"}
    return Package("numpy", release, files=files, scripts=scripts)


SET = (
    cupy("cupy-cuda11x", "13.6.0"),
    cupy("cupy-cuda12x", "13.6.0"),
    cupy("cupy-cuda12x", "14.2.0", ctk="12", numpy="numpy>=2.0"),
    cupy("cupy-cuda13x", "14.2.0", ctk="13", numpy="numpy>=2.0"),
    Package("cuda-toolkit", "12.9.2", ('nvidia-cuda-nvrtc-cu12==12.9.*; extra == "nvrtc"',), ("nvrtc",)),
    Package("cuda-toolkit", "13.5.0", ('nvidia-cuda-nvrtc==13.5.*; extra == "nvrtc"',), ("nvrtc",)),
    Package(
        "nvidia-cuda-nvrtc-cu12", "12.9.86", files={"nvidia/__init__.py": "", "nvidia/cuda_nvrtc/n12.py": "n=12\n"}
    ),
    Package("nvidia-cuda-nvrtc", "13.5.37", files={"nvidia/__init__.py": "", "nvidia/cu13/n13.py": "n=13\n"}),
    numpy("1.26.4", "f2py"),
    numpy("2.1.0", "f2py", "numpy-config"),
    Package("torch", "2.6.0", ("nvidia-cuda-nvrtc==13.5.37",), files={"torch/__init__.py": "__version__ = '2.6.0'\n"}),
    Package("old-science", "1.0", ("numpy<2",), files={"old_science.py": ""}),
    Package("user-of-numpy", "1.0", ("numpy",), files={"user_of_numpy.py": ""}),
)


def make_wheel(folder: Path, package: Package) -> Path:
    """Writes a wheel with a correct RECORD, except for the package's wrong digests."""
    info = f"{package.stem}.dist-info"
    head = f"Metadata-Version: 2.1\nName: {package.name}\nVersion: {package.release}\n"
    head += f"Requires-Python: {package.python}\n" if package.python else ""
    needs = [f"Requires-Dist: {text}\n" for text in package.requires]
    extras = [f"Provides-Extra: {text}\n" for text in package.extras]
    files = {
        **package.files,
        f"{info}/METADATA": "".join([head, *extras, *needs]),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if package.scripts:
        entries = "".join(f"{name} = {package.name}:main\n" for name in package.scripts)
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{entries}"
    lines = [
        f"{path},sha256={_digest(text + ('!' if path in package.wrong_digests else ''))},{len(text.encode())}\n"
        for path, text in files.items()
    ]
    path = folder / f"{package.stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for entry, text in {**files, f"{info}/RECORD": "".join([*lines, f"{info}/RECORD,,\n"])}.items():
            wheel.writestr(zipfile.ZipInfo(entry, (2026, 1, 1, 0, 0, 0)), text)
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
