"""What libraries and tools print, at least three texts a cause: the strings stand in their binaries and sources.

They are read there, not copied from reports, and each text must name its cause first.
"""

from __future__ import annotations

from tests.eval.messages_machine import MACHINE
from tests.eval.messages_programs import PROGRAMS
from tests.eval.messages_software import SOFTWARE

MESSAGES = {**MACHINE, **SOFTWARE, **PROGRAMS}
