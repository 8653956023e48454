"""`si-cli`, `si-diag` and snippets of Python as processes forked from one that has made their imports: seconds each.

`start_of(NAME)` gives what to put before the arguments, in place of the real command. That is a small program, which
hands its arguments, environment, folder, input and outputs to the nursery and becomes what is forked there, for all who
watch it: it ends as that ends, passes SIGINT and SIGTERM on, and when it is killed, that is killed too. So an imported
module is as new as in a process of its own, but what importing does was done before, with another environment. Tests of
start-up, of process ids and of other signals start the real commands.

All test processes of a run share one nursery, which the first of them starts; NURSERY tells the others of it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NoReturn

ROOT: Final = Path(__file__).parents[2]
NURSERY: Final = "TEST_NURSERY"
"""Environment variable: the folder with the nursery's socket and the programs that stand for the commands."""
PASSED_ON: Final = frozenset({signal.SIGINT, signal.SIGTERM})
"""The signals that what is forked gets when they are sent to what was started."""
_SOCKET: Final = "socket"
_MOST: Final = 1 << 20
"""Bytes of a request: an environment, mostly."""
_PROGRAM: Final = """#!{python} -ISE
import json, os, signal, socket, sys
nursery = socket.socket(socket.AF_UNIX)
nursery.connect({path!r})
request = {{"command": [{name!r}, *sys.argv[1:]], "environment": dict(os.environ), "folder": os.getcwd()}}
socket.send_fds(nursery, [json.dumps(request).encode() + b"\\n"], [0, 1, 2])
answers = nursery.makefile()
pid = int(answers.readline())
for number in {signals}:
    signal.signal(number, lambda number, _: os.kill(pid, number))
code = int(answers.readline())
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


class Nursery:
    """The process that forks the others; it goes with the one that has started it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="nursery-")
        folder = Path(self._folder.name)
        for name in _PROGRAMS:
            program = folder / name
            path = str(folder / _SOCKET)
            text = _PROGRAM.format(python=sys.executable, path=path, name=name, signals=[*map(int, PASSED_ON)])
            program.write_text(text)
            program.chmod(0o755)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / _SOCKET))
        listener.listen(128)  # who comes before it is ready waits
        with listener:
            self._process = subprocess.Popen(
                # Who only imports has threads at most that wait; Python and LanceDB warn of every fork beside a thread.
                [sys.executable, "-W", "ignore", "-m", "tests.support.forked", str(listener.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
            )
        os.environ[NURSERY] = str(folder)

    def close(self) -> None:
        del os.environ[NURSERY]
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()


def start_of(name: str) -> str:
    """The program that stands for a command."""
    open_nursery()
    return str(Path(os.environ[NURSERY]) / name)


_own = ExitStack()


def open_nursery() -> None:
    """Start the nursery, if nobody has."""
    if NURSERY not in os.environ:
        _own.callback(Nursery().close)


def close_nursery() -> None:
    """End the nursery, if this process has started it."""
    _own.close()


def attend(listener: socket.socket) -> None:
    """Be the nursery."""
    from tests.support import command_main

    die_with_parent()
    command_main.prepare()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            return _keep(connection)
        connection.close()


def _keep(connection: socket.socket) -> None:
    """Fork what is asked for and tell of its end; returns in what was forked."""
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    content, descriptors, _, _ = socket.recv_fds(connection, _MOST, 3)
    while not content.endswith(b"\n"):
        content += connection.recv(_MOST)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(json.loads(content), descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    connection.sendall(b"%d\n" % pid)

    def kill_what_nobody_waits_for() -> None:
        connection.recv(1)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    threading.Thread(target=kill_what_nobody_waits_for, daemon=True).start()
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """Be the process that was asked for."""
    die_with_parent()
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
        os.close(descriptor)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115  as long as the process
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path.remove(str(ROOT))
    sys.path[:0] = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.argv = request["command"]
    _PROGRAMS[sys.argv[0]]()
    sys.exit()


def _si_cli() -> None:
    from soliplex.ingester.cli.main import main

    main()


def _si_diag() -> None:
    from soliplex.ingester.diag.main import main

    main()


def _python_c() -> None:
    del sys.argv[0]
    program = sys.argv[0]
    sys.argv[0] = "-c"
    sys.path.insert(0, "")
    exec(program, {"__name__": "__main__"})


_PROGRAMS: Final = {"si-cli": _si_cli, "si-diag": _si_diag, "python-c": _python_c}


def die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    attend(socket.socket(fileno=int(sys.argv[1])))
