"""What the package never does, by its syntax trees; and every line of the threat model names a test that is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import gpuenv
from tests.support.syntax_trees import Module, called, imports, modules, nodes, strangers

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
THREATS = Path(gpuenv.__file__).parent / "docs/threats.md"
# What makes a program of data. exec and compile of other names than the built-in ones are methods (re.compile).
PROGRAMS_OF_DATA = {"eval", "exec", "compile", "__import__", "execfile"}
UNPICKLING = {"pickle", "cPickle", "marshal", "shelve", "dill", "joblib", "jsonpickle"}
YAML_OF_OBJECTS = {
    *("load", "load_all", "unsafe_load", "unsafe_load_all", "full_load", "full_load_all", "safe_load", "safe_load_all"),
    *("Loader", "FullLoader", "UnsafeLoader", "CLoader", "CFullLoader", "CUnsafeLoader"),
}
# A name first and a file later: somebody else may have put something there in between.
RACES = {"mktemp", "tempnam", "tmpnam"}
# Every member of an archive is placed by its own word; what is unpacked here is looked at member by member.
UNPACKING = {"extractall", "unpack_archive", "extract"}
OUTSIDE_XML = {"xml.etree", "xml.dom", "xml.sax", "lxml"}


def calls_of(module: Module) -> Iterator[ast.Call]:
    return (node for node in nodes(module.tree) if isinstance(node, ast.Call))


def attributes_of(module: Module, owner: str) -> set[str]:
    """What a module takes of a name: ``load`` of ``yaml.load``."""
    return {
        node.attr
        for node in nodes(module.tree)
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == owner
    }


def test_nothing_makes_a_program_of_data() -> None:
    """The built-in ones, by their bare names."""

    def made(module: Module) -> set[str]:
        return {name for call in calls_of(module) if (name := getattr(call.func, "id", "")) in PROGRAMS_OF_DATA}

    # In a child: the import whose success is to be proven, of a name that the plan holds.
    assert strangers(made) == {"gpuenv.probe.scripts.module_import": {"__import__"}}


def test_nothing_is_unpickled() -> None:
    assert strangers(lambda module: {name.split(".")[0] for name in imports(module.tree)} & UNPICKLING) == {}


def test_no_yaml_makes_objects() -> None:
    """The one user of the library composes plain nodes, by a loader without constructors of objects."""
    assert strangers(lambda module: attributes_of(module, "yaml") & YAML_OF_OBJECTS) == {}
    users = [module for module in modules() if "yaml" in set(imports(module.tree))]
    assert [module.name for module in users] == ["gpuenv.matrix.strict_yaml"]
    assert "compose" in attributes_of(users[0], "yaml")


def test_no_temporary_file_is_named_before_it_is_made() -> None:
    assert strangers(lambda module: {called(call) for call in calls_of(module)} & RACES) == {}
    # A name of one's own choosing in the folder of all users would be such a race too.
    folders = {"gettempdir", "gettempdirb"}
    assert strangers(lambda module: {called(call) for call in calls_of(module)} & folders) == {}


def test_no_archive_is_unpacked_by_its_own_word() -> None:
    found = strangers(lambda module: {called(call) for call in calls_of(module)} & UNPACKING)
    # A wheel of the digest that the index told, below a temporary folder; zipfile makes no links and drops roots and
    # ".." (Python documentation, zipfile, ZipFile.extract). No tar archive is unpacked so.
    assert found == {"gpuenv.refresh.package_index": {"extractall"}}
    tars = {module.name for module in modules() if any(name.startswith("tarfile") for name in imports(module.tree))}
    assert tars & set(found) == set()


def test_no_tree_is_built_of_xml_from_outside() -> None:
    """JUnit's form is written with the standard library; what nvidia-smi prints is read without building a tree."""

    def reading(module: Module) -> set[str]:
        names = {name for name in imports(module.tree) if name.startswith(tuple(OUTSIDE_XML))}
        return (
            {called(call) for call in calls_of(module)} & {"fromstring", "parse", "iterparse", "XML"}
            if names
            else set()
        )

    assert strangers(reading) == {}


@cache
def rows() -> list[tuple[str, ...]]:
    """The lines of the threat model: the threat, what stands against it, the test."""
    lines = THREATS.read_text(encoding="utf-8").splitlines()
    table = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.startswith("|")]
    return table[2:]


def test_every_threat_names_what_stands_against_it_and_a_test() -> None:
    assert len(rows()) >= 15
    assert [row for row in rows() if len(row) != 3 or not all(row)] == []
    assert [row for row in rows() if not re.search(r"`tests/\S+::test_\w+`", row[2])] == []


def test_every_test_that_the_threat_model_names_is_there() -> None:
    named = {name for row in rows() for name in re.findall(r"`(tests/\S+::test_\w+)`", row[2])}
    gone = []
    for name in sorted(named):
        path, _, function = name.partition("::")
        file = HERE.parent / path
        if not file.is_file() or not re.search(rf"^def {function}\(", file.read_text(encoding="utf-8"), re.MULTILINE):
            gone.append(name)
    assert gone == []
