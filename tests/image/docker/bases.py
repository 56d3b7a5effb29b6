"""Base images made here: a busybox for what needs no Python, and a Debian with CUDA where NVIDIA's images have it."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CUDA = "12.9"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# As nvidia/cuda:12.9.1 images have them, the condition shortened.
NVIDIA = {
    "PATH": "/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "NVARCH": "x86_64",
    "NVIDIA_REQUIRE_CUDA": "cuda>=12.9 brand=tesla,driver>=535,driver<536 brand=unknown,driver>=570,driver<571",
    "NV_CUDA_CUDART_VERSION": "12.9.79-1",
    "CUDA_VERSION": "12.9.1",
    "LD_LIBRARY_PATH": "/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
}


def _member(name: str, data: bytes = b"", mode: int = 0o755) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    return info, io.BytesIO(data)


def busybox_layer(files: Mapping[str, str]) -> bytes:
    """A root with busybox, and some scripts of the test's own."""
    program = shutil.which("busybox", path="/usr/bin:/bin") or "/bin/busybox"
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in ("bin", "etc", "proc", "sys", "dev", "root", "opt", "tmp"):
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(info)
        tar.addfile(*_member("bin/busybox", Path(program).read_bytes()))
        tar.addfile(*_member("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", 0o644))
        tar.addfile(*_member("etc/group", b"root:x:0:\n", 0o644))
        for applet in applets:
            if applet != "busybox" and f"bin/{applet}" not in files:
                info = tarfile.TarInfo(f"bin/{applet}")
                info.type, info.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(info)
        for name, text in files.items():
            tar.addfile(*_member(name, text.encode()))
    return buffer.getvalue()


