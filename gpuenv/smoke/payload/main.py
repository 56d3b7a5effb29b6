"""Runs one test on one GPU in the target's interpreter. Prints one fact per line, see ``probe/protocol.py``.

``main.py NAME JSON``; JSON has ``level``, ``seed``, ``size``, ``fault`` and ``uuid``. ``main.py --census {}`` lists the
devices that CuPy sees, ``main.py --groundwork JSON`` runs the checks that need no GPU, ``main.py --several JSON`` runs
several tests one after another.
Standard output carries only facts; everything else goes to standard error.
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
    """Reserves standard output for facts; redirects other output to standard error."""
    sys.stdout.flush()
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return channel


def make_importable(folder):
    """Makes this folder importable as ``gpuenv.smoke.payload`` without a new entry in ``sys.path``.

    Thus no file here or in the working folder can shadow a module that NumPy or CuPy imports, and a gpuenv installed
    in the target is not used.
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


def run_several(tests, emit):
    """Reports the verdict of each test, run in its own process: for containers, which gpuenv cannot supervise.

    A test has a ``name``, ``request``, ``visible`` device and ``deadline`` in seconds.
    """
    for number, test in enumerate(tests):
        command = [sys.executable, "-B", os.path.abspath(__file__), test["name"], json.dumps(test["request"])]
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
                    facts = json.loads(body) if body else {}
                except ValueError:
                    continue
                if "verdict" in facts:
                    answer = facts["verdict"]
        emit("test.%d" % number, dict(answer, name=test["name"], duration=time.monotonic() - started))


def main():
    """Runs the command line."""
    channel = open_channel()

    def emit(key, value):
        channel.write(MARK + json.dumps({key: value}) + "\n")
        channel.flush()

    if sys.warnoptions:
        warnings.simplefilter("ignore")  # -W and PYTHONWARNINGS are for the user's program; CuPy warns without need
    emit("started", True)
    make_importable(os.path.dirname(os.path.abspath(__file__)))
    name, request = sys.argv[1], json.loads(sys.argv[2])
    from gpuenv.smoke.payload import groundwork, harness

    if name == "--census":
        harness.list_devices(emit)
    elif name == "--groundwork":
        groundwork.groundwork(request, emit)
    elif name == "--several":
        run_several(request["tests"], emit)
    else:
        harness.run_test(name, request, emit)
    emit("done", True)
    channel.close()
    # Exit without waiting for a pending kernel or the teardown of a lost context.
    os._exit(0)


if __name__ == "__main__":
    main()
