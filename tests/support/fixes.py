"""The fixes of a finding for those who do not let gpuenv repair the environment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuenv.doctor.repair import BY_HAND, is_repair_command

if TYPE_CHECKING:
    from gpuenv.model.finding import Finding, Fix


def by_hand(finding: Finding) -> Finding:
    """The finding without the command of gpuenv that repairs the target, to which its fixes are alternatives."""
    return replace(finding, fix=tuple(_alone(fix) for fix in finding.fix if not is_repair_command(fix.command)))


def _alone(fix: Fix) -> Fix:
    text = fix.text.removeprefix(BY_HAND)
    return fix if text == fix.text else fix._replace(text=f"{text[0].upper()}{text[1:]}")
