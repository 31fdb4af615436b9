"""The end of this process without another word, together with everything that it started."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

import psutil

EXIT_CODE = 70


def end_at_once() -> NoReturn:
    """For one that must not do anything more, not even in order: what it started would go on with the work."""
    for started in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            started.kill()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODE)
