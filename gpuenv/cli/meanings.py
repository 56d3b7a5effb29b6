"""The meaning of a code, a cause or a message, as ``gpuenv explain`` prints it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuenv.model.strings import did_you_mean

if TYPE_CHECKING:
    from gpuenv.doctor.registry import DocumentedCheck
    from gpuenv.model.documents import Meaning
    from gpuenv.report.text_line import TextLine

    Entry = tuple[Meaning, Iterator[TextLine]]


def find_entry(name: str) -> Entry | None:
    """The meaning of a code, a cause or the id of a message; None for any other text."""
    from gpuenv.model.causes import Cause
    from gpuenv.report.catalogue import cause_lines, cause_meaning, check_lines, check_meaning

    documented = _documented_checks()
    check = next((entry for entry in documented if entry.code == name.upper()), None)
    if check is not None:
        return check_meaning(check), check_lines(check)
    cause = next((cause for cause in Cause if cause.value == name.lower()), None)
    if cause is not None:
        return cause_meaning(cause, documented), cause_lines(cause, documented)
    if "." not in name or "/" in name:
        return None
    from gpuenv.explain.messages import all_messages
    from gpuenv.report.catalogue import message_lines, message_meaning

    message = next((entry for entry in all_messages() if entry.id == name.lower()), None)
    return (message_meaning(message), message_lines(message)) if message is not None else None


def find_plugin_entry(code: str, seconds: float) -> Entry | None:
    """The meaning of a plug-in's check, which is imported in a child with a deadline; None for any other text."""
    from gpuenv.plugins.discovery import is_code

    if not is_code(code.upper()):
        return None
    from gpuenv.cli.check_codes import plugins
    from gpuenv.plugins.runner import MOST_SECONDS, describe
    from gpuenv.report.catalogue import plugin_lines, plugin_meaning

    plugin = next((entry for entry in plugins() if entry.code == code.upper()), None)
    if plugin is None:
        return None
    description = describe(plugin, os.environ, min(seconds, MOST_SECONDS))
    return (
        plugin_meaning(plugin.code, plugin.package, description.text, description.complaint),
        plugin_lines(plugin.code, plugin.package, plugin.function, description.text, description.complaint),
    )


def suggest_names(name: str) -> str:
    """``did you mean no-driver?``, with codes and causes of a similar spelling; empty without any."""
    from gpuenv.model.causes import Cause

    names = [*(cause.value for cause in Cause), *(check.code for check in _documented_checks())]
    return did_you_mean(name, names, most=3)


def _documented_checks() -> Sequence[DocumentedCheck]:
    """The checks of the doctor and the rules for images."""
    from gpuenv.doctor.checks import all_checks
    from gpuenv.image.rule_registry import all_rules

    return (*all_checks(), *all_rules())
