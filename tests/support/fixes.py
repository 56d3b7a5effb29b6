"""The fixes of a finding for those who do not let gpuenv repair the environment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuenv.doctor.repair import is_repair_command

if TYPE_CHECKING:
    from gpuenv.model.finding import Finding


def by_hand(finding: Finding) -> Finding:
    """The finding without the command of gpuenv that repairs the target."""
    return replace(finding, fix=tuple(fix for fix in finding.fix if not is_repair_command(fix.command)))
