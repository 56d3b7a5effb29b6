"""The table of facts and their sources, and the page generated from it."""

from __future__ import annotations

from tests.support.trust import rank
from tools.fact_sources import FACTS, sources_of
from tools.facts_page import fact_paths, page


def test_every_fact_has_its_sources() -> None:
    without = [path for path, _ in fact_paths() if sources_of(path) is None]
    assert without == []


def test_every_row_describes_a_fact() -> None:
    paths = {path for path, _ in fact_paths()}
    wildcards = {row for row in FACTS if row.endswith(".*")}
    assert set(FACTS) - wildcards <= paths
    for wildcard in wildcards:
        matches = [path for path in paths if path not in FACTS and path.startswith(wildcard[:-1])]
        assert matches, f"{wildcard} matches nothing"


def test_facts_with_several_sources_document_disagreement() -> None:
    """In other rows the sources are tried in turn, so that only one answers."""
    paths = {path for path, row in FACTS.items() if row.differ}
    assert {"driver.version", "driver.cuda", "gpu_count", "gpus[].compute_capability", "toolkits[].toolkit"} <= paths


def test_every_fact_has_a_description() -> None:
    assert [path for path, meaning in fact_paths() if not meaning] == []


def test_the_page_has_an_entry_for_each_fact() -> None:
    entries = [line.strip("`") for line in page().splitlines() if line.startswith("`") and line.endswith("`")]
    assert entries == [path for path, _ in fact_paths()]


def test_the_rank_of_a_source_is_its_position_in_the_row() -> None:
    row = sources_of("driver.version")
    assert row is not None
    ranks = [rank(row, name) for name in ("/proc/driver/nvidia/version", "nvml", "the name of libcuda.so.1", "hearsay")]
    assert ranks == [0, 2, 4, None]
