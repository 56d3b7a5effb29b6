"""Lock files: their contents, exact installs from them, and refused ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.files import parse_toml
from gpuenv.install.lockfile import parse_pylock
from tests.install.sandbox import MACHINE, contents, versions
from tests.install.snapshots import write_snapshot
from tests.install.test_install import NEW

if TYPE_CHECKING:
    from tests.install.sandbox import Ground

OLDER = {"cupy-cuda12x": "13.6.0", "numpy": "1.26.4"}


def test_a_lock_says_the_same_to_the_reader_of_packaging(ground: Ground, tmp_path: Path) -> None:
    pylock = pytest.importorskip("packaging.pylock", reason="this packaging has no reader of PEP 751")
    file = tmp_path / "pylock.toml"
    done = ground.gpuenv("lock", "--python", ground.target("oracle"), *MACHINE, "-o", file)
    assert done.returncode == 0, done.stderr
    text = file.read_text(encoding="utf-8")
    theirs = {
        (package.name, str(package.version), frozenset(wheel.hashes["sha256"] for wheel in package.wheels))
        for package in pylock.Pylock.from_dict(parse_toml(text)).packages
    }
    assert {(pin.name, pin.release, frozenset(pin.sha256)) for pin in parse_pylock(text)} == theirs
    assert {name: release for name, release, _ in theirs} == NEW


@pytest.mark.parametrize("form", ["pylock", "requirements"])
def test_what_is_locked_is_what_is_installed(ground: Ground, tmp_path: Path, form: str) -> None:
    target = ground.target("locked")
    file = tmp_path / ("pylock.toml" if form == "pylock" else "locked.txt")
    done = ground.gpuenv("lock", "--python", target, *MACHINE, "--format", form, "-o", file)
    assert done.returncode == 0, done.stderr
    assert not (target / ".gpuenv").exists()
    address = ground.index.address.partition("/")[0]
    assert (address in file.read_text(encoding="utf-8")) == (form == "pylock")
    asked = len(ground.index.requests)
    done = ground.install(target, "--locked", file)
    assert done.returncode == 0, done.stderr
    assert versions(target) == NEW
    assert len(ground.index.requests) > asked, "the wheels came from the index"


def test_pip_locks_as_requirements(ground: Ground) -> None:
    target = ground.target("pip-locked", pip=True)
    command = ("lock", "--python", target, *MACHINE, "--installer", "pip")
    done = ground.gpuenv(*command, "--format", "requirements")
    assert done.returncode == 0, done.stderr
    for name, release in NEW.items():
        assert f"{name}=={release} \\\n    --hash=sha256:" in done.stdout
    asked = len(ground.index.requests)
    refused = ground.gpuenv(*command)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--format requirements" in refused.stderr
    assert len(ground.index.requests) == asked, "that is said before pip has worked for a minute"


def test_a_lock_is_followed_where_the_resolver_would_choose_otherwise(ground: Ground, tmp_path: Path) -> None:
    other = ground.target("older", "numpy==1.26.4")
    file = tmp_path / "pylock.toml"
    assert ground.gpuenv("lock", "--python", other, *MACHINE, "-o", file).returncode == 0
    target = ground.target("fresh")
    assert ground.install(target, "--locked", file).returncode == 0
    assert versions(target) == OLDER


def test_a_lock_whose_wheel_has_changed_is_refused(ground: Ground, tmp_path: Path) -> None:
    target = ground.target("changed")
    file = tmp_path / "locked.txt"
    ground.gpuenv("lock", "--python", target, *MACHINE, "--format", "requirements", "-o", file)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("--hash=sha256:", "--hash=sha256:0000", 1)[:-5] + "\n", encoding="utf-8")
    before = contents(target)
    done = ground.install(target, "--locked", file)
    assert done.returncode == 2, "a digest of another length is none"
    head, _, tail = text.partition("--hash=sha256:")
    file.write_text(f"{head}--hash=sha256:{'0' * 64}{tail[64:]}", encoding="utf-8")
    done = ground.install(target, "--locked", file)
    assert done.returncode == 4, done.stderr
    assert contents(target) == before


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.txt", "cupy-cuda12x==14.2.0\n", "line 1: expected name==version --hash"),
        ("a.txt", "# nothing\n", "names no package"),
        ("a.txt", f"--index-url=http://evil --hash=sha256:{'0' * 64}\n", "line 1: expected"),
        ("a.txt", f"numpy==1;x --hash=sha256:{'0' * 64}\n", "line 1: expected"),
        ("a.txt", f"numpy==1 ; os_name --hash=sha256:{'0' * 64}\n", "line 1: expected"),
        ("a.txt", f"numpy==1,!=2 --hash=sha256:{'0' * 64}\n", "line 1: expected"),
        ("a.txt", f"numpy==1.* --hash=sha256:{'0' * 64}\n", "line 1"),
        ("a.txt", f"numpy @ http://h/n-1-py3-none-any.whl --hash=sha256:{'0' * 64}\n", "line 1: expected"),
        ("a.txt", f"numpy==1 ; python_version > '3' --hash=sha256:{'0' * 64}\n", "expected one CuPy"),
        ("a.txt", f"numpy==1 ; os_name == 'nt' --hash=sha256:{'0' * 64}\n", "names no package"),
        ("pylock.toml", "lock-version='1.0'\n[[packages]]\nname='numpy'\nmarker='os_name'\n", "numpy: the marker"),
        ("pylock.toml", "lock-version='1.0'\npackages=['numpy']\n", "expected a table"),
        ("a.txt", f"numpy==$(id) --hash=sha256:{'0' * 64}\n", "line 1"),
        ("pylock.toml", "lock-version = '2.0'\n", "lock-version"),
        ("pylock.toml", "not toml", ""),
        ("pylock.toml", "lock-version='1.0'\n[[packages]]\nname='cupy-cuda12x'\nversion='1'\n", "only wheels"),
        (
            "pylock.toml",
            'lock-version="1.0"\n[[packages]]\nname="a\\n--index-url x"\nversion="1"\nwheels=[{url="x", hashes={}}]\n',
            "is no name",
        ),
    ],
)
def test_what_is_no_lock_is_told(ground: Ground, tmp_path: Path, name: str, text: str, said: str) -> None:
    target = ground.target("no-lock")
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    done = ground.install(target, "--locked", file)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not (target / ".gpuenv").exists()


LINES = """
[[packages]]
name = "{name}"
version = "{release}"
marker = "{marker}"
wheels = [{{url = "https://example.org/x-1-py3-none-any.whl", hashes = {{sha256 = "{digest}"}}}}]
"""


def test_a_lock_that_is_none_gives_no_password_away(ground: Ground, tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("--index-url https://me:s3cret@index.invalid/simple\n", encoding="utf-8")
    done = ground.install(ground.target("told"), "--locked", file)
    assert done.returncode == 2
    assert "index.invalid" in done.stderr
    assert "s3cret" not in done.stderr


@pytest.mark.parametrize("form", ["pylock", "requirements"])
def test_of_a_lock_for_several_platforms_the_target_s_part_is_installed(
    ground: Ground, tmp_path: Path, form: str
) -> None:
    """As ``uv export`` and ``uv pip compile --universal`` write them: markers say what is for which."""
    target = ground.target("universal")
    file = tmp_path / ("pylock.toml" if form == "pylock" else "locked.txt")
    assert ground.gpuenv("lock", "--python", target, *MACHINE, "--format", form, "-o", file).returncode == 0
    others = [
        ("pywin32", "306", "sys_platform == 'win32'"),
        ("numpy", "1.0", "python_full_version < '3.6'"),
        ("gnureadline", "8.2", "sys_platform == 'darwin' and platform_machine != 'x86-64'"),
    ]
    line = "{name}=={release} ; {marker} \\\n    --hash=sha256:{digest}\n"
    more = [
        (LINES if form == "pylock" else line).format(name=n, release=r, marker=m, digest="0" * 64) for n, r, m in others
    ]
    if form == "pylock":  # what is built from its source is no package for wheels alone, and none of the target's
        more.append("[[packages]]\nname = 'appnope'\nversion = '0.1'\nmarker = \"sys_platform == 'darwin'\"\n")
    text = file.read_text(encoding="utf-8").replace("cupy-cuda12x==", "cupy-cuda12x[ctk]==")  # as pip-compile has it
    file.write_text(text + "".join(more), encoding="utf-8")
    done = ground.install(target, "--locked", file)
    assert done.returncode == 0, done.stderr
    assert versions(target) == NEW


def test_the_guard_keeps_the_choice(ground: Ground, tmp_path: Path) -> None:
    target = ground.target("guarded")
    file = tmp_path / "guard.txt"
    done = ground.install(target, "--guard", file)
    assert done.returncode == 0, done.stderr
    assert f"PIP_CONSTRAINT={file}" in done.stderr
    text = file.read_text(encoding="utf-8")
    assert "cupy-cuda12x==14.2.0\n" in text
    assert "nvidia-cuda-nvrtc-cu12==12.9.86\n" in text
    assert "numpy" not in text
    assert {line.split("==")[0] for line in text.splitlines() if "==0 " in line} == {
        *("cupy", "cupy-cuda11x", "cupy-cuda13x")
    }
    command = [sys.executable, "-m", "uv", "pip", "install", "--python", str(target / "bin/python"), "cupy-cuda13x"]
    refused = subprocess.run(
        command, env=ground.environment(UV_CONSTRAINT=str(file)), capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1, refused.stderr
    assert "cupy-cuda13x" in refused.stderr


THERE = ("--assume", "os=linux", "--assume", "python=3.12", "--assume", "arch=aarch64", "--assume", "libc=glibc-2.36")


def test_a_lock_for_a_machine_that_is_told_alone_is_as_resolve_says(ground: Ground, tmp_path: Path) -> None:
    """What resolve takes is taken here: of this machine, and of its Python, nothing is asked."""
    words = ("--no-probe", *MACHINE, *THERE)
    done = ground.gpuenv("lock", *words, "--format", "requirements")
    assert done.returncode == 0, done.stderr
    resolved = json.loads(ground.gpuenv("resolve", *words, "--format", "json").stdout)
    assert resolved["wheel"]["requirements"] == ["cupy-cuda12x[ctk]==14.2.0"]
    assert "cupy-cuda12x==14.2.0" in done.stdout
    bundled = ground.gpuenv("bundle", *words, "-o", tmp_path / "bundle")
    assert bundled.returncode == 0, bundled.stderr
    manifest = json.loads((tmp_path / "bundle/manifest.json").read_text(encoding="utf-8"))
    assert (manifest["python"], manifest["platform"]) == ("3.12", "linux-aarch64")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (MACHINE, "does not tell target.python, host.arch, host.libc"),
        ((*MACHINE, *THERE, "--assume", "os=windows"), "Linux with glibc"),
        ((*MACHINE, *THERE, "--assume", "os=windows", "--assume", "libc=musl-1.2"), "Linux with glibc"),
    ],
)
def test_what_a_lock_for_another_machine_lacks_is_told(ground: Ground, given: tuple[str, ...], said: str) -> None:
    done = ground.gpuenv("lock", "--no-probe", *given)
    assert (done.returncode, done.stdout) == (7, ""), done.stderr
    assert said in done.stderr


def test_a_lock_for_a_recorded_machine_keeps_what_is_there(ground: Ground, tmp_path: Path) -> None:
    file = write_snapshot(ground, tmp_path / "there.json", target_numpy="1.26.4")
    told = json.loads(file.read_text(encoding="utf-8"))
    told["target"]["packages"]["numpy"] = "1.26.4"
    file.write_text(json.dumps(told), encoding="utf-8")
    done = ground.gpuenv("lock", "--snapshot", file, *MACHINE, "--format", "requirements")
    assert done.returncode == 0, done.stderr
    assert "numpy==1.26.4" in done.stdout
    assert "cupy-cuda12x==13.6.0" in done.stdout
