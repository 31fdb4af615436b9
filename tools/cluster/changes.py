"""What people do to an installation: more partitions, and a control plane of another API on its Kafka."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from penstock.engine.ports import free_ports
from tools.chaos.recovery import clock
from tools.cluster.blows import Blow
from tools.cluster.installation import PENSTOCK, Installation
from tools.cluster.processes import Program

END_SECONDS = 240.0
PARTITIONS = "2"
REFUSED = "another Kubernetes API"
INGRESSES = ("ingress-1", "ingress-2")


class Changes:
    """Done as docs/kafka.md says, or against it."""

    def __init__(self, folder: Path, installation: Installation) -> None:
        self._folder, self._installation = folder, installation

    async def foreign_control(self) -> Blow:
        """A control plane with an embedded API of its own, on this Kafka: it has to refuse, and change nothing."""
        port, *health = free_ports(3)
        own = {"PENSTOCK_DATA_DIR": str(self._folder / "data"), "PENSTOCK_API_PORT": str(port)}
        partitions = self._installation.roles["control-1"].program.variables["PENSTOCK_PARTITIONS"]
        variables = {**self._installation.kafka_variables, **own, "PENSTOCK_PARTITIONS": partitions}
        api, control = (
            Program(
                f"other-{role}", self._folder / role, [PENSTOCK, role], {**variables, "PENSTOCK_HEALTH_PORT": str(at)}
            )
            for role, at in zip(("apiserver", "control"), health, strict=True)
        )
        blow = Blow("refused", "control of another API", clock())
        await api.start()
        await control.start()
        code = await control.ended(END_SECONDS)
        await api.stop()
        if code != 1 or REFUSED not in control.last_words():
            await control.stop()
            raise RuntimeError(f"a control of another API was not refused ({code}):\n{control.last_words()}")
        return blow

    async def grow(self) -> Blow:
        """More partitions, with order per key kept: no ingress meanwhile, and nothing under way."""
        roles = self._installation.roles
        self._installation.hit.update(INGRESSES)
        for name in INGRESSES:
            roles[name].program.send(signal.SIGTERM)
        for name in INGRESSES:
            await roles[name].program.ended(END_SECONDS)
        command = [PENSTOCK, "topics", "--partitions", PARTITIONS, "--configure"]
        topics = Program("topics", self._folder, command, self._installation.kafka_variables)
        async with asyncio.timeout(END_SECONDS):
            while True:
                await topics.start()
                if await topics.ended(END_SECONDS) == 0:
                    break
        blow = Blow("grown, by its procedure", "partitions", clock(), planned=True)
        for role in roles.values():
            role.program.variables["PENSTOCK_PARTITIONS"] = PARTITIONS
        for name in INGRESSES:
            await roles[name].program.start()
        for name in INGRESSES:
            await self._installation.wait(name)
        return blow
