"""A mark to the requirements that it stands for: ``cc=">=8.0"`` is ``cc>=8.0``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuenv.preflight.requirement import Origin, Requirement, parse_requirement

if TYPE_CHECKING:
    import pytest

    from gpuenv.pytest_plugin import State

_WORDS = ("name", "os", "arch", "line")  # a bare value means "equal to", or of a name "in it"


def read(mark: pytest.Mark, state: State) -> tuple[Requirement, ...]:
    """The requirements of a mark; one that asks for nothing asks for a GPU.

    Raises:
        ValueError: for what is no requirement.
    """
    key = repr((mark.args, sorted(mark.kwargs.items())))
    if key not in state.read:
        if mark.args:
            raise ValueError(f'@pytest.mark.{mark.name} takes no {mark.args[0]!r}; write it as cc=">=8.0" or count=2')
        texts = [_requirement(name, value) for name, value in mark.kwargs.items()]
        if not any(text.startswith("gpu") for text in texts):
            texts.insert(0, "gpu>=1")
        origin = Origin(f"@pytest.mark.{mark.name}")
        state.read[key] = tuple(parse_requirement(text, origin) for text in texts)
    return state.read[key]


def _requirement(name: str, value: object) -> str:
    """``cc=">=8.0"`` and ``cc="8.0"`` are ``cc>=8.0``; ``count=2`` is ``gpu>=2``; ``nvlink=True`` is ``nvlink==on``."""
    key = "gpu" if name == "count" else name.replace("_", "-")
    if isinstance(value, bool):
        return f"{key}=={'on' if value else 'off'}"
    text = str(value).strip()
    if text[:1] in "<>=!~":
        return f"{key}{text}"
    if text.lower() in ("on", "off", "yes", "no", "true", "false", "none"):
        return f"{key}=={text}"
    return f"{key}{('~=' if key == 'name' else '==') if key in _WORDS else '>='}{text}"
