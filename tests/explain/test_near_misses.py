"""Sentences that a message's words are in, and that tell of no fault; beside each, the fault that it is not."""

from __future__ import annotations

import pytest

from gpuenv.explain.answer import explanation
from gpuenv.explain.scan import scan


def told(text: str) -> list[str]:
    return [name for entry in explanation(scan(text.encode())).causes for name in entry.signatures]


@pytest.mark.parametrize(
    ("signature", "healthy", "fault"),
    [
        (
            "told.memory-grows",
            "GPU memory peak 31.2 GiB; the process exited with 0, nothing remains allocated.",
            "GPU memory peak 31.2 GiB; all of it remains allocated.",
        ),
        (
            "suspend.resume",
            "After suspend everything still works with driver 550, including CUDA.",
            "After suspend the desktop still works, but CUDA fails with an error.",
        ),
        (
            "node.permission",
            "libEGL warning: failed to open /dev/dri/renderD128: Permission denied",
            "hipInit: cannot open /dev/dri/renderD128: Permission denied",
        ),
        ("nvrm.xid", "xid: 79 committed, 12 rows", "the kernel's log has Xid: 79 of the GPU"),
    ],
)
def test_a_sentence_that_comes_near_is_not_the_message(signature: str, healthy: str, fault: str) -> None:
    assert told(healthy) == []
    assert signature in told(fault)


@pytest.mark.parametrize(
    "line",
    [
        '    logger.error("CUDA out of memory, reduce the batch size")',
        '  case cudaErrorNoDevice: return "no CUDA-capable device is detected";',
        'static const char *names[] = {"CUDA_ERROR_OUT_OF_MEMORY"};',
        '    fprintf(stderr, "CUDA driver version is insufficient for CUDA runtime version");',
        "with pytest.raises(cupy.cuda.memory.OutOfMemoryError):",
        "    except cupy.cuda.memory.OutOfMemoryError:",
        "- fix(init): handle cudaErrorNoDevice",
    ],
)
def test_what_a_program_would_say_or_catch_has_not_come(line: str) -> None:
    assert told(line) == []
    assert told(f"{line}\ncupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,192 bytes") != []
