"""Environments that may be meant where another one answers: the interpreter's name leads to them, or they lie here.

Standard library only, and only syntax that old Pythons parse: ``interpreter.py`` imports it from beside itself.
"""

import os
import sys

from interpreter_telling import kind

SETTINGS = "pyvenv.cfg"
PROGRAMS = ("bin", "Scripts")
LINKS = 40  # as the kernel's own limit
LIMIT = 100000
HERE = (".venv", "venv", "env", os.path.join(".pixi", "envs", "default"))  # as uv, poetry, PyCharm and pixi name them


def environment_of(program):
    """The environment that a program lies in by its name: its folder is one of programs."""
    folder, name = os.path.split(os.path.dirname(os.path.abspath(program)))
    return folder if name in PROGRAMS else None


def lost_environment():
    """The virtual environment that this interpreter lies in, where Python takes another for want of its settings.

    What tools leave in one tells it from a folder such as /usr/local: the program that activates it, and packages.
    """
    folder = environment_of(sys.executable or "")
    if folder is None or is_own(folder) or os.path.exists(os.path.join(folder, SETTINGS)):
        return None
    activates = any(activates_environment(os.path.join(folder, name, "activate")) for name in PROGRAMS)
    packages = os.path.join(folder, "lib", "python%d.%d" % tuple(sys.version_info[:2]), "site-packages")
    return folder if activates and os.path.isdir(packages) else None


def activates_environment(path):
    """Whether that is what venv, virtualenv and uv leave: a program of the same name may be anything's."""
    try:
        with open(path, "rb") as file:
            return b"VIRTUAL_ENV" in file.read(LIMIT)
    except (IOError, OSError):  # Python 2 has both
        return False


def is_own(folder):
    """Whether that is this interpreter's environment."""
    return os.path.realpath(folder) in (os.path.realpath(sys.prefix), os.path.realpath(sys.exec_prefix))


def environments_near():
    """That into which the interpreter's name is a link, and for a system's Python those in the working folder."""
    if kind() != "system":
        return []
    linked = [environment_of(path) for path in links(sys.executable or "")]
    here = [os.path.join(os.getcwd(), name) for name in HERE]
    found = [folder for folder in linked + here if folder and is_environment(folder) and not is_own(folder)]
    return sorted(set(found), key=found.index)


def links(path):
    """What a path is a link to, and what that is a link to, to the end."""
    for _ in range(LINKS):
        if not os.path.islink(path):
            return
        path = os.path.join(os.path.dirname(path), os.readlink(path))
        yield path


def is_environment(folder):
    """Whether that is an environment with an interpreter of its own."""
    marked = any(os.path.exists(os.path.join(folder, mark)) for mark in (SETTINGS, "conda-meta"))
    programs = [os.path.join(folder, "bin", "python"), os.path.join(folder, "Scripts", "python.exe")]
    return marked and any(os.path.exists(path) for path in programs + [os.path.join(folder, "python.exe")])
