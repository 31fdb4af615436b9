"""What is done to roles and brokers, and how long the one that stood by took to have the role."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import psutil

from tools.chaos.recovery import clock
from tools.cluster.blows import Blow
from tools.cluster.installation import STANDING_BY, Installation
from tools.cluster.kafka import KafkaCluster
from tools.cluster.processes import Program, thaw

RESTART_SECONDS = 3.0
"""After which what was killed is started again, as a service manager would."""
BROKER_AWAY_SECONDS = 15.0
FROZEN_SECONDS = 40.0
TAKE_OVER_SECONDS = 240.0
END_SECONDS = 120.0


class Faults:
    """Strikes."""

    def __init__(self, installation: Installation, kafka: KafkaCluster) -> None:
        self._installation, self._kafka = installation, kafka

    async def kill_pipeline(self) -> Blow:
        """kill -9 of the pipeline at work."""
        return await self._end_active("pipeline", signal.SIGKILL)

    async def kill_control(self) -> Blow:
        """kill -9 of the control at work."""
        return await self._end_active("control", signal.SIGKILL)

    async def stop_pipeline(self) -> Blow:
        """SIGTERM to the pipeline at work."""
        return await self._end_active("pipeline", signal.SIGTERM)

    async def stop_control(self) -> Blow:
        """SIGTERM to the control at work."""
        return await self._end_active("control", signal.SIGTERM)

    async def freeze_pipeline(self) -> Blow:
        """The pipeline at work is frozen with all it has started, and wakes when another has its role."""
        return await self._freeze("frozen", Program.freeze)

    async def freeze_driver(self) -> Blow:
        """Only the process that renews the claim is frozen: Spark's JVM and the dispatcher go on beside the next."""
        return await self._freeze("driver frozen", Program.freeze_alone)

    async def _freeze(self, what: str, freeze: Callable[[Program], list[psutil.Process]]) -> Blow:
        at_work, other = await self._installation.active("pipeline")
        program = self._installation.roles[at_work].program
        self._installation.hit.add(at_work)
        blow = Blow(what, at_work, clock())
        frozen = freeze(program)
        blow.take_over = await self._taken_over(other, blow.struck)

        async def mend() -> None:
            await blow.lasts(FROZEN_SECONDS)
            thaw(frozen)
            if await program.ended(END_SECONDS) is None:
                raise RuntimeError(f"{at_work} woke, and goes on although {other} has its role")
            await program.start()
            await self._installation.wait(at_work)

        blow.mended = mend
        return blow

    async def kill_ingress(self) -> Blow:
        """kill -9 of one of the two ingresses."""
        program = self._installation.roles["ingress-1"].program
        self._installation.hit.add("ingress-1")
        blow = Blow("killed", "ingress-1", clock())
        program.send(signal.SIGKILL)
        blow.mended = lambda: self._restart("ingress-1", program)
        return blow

    async def kill_broker(self) -> Blow:
        """kill -9 of a broker."""
        broker = self._kafka.brokers[1]
        blow = Blow("killed", f"broker-{broker.number}", clock())
        broker.kill()

        async def mend() -> None:
            await blow.lasts(BROKER_AWAY_SECONDS)
            self._kafka.start(broker)

        blow.mended = mend
        return blow

    async def _end_active(self, role: str, signum: signal.Signals) -> Blow:
        at_work, other = await self._installation.active(role)
        program = self._installation.roles[at_work].program
        self._installation.hit.add(at_work)
        blow = Blow("killed" if signum == signal.SIGKILL else "told to stop", at_work, clock())
        program.send(signum)
        if signum == signal.SIGTERM:  # the time counts from its end: it drains first
            await program.ended(END_SECONDS)
            since = clock()
        else:
            since = blow.struck
        blow.take_over = await self._taken_over(other, since)
        blow.mended = lambda: self._restart(at_work, program)
        return blow

    async def _taken_over(self, name: str, since: float) -> float:
        role = self._installation.roles[name]
        async with asyncio.timeout(TAKE_OVER_SECONDS):
            while True:
                if await role.readyz(self._installation.client) not in (STANDING_BY, ""):
                    return clock() - since
                await asyncio.sleep(0.05)

    async def _restart(self, name: str, program: Program) -> None:
        await program.ended(END_SECONDS)
        await asyncio.sleep(RESTART_SECONDS)
        await program.start()
        await self._installation.wait(name)
