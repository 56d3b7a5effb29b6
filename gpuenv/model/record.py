"""``dataclass`` for records: frozen and slotted, and cheap to define.

The standard decorator compiles up to eight functions for every class, about a millisecond's work: with two hundred
records that was half of the doctor's own start. Here all records share their methods, and ``__init__`` is a closure.
For everybody else, the type checker and ``dataclasses.fields`` and ``replace`` among them, a record is a dataclass; so
are equality, hash, representation, copies and errors (tests/model/test_record.py holds both kinds side by side).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, cast

Decorator = Callable[[type[Any]], type[Any]]


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
    if plain.__doc__ is None:
        plain.__doc__ = plain.__name__  # the standard decorator would work out a signature, which is slow
    described = dataclasses.dataclass(init=False, repr=False, eq=False)(plain)
    fields = dataclasses.fields(described)
    unusual = [field.name for field in fields if not field.init or field.kw_only or not field.repr]
    if unusual or hasattr(plain, "__post_init__") or any(map(dataclasses.is_dataclass, plain.__bases__)):
        raise TypeError(f"{plain.__qualname__}: a record has plain fields, and no record as its base")
    names = tuple(field.name for field in fields)
    left_out = {*names, "__dict__", "__weakref__"}
    namespace = {key: value for key, value in vars(described).items() if key not in left_out}
    namespace |= {key: value for key, value in methods.items() if key not in namespace or key == "__hash__"}
    namespace |= {"__slots__": names, "__match_args__": names, "__qualname__": plain.__qualname__}
    namespace["_compared"] = staticmethod(_getter([field.name for field in fields if field.compare]))
    metaclass: Any = type(plain)
    made = metaclass(plain.__name__, plain.__bases__, namespace)
    made.__init__ = _initialiser(made, fields)
    return cast("type[Any]", made)


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What makes a tuple of a record's values."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def _initialiser(kind: type[Any], fields: Iterable[dataclasses.Field[Any]]) -> Callable[..., None]:
    setters = tuple((field.name, vars(kind)[field.name].__set__) for field in fields)
    missing = dataclasses.MISSING
    defaults = {field.name: field.default for field in fields if field.default is not missing}
    factories = {field.name: field.default_factory for field in fields if field.default_factory is not missing}

    def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: ANN401, N807 - it becomes the method
        if len(given) > len(setters):
            raise TypeError(f"{kind.__name__} takes {len(setters)} values, and {len(given)} were given")
        for (_, put), value in zip(setters, given):  # noqa: B905 - fewer may be given
            put(self, value)
        for name, put in setters[len(given) :]:
            if name in named:
                put(self, named.pop(name))
            elif name in defaults:
                put(self, defaults[name])
            elif name in factories:
                put(self, factories[name]())
            else:
                raise TypeError(f"{kind.__name__} lacks a value for {name!r}")
        if named:
            raise TypeError(f"{kind.__name__}: no such field, or given twice: {', '.join(named)}")

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


def _setattr(_: object, name: str, __: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:  # noqa: ANN401 - any record
    return [getattr(self, name) for name in self.__slots__]


def _setstate(self: Any, state: Iterable[Any]) -> None:  # noqa: ANN401 - any record
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)


_SHARED: dict[str, Any] = {
    "__repr__": _repr,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}
_EQUALITY: dict[str, Any] = {"__eq__": _eq, "__hash__": _hash}

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - the type checker takes it for the real one
else:
    dataclass = _dataclass
