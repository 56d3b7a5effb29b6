"""Forbidden constructs, checked on syntax trees; every line of the threat model names an existing test."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.syntax_trees import Module, call_name, imports, modules, nodes, violations

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
THREATS = HERE.parent / "docs/explanation/threat-model.md"
# Functions that run data as code. exec and compile of other names than the built-in ones are methods (re.compile).
CODE_FROM_DATA = {"eval", "exec", "compile", "__import__", "execfile"}
UNPICKLING = {"pickle", "cPickle", "marshal", "shelve", "dill", "joblib", "jsonpickle"}
UNSAFE_YAML = {
    *("load", "load_all", "unsafe_load", "unsafe_load_all", "full_load", "full_load_all", "safe_load", "safe_load_all"),
    *("Loader", "FullLoader", "UnsafeLoader", "CLoader", "CFullLoader", "CUnsafeLoader"),
}
# These return a name without creating the file, so another process can create it first.
RACES = {"mktemp", "tempnam", "tmpnam"}
# These place each member where the archive says; gpuenv checks archives member by member.
UNPACKING = {"extractall", "unpack_archive", "extract"}
XML_PARSERS = {"xml.etree", "xml.dom", "xml.sax", "lxml"}


def calls_of(module: Module) -> Iterator[ast.Call]:
    return (node for node in nodes(module.tree) if isinstance(node, ast.Call))


def attributes_of(module: Module, owner: str) -> set[str]:
    """The attributes that a module uses of a name: ``load`` of ``yaml.load``."""
    return {
        node.attr
        for node in nodes(module.tree)
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == owner
    }


def test_no_data_is_run_as_code() -> None:
    """Only built-in functions, by their bare names."""

    def code_functions(module: Module) -> set[str]:
        return {name for call in calls_of(module) if (name := getattr(call.func, "id", "")) in CODE_FROM_DATA}

    # In a child process: the import that is verified, of a name from the plan.
    assert violations(code_functions) == {"gpuenv.probe.scripts.module_import": {"__import__"}}


def test_nothing_is_unpickled() -> None:
    assert violations(lambda module: {name.split(".")[0] for name in imports(module.tree)} & UNPICKLING) == {}


def test_no_yaml_constructs_objects() -> None:
    """One module composes plain nodes with a loader without object constructors; one scans and writes plain values."""
    assert violations(lambda module: attributes_of(module, "yaml") & UNSAFE_YAML) == {}
    importers = [module for module in modules() if "yaml" in set(imports(module.tree))]
    assert [module.name for module in importers] == ["gpuenv.matrix.canonical", "gpuenv.matrix.strict_yaml"]
    used = [attributes_of(module, "yaml") for module in importers]
    assert used[0] <= {
        "scan",
        "safe_dump",
        "SafeLoader",
        "ScalarToken",
        "StreamStartToken",
        "StreamEndToken",
        "BlockEndToken",
    }
    assert "compose" in used[1]


def test_temporary_files_are_created_without_a_race() -> None:
    assert violations(lambda module: {call_name(call) for call in calls_of(module)} & RACES) == {}
    # A fixed name in the shared temporary folder would be a race too.
    folders = {"gettempdir", "gettempdirb"}
    assert violations(lambda module: {call_name(call) for call in calls_of(module)} & folders) == {}


def test_archives_are_unpacked_member_by_member() -> None:
    unpackers = violations(lambda module: {call_name(call) for call in calls_of(module)} & UNPACKING)
    # A wheel with the digest from the index, below a temporary folder; zipfile makes no links and drops roots and
    # ".." (Python documentation, zipfile, ZipFile.extract). No tar archive is unpacked so.
    assert unpackers == {"gpuenv.refresh.package_index": {"extractall"}}
    tars = {module.name for module in modules() if any(name.startswith("tarfile") for name in imports(module.tree))}
    assert tars & set(unpackers) == set()


def test_no_xml_is_parsed_into_a_tree() -> None:
    """JUnit is written with the standard library; output of nvidia-smi is read without building a tree."""

    def parser_calls(module: Module) -> set[str]:
        names = {name for name in imports(module.tree) if name.startswith(tuple(XML_PARSERS))}
        return (
            {call_name(call) for call in calls_of(module)} & {"fromstring", "parse", "iterparse", "XML"}
            if names
            else set()
        )

    assert violations(parser_calls) == {}


@cache
def rows() -> list[tuple[str, ...]]:
    """The rows of the threat model: threat, protection and test."""
    lines = THREATS.read_text(encoding="utf-8").splitlines()
    table = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.startswith("|")]
    return table[2:]


def test_every_threat_names_a_protection_and_a_test() -> None:
    assert len(rows()) >= 15
    assert [row for row in rows() if len(row) != 3 or not all(row)] == []
    assert [row for row in rows() if not re.search(r"`tests/\S+::test_\w+`", row[2])] == []


def test_every_test_in_the_threat_model_exists() -> None:
    names = {name for row in rows() for name in re.findall(r"`(tests/\S+::test_\w+)`", row[2])}
    missing = []
    for name in sorted(names):
        path, _, function = name.partition("::")
        file = HERE.parent / path
        if not file.is_file() or not re.search(rf"^def {function}\(", file.read_text(encoding="utf-8"), re.MULTILINE):
            missing.append(name)
    assert missing == []
