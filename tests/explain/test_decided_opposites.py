"""What looks like a fact that decides and is none, each with the real one."""

from __future__ import annotations

import pytest

from gpuenv.explain.scan import scan
from gpuenv.explain.weigh import text_marks, weigh
from gpuenv.model.causes import Cause

NO_DEVICE = "RuntimeError: CUDA error: no CUDA-capable device is detected"


def first(text: str) -> Cause | None:
    """The likeliest by its messages alone, whatever its words are like."""
    hits = scan(text.encode()).hits
    ranked = weigh(hits, text_marks(hits))
    return ranked[0].cause if ranked else None


@pytest.mark.parametrize(
    "beside",
    [
        "$ sudo apt-get update\nHit:1 OK",
        "sudo apt-get install fine",
        "sudo pip install works.",
        "sudo python -m pip list works",
        "$ sudo systemctl status nvidia-persistenced: fine",
        "$ sudo modprobe nvidia\n$ nvidia-smi works",
        "sudo nvidia-smi works, and as user too",
        "sudo python x.py prints False too",
        "sudo python x.py: True, as user too",
        "pip works as root",
        "it never works as root",
    ],
)
def test_what_root_may_and_others_too(beside: str) -> None:
    assert first(f"{beside}\n{NO_DEVICE}") is not Cause.DEVICE_NODE_PERMISSION


@pytest.mark.parametrize(
    "fact",
    [
        "sudo python check.py: works",
        "sudo ./deviceQuery: PASS",
        "torch.cuda.is_available() is True as root",
        "sudo python3 x.py prints True",
        "as root both cards are there",
        "as the ordinary user it fails; `sudo nvidia-smi` works",
    ],
)
def test_what_root_alone_may(fact: str) -> None:
    assert first(f"{fact}\n{NO_DEVICE}") is Cause.DEVICE_NODE_PERMISSION
