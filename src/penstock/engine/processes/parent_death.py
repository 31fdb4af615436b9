"""Kills a process when its parent dies, so that no orphan remains after a SIGKILL.

On Linux the kernel does it: `prctl(PR_SET_PDEATHSIG)` survives `exec`, so this script sets it and becomes the program.
Elsewhere it stays the program's parent, holds the read end of a pipe, and kills the program when the pipe breaks. It is
run as a script by its path and imports only the standard library, so that it starts fast.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading

PR_SET_PDEATHSIG = 1


def tie(signum: int) -> bool:
    """Asks the kernel to send `signum` to this process when its parent dies. False if it is not Linux."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(PR_SET_PDEATHSIG, signum, 0, 0, 0) == 0)


def main(argv: list[str]) -> int:
    """`parent_death.py PARENT_PID PIPE_FD PROGRAM [ARGUMENT…]`."""
    parent, fd, program = int(argv[0]), int(argv[1]), argv[2:]
    if tie(signal.SIGKILL):
        if os.getppid() != parent:  # the parent died before prctl
            return 1
        os.close(fd)
        os.execv(program[0], program)  # noqa: S606 - the engine's own command
    child = subprocess.Popen(program)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda number, _frame: child.send_signal(number))

    def watch() -> None:
        while os.read(fd, 1):
            pass
        child.kill()

    threading.Thread(target=watch, daemon=True).start()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
