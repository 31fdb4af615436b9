"""Runs the API server alone, as its supervisor would, until it gets SIGTERM. Arguments: data folder, port."""

import asyncio
import signal
import sys
from pathlib import Path

import uvloop

from penstock.apiserver.service import run
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import Settings


async def main() -> None:
    lifecycle = Lifecycle(notify_fd=1)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lifecycle.stopping.set)
    await run(Settings(data_dir=Path(sys.argv[1]), api_port=int(sys.argv[2])), lifecycle)


# The event loop that the engine gives to the API server.
with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
