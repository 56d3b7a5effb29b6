"""The program that the target's interpreter runs: one test, one GPU. Prints one fact a line, see ``probe/protocol.py``.

``main.py NAME JSON``; JSON has ``level``, ``seed``, ``size``, ``fault`` and ``uuid``. ``main.py --census {}`` lists the
devices that CuPy sees, ``main.py --groundwork JSON`` shows what needs no GPU, ``main.py --several JSON`` runs several
tests one after another.
Standard output is given to the facts alone: whatever else is printed goes to standard error.
"""

import json
import os
import subprocess
import sys
import time
import types
import warnings

MARK = "gpuenv:"  # before each fact


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


def run_several(tests, tell):
    """Tells the verdict of each test, run in a process of its own: for a container, into which nothing else can reach.

    A test has its ``name``, ``order``, ``visible`` device and ``deadline`` in seconds.
    """
    for number, test in enumerate(tests):
        command = [sys.executable, "-B", os.path.abspath(__file__), test["name"], json.dumps(test["order"])]
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES=test["visible"])
        seconds, started = test["deadline"], time.monotonic()
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=False, timeout=seconds)
        except subprocess.TimeoutExpired:
            answer = {"status": "timed-out", "detail": "no answer within %g s" % seconds}
        else:
            answer = {"status": "crashed", "detail": "ended with exit code %d before its verdict" % done.returncode}
            for line in done.stdout.decode("utf-8", "replace").splitlines():
                body = line.partition(MARK)[2]
                try:
                    told = json.loads(body) if body else {}
                except ValueError:
                    continue
                if "verdict" in told:
                    answer = told["verdict"]
        tell("test.%d" % number, dict(answer, name=test["name"], duration=time.monotonic() - started))


def main():
    """Runs what the arguments say."""
    channel = open_channel()

    def tell(key, value):
        channel.write(MARK + json.dumps({key: value}) + "\n")
        channel.flush()

    if sys.warnoptions:
        warnings.simplefilter("ignore")  # meant for the user's own program; CuPy warns where nothing is wrong
    tell("started", True)
    make_importable(os.path.dirname(os.path.abspath(__file__)))
    name, order = sys.argv[1], json.loads(sys.argv[2])
    from gpuenv.smoke.payload import groundwork, harness

    if name == "--census":
        harness.list_devices(tell)
    elif name == "--groundwork":
        groundwork.groundwork(order, tell)
    elif name == "--several":
        run_several(order["tests"], tell)
    else:
        harness.run_test(name, order, tell)
    tell("done", True)
    channel.close()
    # Neither a pending kernel nor the end of a lost context may hold the answer back.
    os._exit(0)


if __name__ == "__main__":
    main()
