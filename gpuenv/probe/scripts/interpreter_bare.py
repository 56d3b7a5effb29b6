"""Shows that an interpreter starts and finds the modules that the other scripts need.

Run where ``interpreter.py`` failed: without some variables, or without start-up hooks. Syntax that old Pythons parse.
"""

import importlib  # noqa: F401 - the import is the test
import json
import os
import re  # noqa: F401 - the import is the test
import sys

os.write(1, ("\ngpuenv:" + json.dumps({"python": "%d.%d.%d" % tuple(sys.version_info[:3])}) + "\n").encode("ascii"))
