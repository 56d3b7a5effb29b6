"""A record is a dataclass to everybody: both kinds of decorator, side by side, on the same classes."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_type_hints

import pytest

from gpuenv.model import record

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
DECORATORS: tuple[Any, Any] = (dataclasses.dataclass, vars(record)["dataclass"])
FIELDS: dict[Any, Any] = dict(zip(DECORATORS, (dataclasses.field, vars(record)["field"]), strict=True))


def _point(decorator: Any) -> Any:  # noqa: ANN401 - a class of either kind
    field = FIELDS[decorator]

    @decorator(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        y: int = 2
        names: dict[str, int] = field(default_factory=dict)
        note: str = field(default="", compare=False)

        @property
        def total(self) -> int:
            return self.x + self.y

    return Point


def _single(decorator: Any) -> Any:  # noqa: ANN401 - a class of either kind
    @decorator(frozen=True, slots=True)
    class Single:
        x: int

        def __str__(self) -> str:
            return f"<{self.x}>"

    return Single


def _generic(decorator: Any) -> Any:  # noqa: ANN401 - a class of either kind
    @decorator(frozen=True, slots=True)
    class Pair(Generic[T]):
        a: T
        b: T | None = None

    return Pair


def _raised(action: Callable[[], object]) -> type[Exception] | None:
    try:
        action()
    except Exception as error:  # noqa: BLE001 - which one is the question
        return type(error)
    return None


ASKED: dict[str, Callable[[Any], object]] = {
    "positional": lambda kind: kind(1),
    "all": lambda kind: kind(1, 3, {"a": 1}, "n"),
    "named": lambda kind: kind(y=5, x=4),
    "total": lambda kind: kind(1, 3).total,
    "equal": lambda kind: (kind(1) == kind(1), kind(1) == kind(2), kind(1) == 1, kind(1) != kind(2)),
    "not compared": lambda kind: kind(1, note="a") == kind(1, note="b"),
    "repr": lambda kind: repr(kind(1)).rpartition(".")[2],
    "replace": lambda kind: dataclasses.replace(kind(1), y=7),
    "as dict": lambda kind: dataclasses.asdict(kind(1)),
    "copy": lambda kind: (copy.copy(kind(1)) == kind(1), copy.deepcopy(kind(1)) == kind(1)),
    "fields": lambda kind: [(f.name, f.default is dataclasses.MISSING, f.type) for f in dataclasses.fields(kind)],
    "slots": lambda kind: (kind.__slots__, kind.__match_args__, hasattr(kind(1), "__dict__")),
    "doc": lambda kind: kind.__doc__,
    "name": lambda kind: (kind.__name__, kind.__module__, kind.__qualname__.rpartition(".")[2]),
    "factory": lambda kind: kind(1).names is kind(1).names,
}


@pytest.mark.parametrize("asked", ASKED)
def test_both_answer_alike(asked: str) -> None:
    theirs, ours = (_point(decorator) for decorator in DECORATORS)
    answer, expected = ASKED[asked](ours), ASKED[asked](theirs)
    assert repr(answer) == repr(expected)


@pytest.mark.parametrize(
    "misused",
    [
        lambda kind: kind(),
        lambda kind: kind(1, 2, {}, "", 5),
        lambda kind: kind(1, x=1),
        lambda kind: kind(1, z=1),
        lambda kind: setattr(kind(1), "x", 2),
        lambda kind: delattr(kind(1), "x"),
        lambda kind: hash(kind(1)),  # a dict within
    ],
)
def test_both_refuse_alike(misused: Callable[[Any], object]) -> None:
    theirs, ours = (_point(decorator) for decorator in DECORATORS)
    assert _raised(lambda: misused(ours)) is _raised(lambda: misused(theirs)) is not None


def test_a_record_is_replaced_as_the_standard_module_does() -> None:
    replace = vars(record)["replace"]
    one = _point(DECORATORS[1])(1, names={"a": 1}, note="n")
    assert repr(replace(one, y=7, note="m")) == repr(dataclasses.replace(one, y=7, note="m"))
    assert replace(one).names is one.names
    with pytest.raises(TypeError):
        replace(one, z=1)


def test_what_a_class_defines_itself_is_kept() -> None:
    for decorator in DECORATORS:
        kind = _single(decorator)
        assert str(kind(3)) == "<3>"
        assert hash(kind(3)) == hash((3,))
        assert len({kind(3), kind(3), kind(4)}) == 2


def test_a_generic_record_keeps_its_base() -> None:
    for decorator in DECORATORS:
        kind = _generic(decorator)
        assert kind(1) == kind(1, None)
        assert kind.__parameters__ == (T,)
        assert set(get_type_hints(kind, localns={"T": T})) == {"a", "b"}


def _thing(decorator: Any) -> Any:  # noqa: ANN401 - a class of either kind
    @decorator(frozen=True, slots=True, eq=False)
    class Thing:
        x: dict[str, int]

    return Thing


def test_identity_in_place_of_equality() -> None:
    for decorator in DECORATORS:
        kind = _thing(decorator)
        one = kind({})
        assert one != kind({})
        assert len({one, one, kind({})}) == 2


@pytest.mark.parametrize("options", [{"frozen": False, "slots": True}, {"frozen": True, "slots": False}])
def test_a_record_is_frozen_and_slotted(options: dict[str, bool]) -> None:
    with pytest.raises(TypeError, match="frozen and slotted"):
        DECORATORS[1](**options)


def test_what_no_record_has_is_refused() -> None:
    decorate = DECORATORS[1](frozen=True, slots=True)
    base = _single(DECORATORS[1])
    with pytest.raises(TypeError, match="no record as its base"):
        decorate(type("Derived", (base,), {"__annotations__": {"y": "int"}}))
    with pytest.raises(TypeError, match="fields of this module"):
        decorate(type("Hidden", (), {"__annotations__": {"y": "int"}, "y": dataclasses.field(default=1)}))
    with pytest.raises(TypeError, match="plain fields: init"):
        FIELDS[DECORATORS[1]](default=1, init=False)
