"""``dataclass``, ``field`` and ``replace`` for records: frozen and slotted, and cheap to define.

The standard decorator compiles up to eight functions for every class, about a millisecond's work: with two hundred
records that was half of the doctor's own start. Here all records share their methods, and ``__init__`` is a closure.
For everybody else, the type checker and ``dataclasses.fields`` and ``replace`` among them, a record is a dataclass; so
are equality, hash, representation, copies and errors (tests/model/test_record.py holds both kinds side by side).
The standard module itself, which imports what reads source code, is imported where somebody asks for the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, cast

if TYPE_CHECKING:
    import dataclasses

Decorator = Callable[[type[Any]], type[Any]]
_OF_A_FIELD = {"default", "default_factory", "compare"}


class _Field:
    """What is told of a field besides its type, in the words of ``dataclasses.field``."""

    __slots__ = ("told",)

    def __init__(self, **told: Any) -> None:  # noqa: ANN401 - any default
        if not told.keys() <= _OF_A_FIELD:
            raise TypeError(f"a record has plain fields: {', '.join(told.keys() - _OF_A_FIELD)}")
        self.told = told


def is_record(kind: Any) -> bool:  # noqa: ANN401 - a class or a type hint
    """Whether it is the class of records; ``dataclasses.is_dataclass`` would have it work out its fields."""
    return isinstance(kind, type) and "__dataclass_fields__" in vars(kind)


def _dataclass(*, frozen: bool, slots: bool, eq: bool = True) -> Decorator:
    """The decorator; ``frozen`` and ``slots`` are to be given, and true, so that a class reads as what it is.

    Raises:
        TypeError: for what no record has: mutable fields, a record as its base, fields beyond the constructor.
    """
    if not (frozen and slots):
        raise TypeError("a record is frozen and slotted")
    return _with_equality if eq else _with_identity


def _with_equality(plain: type[Any]) -> type[Any]:
    return _made(plain, {**_SHARED, **_EQUALITY})


def _with_identity(plain: type[Any]) -> type[Any]:
    return _made(plain, _SHARED)


def _made(plain: type[Any], methods: dict[str, Any]) -> type[Any]:
    """The class anew with slots, as the standard decorator makes it, but with the methods that all records share."""
    names = tuple(plain.__annotations__)
    values = {name: value for name, value in vars(plain).items() if name in names}
    described = {name: value.told for name, value in values.items() if isinstance(value, _Field)}
    unusual = any(type(value).__module__ == "dataclasses" for value in values.values())
    if unusual or any(hasattr(plain, name) for name in ("__post_init__", "__dataclass_fields__")):
        raise TypeError(f"{plain.__qualname__}: a record has fields of this module, and no record as its base")
    left_out = {*values, "__dict__", "__weakref__"}
    namespace = {key: value for key, value in vars(plain).items() if key not in left_out}
    namespace |= {key: value for key, value in methods.items() if key not in namespace or key == "__hash__"}
    namespace |= {"__slots__": names, "__match_args__": names, "__qualname__": plain.__qualname__}
    setters: list[Callable[[Any, Any], None]] = []  # of the slots, once there are any
    namespace |= {"__init__": _initialiser(plain.__name__, names, values, setters)}
    namespace |= {"__dataclass_fields__": _Fields(plain, values)}
    compared = [name for name in names if described.get(name, {}).get("compare", True)]
    namespace["_compared"] = staticmethod(_getter(compared))
    metaclass: Any = type(plain)
    made = metaclass(plain.__name__, plain.__bases__, namespace)
    setters.extend(vars(made)[name].__set__ for name in names)
    return cast("type[Any]", made)


class _Fields:
    """``__dataclass_fields__`` of a record: worked out where somebody asks, as the standard decorator does.

    Of a class of its own, so that two threads that ask at once are told the same.
    """

    def __init__(self, plain: type[Any], values: dict[str, Any]) -> None:
        # With a docstring: the standard decorator would work out a signature for one that lacks it, which is slow.
        self._told = {
            "__doc__": plain.__name__,
            "__module__": plain.__module__,
            "__annotations__": plain.__annotations__,
        }
        self._values = values

    def __get__(self, record: object, kind: type[Any]) -> dict[str, dataclasses.Field[Any]]:
        import dataclasses  # noqa: PLC0415 - it takes longer than all else here

        standard = {
            name: dataclasses.field(**value.told) if isinstance(value, _Field) else value
            for name, value in self._values.items()
        }
        described: Any = type(kind.__name__, (), self._told | standard)
        described = dataclasses.dataclass(init=False, repr=False, eq=False)(described)
        fields: dict[str, dataclasses.Field[Any]] = described.__dataclass_fields__
        kind.__dataclass_fields__ = fields
        return fields


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What makes a tuple of a record's values."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def _defaults(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    """The values that need not be given, and what makes them."""
    defaults: dict[str, Any] = {}
    factories: dict[str, Callable[[], Any]] = {}
    for name, value in values.items():
        if not isinstance(value, _Field):
            defaults[name] = value
        elif "default" in value.told:
            defaults[name] = value.told["default"]
        elif "default_factory" in value.told:
            factories[name] = value.told["default_factory"]
    return defaults, factories


def _initialiser(
    title: str, names: tuple[str, ...], values: dict[str, Any], setters: Iterable[Callable[[Any, Any], None]]
) -> Callable[..., None]:
    defaults, factories = _defaults(values)

    def completed(given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        left = names[len(given) :]
        if len(given) > len(names) or not named.keys() <= set(left):
            raise TypeError(f"{title}: no such field, or given twice: {', '.join(named) or given[len(names) :]}")
        made = {name: make() for name, make in factories.items() if name in left and name not in named}
        told = {**defaults, **made, **named}
        try:
            return (*given, *[told[name] for name in left])
        except KeyError as error:
            raise TypeError(f"{title} lacks a value for {error}") from None

    def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: ANN401, N807 - it becomes the method
        if named or len(given) != len(names):
            given = completed(given, named)
        for put, value in zip(setters, given):  # noqa: B905 - as many, and strict costs time
            put(self, value)

    return __init__


def _repr(self: Any) -> str:  # noqa: ANN401 - any record
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:  # noqa: ANN401 - any record
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:  # noqa: ANN401 - any record
    return hash(self._compared(self))


def _replace(self: Any, /, **changes: Any) -> Any:  # noqa: ANN401 - any record
    """A record like this one, but for these fields."""
    kept = {name: getattr(self, name) for name in self.__slots__ if name not in changes}
    return type(self)(**kept, **changes)


def _setattr(_: object, name: str, __: object) -> NoReturn:
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 - a fault of the program is told

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_: object, name: str) -> NoReturn:
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 - likewise

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:  # noqa: ANN401 - any record
    return [getattr(self, name) for name in self.__slots__]


def _setstate(self: Any, state: Iterable[Any]) -> None:  # noqa: ANN401 - any record
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)


_SHARED: dict[str, Any] = {
    "__repr__": _repr,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__replace__": _replace,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}
_EQUALITY: dict[str, Any] = {"__eq__": _eq, "__hash__": _hash}

if TYPE_CHECKING:  # the type checker takes them for the real ones
    from dataclasses import dataclass as dataclass  # noqa: PLC0414
    from dataclasses import field as field  # noqa: PLC0414
    from dataclasses import replace as replace  # noqa: PLC0414
else:
    dataclass, field, replace = _dataclass, _Field, _replace
