"""Several tests one after another, each in a process of its own: for a container, where nobody else can start them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any, Callable, Dict

Tell = Callable[[str, Any], None]
MARK = "gpuenv:"


def several(order: Dict[str, Any], tell: Tell) -> None:
    """Tells the verdict of each; a test has its ``name``, ``order``, ``visible`` device and ``deadline`` in seconds."""
    main = os.path.join(os.path.dirname(os.path.abspath(__file__)), "main.py")
    for number, test in enumerate(order["tests"]):
        command = [sys.executable, "-B", main, test["name"], json.dumps(test["order"])]
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES=test["visible"])
        seconds = test["deadline"]
        started, answer = time.monotonic(), None
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=False, timeout=seconds)
            answer = _verdict(done.stdout.decode("utf-8", "replace"), done.returncode)
        except subprocess.TimeoutExpired:
            answer = {"status": "timed-out", "detail": "no answer within %g s" % seconds}
        tell("test.%d" % number, dict(answer, name=test["name"], duration=time.monotonic() - started))


def _verdict(output: str, code: int) -> Dict[str, Any]:
    for line in output.splitlines():
        body = line.partition(MARK)[2]
        try:
            told = json.loads(body) if body else {}
        except ValueError:
            continue
        if "verdict" in told:
            return told["verdict"]
    return {"status": "crashed", "detail": "ended with exit code %d before its verdict" % code}
