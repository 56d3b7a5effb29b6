"""The table of nvidia-smi with a GPU in MIG mode and no instance."""

from __future__ import annotations

import pytest

from tests.paste.pasted_facts import primary, snapshot_of

IN_MIG_MODE = (
    "| NVIDIA-SMI 525.85.12    Driver Version: 525.85.12    CUDA Version: 12.0     |\n"
    "|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                   On |\n"
    "| N/A   29C    P0    44W / 400W |      0MiB / 81920MiB |     N/A      Default |\n"
    "|                               |                      |              Enabled |\n"
)
OTHER_GPU = IN_MIG_MODE[80:].replace("|   0", "|   1").replace(" Enabled", "Disabled").replace("07:00", "0F:00")
NO_INSTANCE = "|  No MIG devices found                                                       |\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        pytest.param(IN_MIG_MODE + NO_INSTANCE, "mig-misconfigured", id="none"),
        pytest.param(IN_MIG_MODE, None, id="not reported"),
        pytest.param(IN_MIG_MODE + OTHER_GPU + NO_INSTANCE, None, id="another usable GPU"),
        pytest.param(
            f"{IN_MIG_MODE}{NO_INSTANCE}GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5d5ba0d6)\n"
            "  MIG 1g.10gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)\n",
            None,
            id="made since",
        ),
    ],
)
def test_mig_mode_without_an_instance_is_misconfigured(text: str, cause: str | None) -> None:
    assert primary(text) == cause


@pytest.mark.parametrize("row", ["", "|   1  Tesla T4   Off  | 00000000:00:1F.0 Off |    0 |\n| N/A   40C    P0    26W /  70W |      0MiB / 15109MiB |  0%  Default |\n"])  # fmt: skip
@pytest.mark.parametrize("fold", [" ", "", "<br>", "  \t "])
def test_a_wrapped_table_keeps_the_row_of_the_mig_mode(fold: str, row: str) -> None:
    table = IN_MIG_MODE + row + NO_INSTANCE
    folded = fold.join(table.splitlines())
    assert [gpu.mig.value for gpu in snapshot_of(folded).gpus] == [True, None][: 1 + bool(row)]
    assert primary(folded) == primary(table) == (None if row else "mig-misconfigured")
    collapsed = " ".join(folded.split())
    assert primary(collapsed) == primary(table)
