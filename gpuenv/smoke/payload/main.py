"""The program that the target's interpreter runs: one test, one GPU. Prints one fact a line, see ``probe/protocol.py``.

``main.py NAME JSON``; JSON has ``level``, ``seed``, ``size``, ``fault`` and ``uuid``. ``main.py --census {}`` lists the
devices that CuPy sees, ``main.py --groundwork JSON`` shows what needs no GPU, ``main.py --several JSON`` runs several
tests one after another.
Standard output is given to the facts alone: whatever else is printed goes to standard error.
"""

import json
import os
import sys
import types
import warnings


def open_channel():
    """Keeps standard output for the facts and sends everybody else's there to standard error."""
    sys.stdout.flush()
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return channel


def make_importable(folder):
    """Makes this folder importable as ``gpuenv.smoke.payload`` without putting anything on the path.

    So neither the files beside this one nor those of the working folder can take the place of a module that NumPy or
    CuPy asks for; a gpuenv that is installed in the target is not used.
    """
    unwanted = (os.path.realpath(folder), os.path.realpath(os.getcwd()))
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") not in unwanted]
    parent = None
    for name, path in (("gpuenv", []), ("gpuenv.smoke", []), ("gpuenv.smoke.payload", [folder])):
        module = types.ModuleType(name)
        module.__path__ = path
        sys.modules[name] = module
        if parent is not None:
            setattr(parent, name.rpartition(".")[2], module)
        parent = module


def main():
    """Runs what the arguments say."""
    channel = open_channel()

    def tell(key, value):
        channel.write("gpuenv:" + json.dumps({key: value}) + "\n")
        channel.flush()

    if sys.warnoptions:
        warnings.simplefilter("ignore")  # meant for the user's own program; CuPy warns where nothing is wrong
    tell("started", True)
    make_importable(os.path.dirname(os.path.abspath(__file__)))
    name, order = sys.argv[1], json.loads(sys.argv[2])
    from gpuenv.smoke.payload import groundwork, harness, several

    if name == "--census":
        harness.census(tell)
    elif name == "--groundwork":
        groundwork.groundwork(order, tell)
    elif name == "--several":
        several.several(order, tell)
    else:
        harness.run_test(name, order, tell)
    tell("done", True)
    channel.close()
    # Neither a pending kernel nor the end of a lost context may hold the answer back.
    os._exit(0)


if __name__ == "__main__":
    main()
