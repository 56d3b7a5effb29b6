"""Facts as evidence, written as in a snapshot."""

from __future__ import annotations

from gpuenv.doctor.evidence import fact
from gpuenv.model.reading import Answer, Reading, known
from gpuenv.model.snapshot import Container, Module


def test_a_state_is_spelled_as_in_a_snapshot() -> None:
    assert [entry.value for entry in fact("host.container", known(Container.DOCKER, "marks"))] == ["docker"]
    reading = Reading(Module.NOT_LOADED, "/lib/modules", (Answer(Module.LOADED, "/proc/modules"),))
    assert [entry.value for entry in fact("driver.module", reading)] == ["not-loaded", "loaded"]


def test_tuples_are_lists_and_unknown_values_have_a_reason() -> None:
    assert fact("grant.devices", known(("0", "1"), "slurm"))[0].value == "0, 1"
    assert fact("grant.devices", known((), "slurm"))[0].value == "none"
    (unknown,) = fact("driver.version", Reading(reason="no source"))
    assert (unknown.value, unknown.source) == ("unknown", "no source")


def test_booleans_are_shown_as_yes_and_no() -> None:
    reading = Reading(True, "nvml", (Answer(False, "nvidia-smi"),))
    assert [entry.value for entry in fact("gpus[0].health.rows_failed", reading)] == ["yes", "no"]
