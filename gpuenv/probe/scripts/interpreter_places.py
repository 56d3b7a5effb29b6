"""Where a distribution lies, and which of two metadata of one name is that of the files there; nothing is imported.

Standard library only, and only syntax that old Pythons parse:
``interpreter_distributions.py`` imports it from beside itself.
"""

import os
import sys

from interpreter_packages import read

ROWS = 100000
NO_TEXT = b"\xef\xbf\xbd".decode("utf-8")  # what stands for a byte that is no UTF-8; old Pythons read no \u here
LARGEST = 32000000  # bytes of a RECORD: that of a large framework has 2 million


def places():
    """A function that tells what leads to a folder: the environment itself, a variable, or something else."""
    own = [os.path.realpath(folder) for folder in own_folders()]
    told = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    given = [os.path.realpath(entry) for entry in told if entry]
    user = user_folder()
    prefix = os.path.realpath(sys.prefix) + os.sep
    base = getattr(sys, "real_prefix", None) or getattr(sys, "base_prefix", sys.prefix)

    def place(folder, name):
        if folder in own or any(has_link(entry, name) for entry in own):
            return "environment"
        if folder in given:
            return "pythonpath"
        if folder == user:
            return "user"
        # A system has several folders of its own: Debian's dist-packages, say.
        return "environment" if base == sys.prefix and folder.startswith(prefix) else "elsewhere"

    return place


def has_link(folder, name):
    """Whether ``setup.py develop`` has left its link to a project: pip removes such a one."""
    return any(os.path.isfile(os.path.join(folder, form + ".egg-link")) for form in (name, name.replace("-", "_")))


def own_folders():
    """The folders that packages are installed into."""
    try:
        import sysconfig

        return [folder for folder in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) if folder]
    except ImportError:
        return []


def user_folder():
    """The folder of the user's own packages."""
    try:
        import site

        return os.path.realpath(site.getusersitepackages())
    except (ImportError, AttributeError):
        return None


def of_the_files(entries):
    """Of several metadata of one name in one folder, that of the files there; and the others.

    An update that was cut short leaves the older one's, and nothing says which is which but the files.
    """
    ordered = sorted(entries, key=lambda entry: (misfits(entry["path"]), -changed(entry["path"])))
    return ordered[0], ordered[1:]


def misfits(metadata):
    """How many files of a RECORD are not there in the size told; more than all of them where there is none.

    Of one that is no text, nobody knows what it says.
    """
    count = 0
    text = read(os.path.join(metadata, "RECORD"), LARGEST)
    rows = [] if NO_TEXT in text or "\0" in text else text.splitlines()[:ROWS]
    for row in rows:
        path, _, size = row.rpartition(",")
        path = path.rpartition(",")[0].strip('"')
        if size.isdigit() and ".dist-info/" not in path:
            try:
                count += os.stat(os.path.join(os.path.dirname(metadata), path)).st_size != int(size)
            except (OSError, ValueError):
                count += 1
    return count if rows else ROWS + 1


def changed(path):
    """When something was last changed there."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0
