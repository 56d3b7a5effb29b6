"""Sets of node names: folded, and read back."""

from __future__ import annotations

import pytest

from gpuenv.fleet.node_sets import NodeSetError, expand_nodes, fold_by_number, fold_nodes


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["node1"], "node1"),
        (["node9", "node10", "node11"], "node[9-11]"),
        (["node0001", "node0002", "node0799", "node0801"], "node[0001-0002,0799,0801]"),
        (["node09", "node9"], "node[09,9]"),
        (["gpu1.site.org", "gpu2.site.org"], "gpu[1-2].site.org"),
        (["login", "node1", "login"], "login,node1"),
        (["rack1-n1", "rack1-n2", "rack2-n1"], "rack1-n[1-2],rack2-n1"),
    ],
)
def test_names_fold_by_their_last_number_and_unfold(names: list[str], text: str) -> None:
    assert fold_by_number(names) == text
    assert set(expand_nodes(text)) == set(names)
    assert set(expand_nodes(fold_nodes(names))) == set(names)  # by ClusterShell, if it is installed


def test_clustershell_and_gpuenv_read_the_same_sets() -> None:
    node_set = pytest.importorskip("ClusterShell.NodeSet").NodeSet
    for text in ("node[0001-0799,0801],login1", "r[1-2]n[01-03]", "a,b,c", "n[8-11].x.y"):
        assert sorted(expand_nodes(text)) == sorted(node_set(text))


@pytest.mark.parametrize(
    "text",
    ["", "a[", "a[1-]", "a]b", "a;b", "../x", "@group", "a[1-99999999]", "a[1-9999]b[1-9999]", "a[9-1]", "a[1-2,9-8]"],
)
def test_a_text_that_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(NodeSetError):
        expand_nodes(text)
