"""Creates base images: busybox with test scripts, and Debian with CUDA in the folders of NVIDIA's images."""

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
# The variables of the nvidia/cuda:12.9.1 images, with a shortened NVIDIA_REQUIRE_CUDA.
NVIDIA_VARIABLES = {
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
    """A tar archive of a root file system with busybox and the given files."""
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


def image_archive(tag: str, layer: bytes, variables: Mapping[str, str]) -> bytes:
    """An archive for ``docker load``; the same layer gives the same bytes."""
    digest = hashlib.sha256(layer).hexdigest()
    entry = {"created": "2024-01-01T00:00:00Z", "created_by": "stand-in"}
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": "2024-01-01T00:00:00Z",
        "config": {"Env": [f"{name}={value}" for name, value in variables.items()], "Cmd": ["/bin/sh"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [entry],
    }
    text = json.dumps(config, sort_keys=True).encode()
    name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": [tag], "Layers": ["layer.tar"]}]).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for member, data in ((name, text), ("layer.tar", layer), ("manifest.json", manifest)):
            tar.addfile(*_member(member, data, 0o644))
    return buffer.getvalue()


def make_debian(folder: Path) -> Path:
    """Creates a tar file of a Debian root with Python, venv and the certificates of this machine."""
    file = folder / "debian.tar"
    command = ["mmdebstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates"]
    if _CERTIFICATES.exists():
        command.append(f"--customize-hook=copy-in {_CERTIFICATES} {_CERTIFICATES.parent}")
    subprocess.run([*command, "bookworm", str(file)], check=True, capture_output=True, timeout=900)
    return file


# The CUDA libraries that CuPy needs, and those of NVIDIA's runtime images, whose Dockerfiles (as of 2025-12-15)
# install cuda-libraries, libnpp, cuda-nvtx and libnccl.
CUPY_REQUIREMENTS = ("cuda-toolkit[cublas,cudart,cufft,curand,cusolver,cusparse,nvrtc,nvjitlink]",)
NVIDIA_REQUIREMENTS = (f"{CUPY_REQUIREMENTS[0][:-1]},cufile,npp,nvjpeg,nvtx]", "nvidia-nccl-cu12")


def certificate_variables() -> dict[str, str]:
    """The variables with which pip trusts the certificates of this machine; empty if it has none."""
    return {"PIP_CERT": str(_CERTIFICATES)} if _CERTIFICATES.exists() else {}


def make_cuda_tar(folder: Path, requirements: Sequence[str], *, headers: bool) -> Path:
    """Creates a tar file of CUDA's libraries, or of its headers, in the folders of NVIDIA's packages."""
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
            *requirements,
            "-c",
            str(constraint),
        ]
        subprocess.run(command, check=True, timeout=900)
    excluded = (".alt.", "cusolverMg") if requirements == CUPY_REQUIREMENTS else (".alt.",)
    prefix = f"usr/local/cuda-{CUDA}/targets/x86_64-linux"
    file = folder / ("cuda-headers.tar" if headers else "cuda-libraries.tar")
    with tarfile.open(file, "w") as tar:
        for path in sorted((wheels / "nvidia").glob("*/include/*" if headers else "*/lib/*.so*")):
            if not any(part in path.name for part in excluded):
                tar.add(path, f"{prefix}/{'include' if headers else 'lib'}/{path.name}")
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


def debian_skip_reason() -> str:
    """Why this machine cannot create a Debian base; empty if it can."""
    return "" if shutil.which("mmdebstrap") else "mmdebstrap is missing: apt-get install mmdebstrap"


def import_root(client: Any, file: Path, tag: str, variables: Mapping[str, str]) -> None:  # noqa: ANN401 - no types
    """Imports a tar file of a root file system as an image."""
    name, _, version = tag.partition(":")
    changes = [
        f"ENV {key}={value}"
        for key, value in {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **variables}.items()
    ]
    response = client.api.import_image_from_file(str(file), repository=name, changes=changes)
    client.api.tag(
        json.loads(response.splitlines()[0])["status"], name, version
    )  # Podman 4.3 does not tag an image on import


def build_with_tar(client: Any, base: str, tar_file: Path, tag: str, variables: Mapping[str, str]) -> None:  # noqa: ANN401
    """Builds an image that unpacks a tar file over another image and runs ldconfig."""
    lines = [f"FROM {base}", f"ADD {tar_file.name} /", "RUN /sbin/ldconfig"]
    lines += [f"ENV {name}={json.dumps(value)}" for name, value in variables.items()]
    (tar_file.parent / "Dockerfile").write_text("\n".join(lines) + "\n")
    (tar_file.parent / ".dockerignore").write_text(f"*\n!{tar_file.name}\n!Dockerfile\n")
    client.images.build(path=str(tar_file.parent), tag=tag, rm=True)


def make_bases(client: Any, folder: Path, requirements: Sequence[str] = CUPY_REQUIREMENTS) -> dict[str, str]:  # noqa: ANN401
    """The base of each kind, built in the engine if it lacks one.

    Args:
        requirements: the CUDA packages of the runtime and devel bases.
    """
    names = {"wheels": "stand-in/python:3.11"} | {kind: f"stand-in/cuda:12.9.1-{kind}" for kind in ("runtime", "devel")}
    if set(names.values()) <= {tag for image in client.images.list() for tag in image.tags}:
        return names
    variables = certificate_variables()
    import_root(client, make_debian(folder), names["wheels"], variables)
    base = names["wheels"]
    for kind, headers in (("runtime", False), ("devel", True)):
        tar_file = make_cuda_tar(folder, requirements, headers=headers)
        build_with_tar(client, base, tar_file, names[kind], {**variables, **NVIDIA_VARIABLES})
        tar_file.unlink()
        base = names[kind]
    shutil.rmtree(folder / "wheels")
    return names
