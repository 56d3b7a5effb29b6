"""Inputs in the form of a record, or nearly so, generated from its type hints, which includes new fields."""

from __future__ import annotations

import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from gpuenv.model.codec import field_names, is_record, required_fields
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion

_MAX_ENTRIES = 3  # of a list or a mapping
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            *(
                "",
                "nvml",
                "libcuda",
                "nvidia-smi",
                "/proc/driver/nvidia/version",
                "cupy-cuda12x",
                "cupy-cuda13x",
                "cupy",
            ),
            *(
                "numpy",
                "14.2.0",
                "13.6.0",
                "1.26.4",
                "580.95.05",
                "12.4",
                "NVIDIA H100 80GB HBM3",
                "Tesla V100-SXM2-16GB",
            ),
            *(
                "linux",
                "windows",
                "darwin",
                "x86_64",
                "aarch64",
                "venv",
                "conda",
                "cpython",
                "linux-x86_64",
                "win-amd64",
            ),
            *("0000:53:00.0", "GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584", "MIG-11111111-2222-4333-8444-555555555555"),
            *(
                "CUDA_VISIBLE_DEVICES",
                "LD_LIBRARY_PATH",
                "-1",
                "0,1",
                "\x1b[2J",
                "\u202e",
                "\ud800",
                "\n",
                "99999999999999",
            ),
            *("torch", "2.9.1", "2.11.0", "jax", "nvidia-cuda-nvrtc-cu12", "not a version", "10de", "1002", "4318"),
        ]
    ),
)
_VERSIONS: dict[type, tuple[str, ...]] = {
    DriverVersion: ("580.95.05", "535.104.05", "470.161.03", "999.99", "100.1", "570.00"),
    CudaVersion: ("13.0", "12.4", "11.4", "12.7", "99.99", "1.0"),
    ComputeCapability: ("9.0", "7.0", "8.0", "3.7", "12.0", "99.9"),
    Libc: ("glibc-2.36", "glibc-2.17", "musl-1.2", "glibc-9999.0"),
    PythonVersion: ("3.12", "3.8", "3.14t", "2.7", "99.99"),
}
_NUMBERS = st.one_of(st.integers(-2, 12), st.sampled_from([-1, 2**31, 2**63, 2**64, 10**30, 12040, 13000, 80 * 2**30]))
_FLOATS = st.one_of(st.floats(0, 100), st.sampled_from([-1.0, 1e308, 0.0]), st.integers(0, 9))
_SCALARS: dict[type, st.SearchStrategy[Any]] = {str: TEXTS, int: _NUMBERS, float: _FLOATS, bool: st.booleans()}
WRONG_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    _NUMBERS,
    st.floats(),
    TEXTS,
    st.just([]),
    st.just({}),
    st.just([[]]),
    st.just({"value": 1}),
)


@cache
def inputs_of(kind: Any, *, valid: bool) -> st.SearchStrategy[Any]:  # noqa: ANN401 - a type hint
    """Plain values, as in JSON, for a record or any part of one.

    Args:
        kind: the record, or the type hint of one of its fields.
        valid: whether every value has the type of its hint; if not, a few have other types.
    """
    strategy = _strategy(kind, valid=valid)
    return strategy if valid else st.one_of(*[strategy] * 12, WRONG_VALUES)


def _strategy(kind: Any, *, valid: bool) -> st.SearchStrategy[Any]:  # noqa: ANN401 - a type hint
    if kind in _VERSIONS:
        return st.sampled_from(_VERSIONS[kind])
    if is_record(get_origin(kind) or kind):
        return _record(kind, valid=valid)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from([member.value for member in kind])
    return _SCALARS[kind] if kind in _SCALARS else _container(kind, valid=valid)


def _container(kind: Any, *, valid: bool) -> st.SearchStrategy[Any]:  # noqa: ANN401 - a type hint
    """Strategies for a list, a mapping, or an optional value."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return st.lists(inputs_of(arguments[0], valid=valid), max_size=_MAX_ENTRIES)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return st.dictionaries(TEXTS, inputs_of(arguments[1], valid=valid), max_size=_MAX_ENTRIES)
    (inner,) = [option for option in arguments if option is not type(None)]
    return st.one_of(st.none(), inputs_of(inner, valid=valid))


def _record(kind: Any, *, valid: bool) -> st.SearchStrategy[Any]:  # noqa: ANN401 - a type hint
    origin = get_origin(kind) or kind
    bound = dict(zip(getattr(origin, "__parameters__", ()), get_args(kind), strict=False))
    hints = get_type_hints(origin)
    required_strategies: dict[str, st.SearchStrategy[Any]] = {}
    optional_strategies: dict[str, st.SearchStrategy[Any]] = {}
    required = required_fields(origin)
    for name in field_names(origin):
        strategy = _deferred(_bind(hints[name], bound), valid=valid)
        (required_strategies if valid and name in required else optional_strategies)[name] = strategy
    return st.fixed_dictionaries(required_strategies, optional=optional_strategies)


def _deferred(hint: Any, *, valid: bool) -> st.SearchStrategy[Any]:  # noqa: ANN401 - a type hint
    return st.deferred(lambda: inputs_of(hint, valid=valid))


def _bind(hint: Any, bound: dict[Any, Any]) -> Any:  # noqa: ANN401 - a type hint
    """The hint with the type parameters of a generic record replaced."""
    if hint in bound:
        return bound[hint]
    arguments = get_args(hint)
    if not arguments:
        return hint
    bound_arguments = tuple(_bind(argument, bound) for argument in arguments)
    if get_origin(hint) in (Union, types.UnionType):
        return Union[bound_arguments]  # noqa: UP007 - the parts are known at run time alone
    return get_origin(hint)[bound_arguments]
