"""This machine's package index, as a pip.conf for the build."""

from __future__ import annotations

from collections.abc import Mapping

_INDEX = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
_EXTRA = ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL")


def pip_configuration(environment: Mapping[str, str]) -> str | None:
    """The configuration; None where the variables name no index that a build could reach.

    The addresses may hold passwords: the text is for a secret, never for an image.
    """
    index = next((environment[name] for name in _INDEX if _remote(environment.get(name, ""))), None)
    extra = [word for name in _EXTRA for word in environment.get(name, "").split() if _remote(word)]
    rows = [f"index-url = {_address(index)}"] if index else []
    rows += [f"extra-index-url = {' '.join(map(_address, extra))}"] if extra else []
    hosts = environment.get("PIP_TRUSTED_HOST")
    rows += [f"trusted-host = {' '.join(hosts.split())}"] if rows and hosts else []
    return "\n".join(["[global]", *rows, ""]) if rows else None


def _remote(word: str) -> bool:
    return _address(word).startswith(("http://", "https://")) and len(word.split()) == 1


def _address(word: str) -> str:
    """An index of uv's may have a name: ``name=address``."""
    name, _, rest = word.partition("=")
    return rest if rest and name.replace("-", "").replace("_", "").isalnum() else word
