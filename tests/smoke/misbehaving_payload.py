"""A payload that misbehaves as its argument names: started like the real one, with its channel, without CuPy.

``misbehaving_payload.py BEHAVIOUR JSON``; processes left behind write their id into the folder ``BEHAVIOUR_FOLDER``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

MAIN = Path(__file__).parents[2] / "gpuenv/smoke/payload/main.py"
PASSED = {"status": "passed", "trouble": None, "detail": None, "cause": None}


def load_main() -> Any:  # noqa: ANN401 - a module
    """The payload's own main program, as a module."""
    spec = importlib.util.spec_from_file_location("payload_main", MAIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHANNEL = load_main().open_channel()


def send(key: str, value: object) -> None:
    CHANNEL.write("gpuenv:" + json.dumps({key: value}) + "\n")
    CHANNEL.flush()


def write_marker(name: str) -> None:
    """Write this process's id where the test finds it."""
    path = Path(os.environ["BEHAVIOUR_FOLDER"]) / f"{name}.{os.getpid()}"
    path.write_text("", encoding="utf-8")


def hang_as(name: str) -> None:
    """Stay for a minute, ignoring all polite signals."""
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    write_marker(name)
    time.sleep(60)
    os._exit(0)


def passes() -> None:
    send("versions", {"cupy": "99.0", "numpy": "99.1"})
    odd = {"nonsense": {"value": "fast"}, "endless": {"value": 10**400}, "none": {"value": float("nan")}}
    send("measured", {"rate": {"value": 2.5e9, "unit": "B/s"}, **odd})
    send("work_seconds", 0.25)


def sustained() -> None:
    """A burn-in of a second."""
    time.sleep(1.2)
    passes()


def fails() -> dict[str, object]:
    return {"status": "failed", "trouble": "wrong-answer", "detail": "c: 1 of 4 wrong", "cause": None}


def busy() -> dict[str, object]:
    return {"status": "busy", "trouble": "memory-held-by-others", "detail": "others hold it", "cause": "gpu-busy"}


def busy_once() -> dict[str, object] | None:
    """Busy in the first run, correct in the next."""
    mark = Path(os.environ["BEHAVIOUR_FOLDER"]) / "first-run"
    if mark.exists():
        return None
    mark.write_text("", encoding="utf-8")
    return busy()


def short_of_host_memory_once() -> dict[str, object] | None:
    """Short of host memory in the first run, correct in the next."""
    mark = Path(os.environ["BEHAVIOUR_FOLDER"]) / "first-run"
    if mark.exists():
        return None
    mark.write_text("", encoding="utf-8")
    return {"status": "skipped", "trouble": "host-memory", "detail": "too little is left", "cause": None}


def killed_once() -> None:
    """Killed in the first run, as by a kernel short of memory, correct in the next."""
    mark = Path(os.environ["BEHAVIOUR_FOLDER"]) / "first-run"
    if not mark.exists():
        mark.write_text("", encoding="utf-8")
        os.kill(os.getpid(), signal.SIGKILL)


def skips() -> dict[str, object]:
    return {"status": "skipped", "trouble": "not-applicable", "detail": "needs more", "cause": None}


def sees_no_gpu() -> dict[str, object]:
    return {"status": "skipped", "trouble": "no-device", "detail": "CUDA finds no GPU", "cause": None}


def raises_a_lone_surrogate() -> dict[str, object]:
    """As of a file name that is not UTF-8."""
    return {"status": "failed", "trouble": "error", "detail": "no file \udcff here", "cause": None}


def quotes_a_secret() -> dict[str, object]:
    sys.path.insert(0, str(MAIN.parents[3]))
    from gpuenv.smoke.payload.failures import verdict_on_exception  # noqa: PLC0415
    from tests.support.planted_secrets import LONG_URL  # noqa: PLC0415

    return dict(verdict_on_exception(OSError(f"cannot open {'a' * 400} {LONG_URL.line}"))._asdict())


def ends_with_a_secret() -> None:
    sys.path.insert(0, str(MAIN.parents[3]))
    from tests.support.planted_secrets import LONG_URL  # noqa: PLC0415

    sys.exit(f"cannot open {LONG_URL.line}")


def loses_context() -> dict[str, object]:
    return {
        "status": "crashed",
        "trouble": "context-lost",
        "detail": "the CUDA context is lost",
        "cause": "illegal-memory-access",
    }


def segfaults() -> None:
    send("stage", "the GPU's answers")
    os.kill(os.getpid(), signal.SIGSEGV)


def aborts_after_the_verdict() -> None:
    send("verdict", PASSED)
    os.abort()


def hangs() -> None:
    send("stage", "the GPU's answers")
    hang_as("hangs")


def hangs_at_the_end() -> None:
    send("verdict", PASSED)
    hang_as("hangs")


def forks_and_hangs() -> None:
    for _ in range(3):
        if os.fork() == 0:
            hang_as("child")
    hang_as("parent")


def leaves_a_grandchild() -> None:
    if os.fork() == 0:
        hang_as("grandchild")
    wait_for("grandchild")


def leaves_a_daemon() -> None:
    """A grandchild that left group and session, as a daemon does: forked twice, its parent gone."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            hang_as("daemon")
        os._exit(0)
    os.wait()
    wait_for("daemon")


def hangs_with_a_daemon() -> None:
    leaves_a_daemon()
    hang_as("hangs")


def kills_its_group() -> None:
    if os.fork() == 0:
        os.setsid()
        hang_as("daemon")
    wait_for("daemon")
    os.killpg(os.getpgrp(), signal.SIGKILL)


def wait_for(name: str) -> None:
    while not any(Path(os.environ["BEHAVIOUR_FOLDER"]).glob(f"{name}.*")):
        time.sleep(0.01)


def prints_garbage() -> None:
    sys.stdout.write("gpuenv:{not json\ngpuenv:[1]\n\x00\xff gpuenv:null\n")
    sys.stdout.flush()
    os.write(1, b'\xff\xfe gpuenv:{"verdict": {"status": "failed"}}\n')
    CHANNEL.write("garbage before a fact gpuenv:" + json.dumps({"work_seconds": 0.5}) + "\ngpuenv:{cut sho\n")
    CHANNEL.flush()


def floods() -> None:
    block = b"x" * (1 << 20)
    for _ in range(100):
        os.write(1, block)
        os.write(2, block)


def floods_without_end() -> None:
    while True:
        os.write(1, b"y\n" * 4096)


def exits_early() -> None:
    sys.stderr.write("something is wrong\n")
    os._exit(3)


def exits_early_with_success() -> None:
    os._exit(0)


def sends_a_malformed_verdict() -> dict[str, object]:
    return {"status": "splendid"}


def closes_its_channel() -> None:
    CHANNEL.close()
    os._exit(0)


def exits_with_the_deadline_code() -> None:
    """The code that the supervisor uses for a program that it killed."""
    os._exit(124)


def reports_its_environment() -> dict[str, object]:
    """Report the folder, its entries, the visible GPU and the request."""
    environment = {"folder": os.getcwd(), "entries": os.listdir(), "visible": os.environ.get("CUDA_VISIBLE_DEVICES")}  # noqa: PTH109, PTH208
    return {
        "status": "failed",
        "trouble": "error",
        "detail": json.dumps({**environment, "request": REQUEST}),
        "cause": None,
    }


REQUEST = json.loads(sys.argv[2])


def main() -> None:
    send("started", value=True)
    name = sys.argv[1].partition(".")[2]
    verdict = globals()[name]()
    send("verdict", verdict or PASSED)
    send("done", value=True)
    os._exit(0)


if __name__ == "__main__":
    main()
