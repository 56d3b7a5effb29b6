"""Messages that libraries and tools print, at least three for each cause, from their binaries and sources.

None is copied from a report. The first cause of each explanation must be that of the message.
"""

from __future__ import annotations

from tests.eval.messages_machine import MACHINE
from tests.eval.messages_programs import PROGRAMS
from tests.eval.messages_software import SOFTWARE

MESSAGES = {**MACHINE, **SOFTWARE, **PROGRAMS}
