"""Links from findings to the documentation site, if its address is configured; there is no built-in one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from gpuenv.model.errors import GpuenvError
from gpuenv.model.finding import Finding
from gpuenv.model.strings import pattern

VARIABLE = "GPUENV_DOCS_URL"
_ADDRESS = pattern(r"https?://[A-Za-z0-9\[][A-Za-z0-9.:\]-]*(?:/[A-Za-z0-9._~%/+-]*)?")
_OWN_CODE = pattern(r"[A-Z]{3}[0-9]{3}")  # not the identity of a message
Found = TypeVar("Found", bound=Finding)


def docs_address(environment: Mapping[str, str]) -> str | None:
    """The address of the documentation site, ending in a slash; None where none is configured.

    Raises:
        GpuenvError: if it is no address of a folder.
    """
    address = environment.get(VARIABLE)
    if not address:
        return None
    if not _ADDRESS.fullmatch(address):
        raise GpuenvError(
            f"{VARIABLE}={address}: expected the address of the site that make docs-site builds, such as "
            "https://HOST/gpuenv/, with http or https and without user, query and fragment"
        )
    return f"{address.rstrip('/')}/"


def page_of(code: str) -> str:
    """The page of a check or rule in the site, with its anchor."""
    return f"reference/generated/checks-{code[:3].lower()}.html#{code.lower()}"


def with_docs_url(findings: Iterable[Found], address: str | None) -> tuple[Found, ...]:
    """The findings with the addresses of their pages; those of plug-ins and of messages have none."""
    if address is None:
        return tuple(findings)
    return tuple(
        replace(finding, docs_url=address + page_of(finding.code))
        if _OWN_CODE.fullmatch(finding.code) and finding.docs == f"gpuenv explain {finding.code}"
        else finding
        for finding in findings
    )
