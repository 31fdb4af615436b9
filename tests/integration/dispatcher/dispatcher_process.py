"""A dispatcher task as a program, so that a test can kill it. Argument: settings as JSON."""

import asyncio
import json
import signal
import sys

import uvloop

from penstock.dispatcher.task import run_task
from penstock.settings import Settings


async def main() -> None:
    settings = Settings(**json.loads(sys.argv[1]))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await run_task(settings, list(range(settings.partitions)), stop)


uvloop.run(main())