def archive(tag: str, layer: bytes, variables: Mapping[str, str]) -> bytes:
    """What ``docker load`` takes, the same for the same layer."""
    digest = hashlib.sha256(layer).hexdigest()
    made = {"created": "2024-01-01T00:00:00Z", "created_by": "stand-in"}
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": "2024-01-01T00:00:00Z",
        "config": {"Env": [f"{name}={value}" for name, value in variables.items()], "Cmd": ["/bin/sh"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [made],
    }
    text = json.dumps(config, sort_keys=True).encode()
    name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": [tag], "Layers": ["layer.tar"]}]).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for entry, data in ((name, text), ("layer.tar", layer), ("manifest.json", manifest)):
            tar.addfile(*_member(entry, data, 0o644))
    return buffer.getvalue()


def debian(folder: Path) -> Path:
    """A Debian with its Python, venv and this machine's certificates, as a tar file of its root."""
    file = folder / "debian.tar"
    command = ["mmdebstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates"]
    if _CERTIFICATES.exists():
        command.append(f"--customize-hook=copy-in {_CERTIFICATES} {_CERTIFICATES.parent}")
    subprocess.run([*command, "bookworm", str(file)], check=True, capture_output=True, timeout=900)
    return file


# What CuPy needs; and what NVIDIA's runtime images hold besides: its Dockerfiles (as of 2025-12-15) install
# cuda-libraries, libnpp, cuda-nvtx and libnccl.
CUPYS = ("cuda-toolkit[cublas,cudart,cufft,curand,cusolver,cusparse,nvrtc,nvjitlink]",)
NVIDIAS = (f"{CUPYS[0][:-1]},cufile,npp,nvjpeg,nvtx]", "nvidia-nccl-cu12")


def certificates() -> dict[str, str]:
    """What a pip needs to trust this machine's certificates, where there are any."""
    return {"PIP_CERT": str(_CERTIFICATES)} if _CERTIFICATES.exists() else {}


def cuda_tree(folder: Path, wanted: Sequence[str], *, headers: bool) -> Path:
    """CUDA's libraries, or its headers, at the place where NVIDIA's packages put them; as a tar file."""
    wheels = folder / "wheels"
    if not wheels.exists():
        constraint = folder / "constraint.txt"
        constraint.write_text(f"cuda-toolkit=={CUDA}.*\n")
        uv = str(Path(sys.executable).with_name("uv"))
        command = [
            uv,
            "pip",
            "install",
            "--quiet",
            "--target",
            str(wheels),
            *wanted,
            "-c",
            str(constraint),
        ]
        subprocess.run(command, check=True, timeout=900)
    left_out = (".alt.", "cusolverMg") if wanted == CUPYS else (".alt.",)
    place = f"usr/local/cuda-{CUDA}/targets/x86_64-linux"
    file = folder / ("cuda-headers.tar" if headers else "cuda-libraries.tar")
    with tarfile.open(file, "w") as tar:
        for path in sorted((wheels / "nvidia").glob("*/include/*" if headers else "*/lib/*.so*")):
            if not any(part in path.name for part in left_out):
                tar.add(path, f"{place}/{'include' if headers else 'lib'}/{path.name}")
        if not headers:
            for name, target in _links().items():
                info = tarfile.TarInfo(name)
                info.type, info.linkname = tarfile.SYMTYPE, target
                tar.addfile(info)
            lines = "/usr/local/cuda/targets/x86_64-linux/lib\n"
            tar.addfile(*_member("etc/ld.so.conf.d/000_cuda.conf", lines.encode(), 0o644))
    return file


def _links() -> dict[str, str]:
    return {
        "usr/local/cuda": f"cuda-{CUDA}",
        f"usr/local/cuda-{CUDA}/lib64": "targets/x86_64-linux/lib",
        f"usr/local/cuda-{CUDA}/include": "targets/x86_64-linux/include",
    }


def lacking() -> str:
    """Why no Debian can be made here; empty where it can."""
    return "" if shutil.which("mmdebstrap") else "no mmdebstrap here: apt-get install mmdebstrap"


def load_root(client: Any, file: Path, tag: str, variables: Mapping[str, str]) -> None:  # noqa: ANN401 - no types
    """A tar file of a root as an image."""
    name, _, version = tag.partition(":")
    changes = [
        f"ENV {key}={value}"
        for key, value in {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **variables}.items()
    ]
    told = client.api.import_image_from_file(str(file), repository=name, changes=changes)
    client.api.tag(
        json.loads(told.splitlines()[0])["status"], name, version
    )  # Podman 4.3 takes no tag while it imports


def add_tree(client: Any, below: str, tree: Path, tag: str, variables: Mapping[str, str]) -> None:  # noqa: ANN401
    """Another image with a tar file unpacked over it, its libraries known to the loader."""
    lines = [f"FROM {below}", f"ADD {tree.name} /", "RUN /sbin/ldconfig"]
    lines += [f"ENV {name}={json.dumps(value)}" for name, value in variables.items()]
    (tree.parent / "Dockerfile").write_text("\n".join(lines) + "\n")
    (tree.parent / ".dockerignore").write_text(f"*\n!{tree.name}\n!Dockerfile\n")
    client.images.build(path=str(tree.parent), tag=tag, rm=True)


def all_bases(client: Any, folder: Path, wanted: Sequence[str] = CUPYS) -> dict[str, str]:  # noqa: ANN401
    """The base of each kind, made in an engine unless it has them; ``wanted`` is the CUDA of NVIDIA's."""
    names = {"wheels": "stand-in/python:3.11"} | {kind: f"stand-in/cuda:12.9.1-{kind}" for kind in ("runtime", "devel")}
    if set(names.values()) <= {tag for image in client.images.list() for tag in image.tags}:
        return names
    plain = certificates()
    load_root(client, debian(folder), names["wheels"], plain)
    below = names["wheels"]
    for kind, headers in (("runtime", False), ("devel", True)):
        tree = cuda_tree(folder, wanted, headers=headers)
        add_tree(client, below, tree, names[kind], {**plain, **NVIDIA})
        tree.unlink()
        below = names[kind]
    shutil.rmtree(folder / "wheels")
    return names
