"""Tells that an interpreter starts, and finds the modules that the other scripts cannot do without.

It is asked again so where it told nothing: without some variables, or without what runs when it starts. Syntax that old
Pythons parse.
"""

import importlib  # noqa: F401 - that it is found is the question
import json
import os
import re  # noqa: F401 - likewise
import sys

os.write(1, ("\ngpuenv:" + json.dumps({"python": "%d.%d.%d" % tuple(sys.version_info[:3])}) + "\n").encode("ascii"))
