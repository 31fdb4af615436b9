"""What goes wrong, on a real Kafka: misbehaving subscribers, tasks that are killed or replaced, changing routes."""

from __future__ import annotations

import asyncio
import datetime
import os
import signal
import ssl
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from penstock.contract import topics
from penstock.contract.reports import Loss, decode
from penstock.contract.routes import Delivery, Endpoint, Route, ServiceName
from penstock.kafka.transactions import Fenced
from tests.integration.dispatcher.dispatcher_stage import OK, Stage, Subscribe
from tests.running import kafka_access
from tests.waiting import until
from tools.chaos.victims import alive

HUGE = 100 * 1024 * 1024
COMMIT_SECONDS = 5.0
"""What Kafka may take to commit cursors on a machine that pauses; mostly a few hundredths, and 0.16 were seen beside
other tests."""


async def hang(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def garbage(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(os.urandom(512))
    await writer.drain()


async def huge(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % HUGE)
    await pour(writer)


async def huge_event(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = b"ce-specversion: 1.0\r\nce-id: 1\r\nce-type: t\r\nce-source: /s\r\n"
    writer.write(b"HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n\r\n" % (head, HUGE))
    await pour(writer)


async def pour(writer: asyncio.StreamWriter) -> None:
    for _ in range(HUGE // 65536):
        writer.write(b"x" * 65536)
        await writer.drain()


async def test_misbehaving_subscribers_harm_nobody(stage: Stage, subscribe: Subscribe) -> None:
    good = await subscribe()
    elsewhere = await subscribe()
    # Only who says nothing at all is to run into its timeout, however slow the machine is.
    policies = {"hang": Delivery(retry=1, timeout=0.5)}
    bad = {
        "hang": await subscribe(misbehave=hang),
        "reset": await subscribe(misbehave=reset),
        "garbage": await subscribe(misbehave=garbage),
        "huge": await subscribe(misbehave=huge),
        "huge event": await subscribe(misbehave=huge_event),
        "redirect": await subscribe(lambda _: (307, {"location": elsewhere.url}, b"")),
    }
    routes = {
        name: stage.trigger(subscriber.endpoint, delivery=policies.get(name, Delivery(retry=1)))
        for name, subscriber in bad.items()
    }
    well = stage.trigger(good.endpoint)
    stage.publish(well, *routes.values())
    before = psutil.Process().memory_info().rss
    async with stage.task():
        ids = stage.match(well, *routes.values(), count=5)
        await until(lambda: sorted(good.ids) == sorted(ids), "everything at the good subscriber")
        # Counted by what was written: a machine that pauses may end an attempt before its request is sent.
        await until(lambda: ended(stage, *routes.values()) == 5 * len(routes), "an end of every delivery", 120)
    results = {name: {fact["result"] for fact in stage.attempts(route)} for name, route in routes.items()}
    assert results == {
        "hang": {"retry", "dropped"},
        "reset": {"retry", "dropped"},
        "garbage": {"retry", "dropped"},
        "huge": {"delivered"},
        "huge event": {"retry", "dropped"},
        "redirect": {"dropped"},
    }
    assert elsewhere.requests == []
    assert psutil.Process().memory_info().rss - before < HUGE


def ended(stage: Stage, *routes: Route) -> int:
    """How many deliveries of these routes need no further attempt."""
    uids = {route.uid for route in routes}
    values = [msgspec.json.decode(value) for _, value, _ in stage.read(topics.ATTEMPTS) if value]
    return sum(fact["result"] != "retry" for fact in values if fact["route"] in uids)


async def test_a_killed_task_goes_on_where_it_was(stage: Stage, subscribe: Subscribe) -> None:
    """SIGKILL in the middle: everything arrives, and only what was under way arrives again."""
    subscriber = await subscribe()
    route = stage.trigger(subscriber.endpoint, max_in_flight=5)
    stage.publish(route)
    ids = stage.match(route, count=4000) + stage.match(route, count=4000, partition=1)
    process = stage.process()
    try:
        await until(lambda: len(subscriber.requests) > 3000, "some deliveries", 120)
    finally:
        killed = time.time()
        process.send_signal(signal.SIGKILL)
        process.wait()
    await asyncio.sleep(0.3)
    before = {request.id: request.at for request in subscriber.requests}
    assert len(before) < len(ids), "the test must kill the task before it is through"
    written = {fact["id"] for fact in stage.attempts(route)}
    async with stage.task():
        await until(lambda: set(subscriber.ids) == set(ids), "everything", 120)
    again = {ident for ident, times in Counter(subscriber.ids).items() if times > 1}
    assert not again & written, "what was written down as delivered arrives no more"
    assert len(subscriber.requests) == len(ids) + len(again), "nothing arrives more than twice"
    oldest = max((killed - before[ident] for ident in again), default=0.0)
    print(
        f"killed after {len(before)} of {len(ids)}, {len(again)} arrived again, the oldest of them {oldest:.3f} s old"
    )
    # A delivery that ends just after a flush began waits for the next one, 100 ms later, and until that is committed.
    assert oldest <= stage.settings.cursor_flush_ms / 1000 + COMMIT_SECONDS


async def test_a_retry_survives_a_restart_with_its_number_and_time(stage: Stage, subscribe: Subscribe) -> None:
    subscriber = await subscribe(lambda _: (500, {}, b""))
    policy = Delivery(retry=5, backoff_policy="exponential", backoff_delay=0.6)
    route = stage.trigger(subscriber.endpoint, delivery=policy)
    stage.publish(route)
    async with stage.task():
        stage.match(route)
        await until(lambda: len(subscriber.requests) == 2, "two attempts")
    subscriber.react = lambda _: OK
    async with stage.task():
        await until(lambda: len(subscriber.requests) == 3, "the third")
    facts = stage.attempts(route)
    assert [fact["attempt"] for fact in facts] == [1, 2, 3]
    assert facts[1]["due"] - facts[1]["at"] >= 1.18
    assert subscriber.requests[2].at >= facts[1]["due"] - 0.02


async def test_a_reply_survives_a_restart(stage: Stage, subscribe: Subscribe) -> None:
    answer = {"ce-specversion": "1.0", "ce-id": "r9", "ce-source": "/reply", "ce-type": "reply"}
    subscriber = await subscribe(lambda _: (200, answer, b"content"))
    reply = await subscribe(lambda _: (503, {}, b""))
    policy = Delivery(retry=5, backoff_policy="exponential", backoff_delay=0.5)
    route = stage.subscription(subscriber.endpoint, reply=reply.endpoint, delivery=policy)
    stage.publish(route)
    async with stage.task():
        stage.match(route)
        await until(lambda: reply.requests, "the first attempt at the reply")
    reply.react = lambda _: OK
    tried = len(reply.requests)
    async with stage.task():
        await until(lambda: len(reply.requests) > tried, "the reply after the restart")
    assert (reply.requests[-1].id, reply.requests[-1].body) == ("r9", b"content")
    assert len(subscriber.requests) == 1


async def test_a_replaced_task_is_fenced(stage: Stage, subscribe: Subscribe) -> None:
    subscriber = await subscribe()
    route = stage.trigger(subscriber.endpoint)
    stage.publish(route)
    async with stage.task() as old:
        ids = stage.match(route)
        await until(lambda: subscriber.requests, "the first event")
        async with stage.task():
            deadline = time.monotonic() + 60
            while not old.done():  # it notices when it next has something to write
                assert time.monotonic() < deadline, "the replaced task still runs"
                ids += stage.match(route)
                await asyncio.sleep(0.2)
            await until(lambda: set(ids) <= set(subscriber.ids), "everything")
    with pytest.raises(Fenced, match="partition"):
        old.result()
    assert max(subscriber.ids.count(ident) for ident in ids) <= 2


async def test_a_dead_subscriber_leaves_the_others_alone_and_memory_as_it_was(
    stage: Stage, subscribe: Subscribe
) -> None:
    good = await subscribe()
    policy = Delivery(retry=100, backoff_policy="linear", backoff_delay=600.0)
    dead = stage.trigger(Endpoint("http://127.0.0.1:9/"), delivery=policy)
    alive = stage.trigger(good.endpoint)
    stage.publish(dead, alive)
    process = stage.process(max_outstanding=500)
    try:

        async def rss_behind(undelivered: int) -> int:
            for partition in (0, 1):
                await asyncio.to_thread(stage.match, dead, count=undelivered // 2, data=b"x" * 100, partition=partition)
            last = stage.match(dead, alive, count=20) + stage.match(alive, count=20, partition=1)
            await until(lambda: set(last) <= set(good.ids), "the events behind the backlog", 180)
            return int(psutil.Process(process.pid).memory_info().rss)

        first = await rss_behind(20_000)  # by then everything that is bounded has been filled once
        grown = await rss_behind(100_000) - first
    finally:
        process.terminate()
        process.wait(60)
    table = stage.table(topics.CURSORS)
    cursor = msgspec.json.decode(table[f"{dead.uid}/0"])
    assert cursor["resume"] > 0
    waiting = [key for key in table if key.startswith(f"delivery/{dead.uid}/0/")]
    assert 0 < len(waiting) + len(cursor.get("outstanding", ())) <= 500
    assert len(table[f"{dead.uid}/0"]) < 2000, "a cursor stays small, whatever waits"
    print(f"100,000 undelivered events: {grown / 2**20:.1f} MiB more than with 20,000")
    assert grown < 20 * 2**20


async def test_a_route_that_keeps_falling_behind_misses_nothing(stage: Stage, subscribe: Subscribe) -> None:
    subscriber = await subscribe()
    route = stage.trigger(subscriber.endpoint)
    stage.publish(route)
    sent: list[str] = []
    async with stage.task(max_outstanding=5):
        for _ in range(200):
            # Written while the catch-up reader reads ahead, so that it meets the end of the partition again and again.
            sent += await asyncio.to_thread(stage.match, route, count=5)
        await until(lambda: len(set(subscriber.ids)) == len(sent), "every event of a route that falls behind", 180)
    assert sorted(subscriber.ids) == sorted(set(sent)), "each came once"


async def test_a_route_can_be_paused_changed_and_removed(stage: Stage, subscribe: Subscribe) -> None:
    first, second = await subscribe(lambda _: (500, {}, b"")), await subscribe()
    policy = Delivery(retry=50, backoff_policy="linear", backoff_delay=0.1)
    route = stage.trigger(first.endpoint, delivery=policy)
    paused = msgspec.structs.replace(route, paused=True)
    stage.publish(paused)
    async with stage.task(max_outstanding=10):
        ids = stage.match(route, count=30)
        await asyncio.sleep(1)
        assert first.requests == []
        stage.publish(route)
        await until(lambda: len(first.requests) > 10, "attempts after the pause")
        stage.publish(msgspec.structs.replace(route, subscriber=second.endpoint))
        await until(lambda: sorted(second.ids) == sorted(ids), "everything at the new address")
        stage.publish()
        await until(lambda: f"{route.uid}/0" not in stage.table(topics.CURSORS), "the cursor's end")
        stage.match(route)
        await asyncio.sleep(0.5)
    assert len(second.requests) == len(ids)


async def test_a_route_that_the_snapshot_brings_late_misses_nothing(stage: Stage, subscribe: Subscribe) -> None:
    subscriber = await subscribe()
    route = stage.trigger(subscriber.endpoint)
    stage.publish()
    async with stage.task():
        ids = stage.match(route, count=3)
        await asyncio.sleep(0.5)
        stage.publish(route)
        await until(lambda: sorted(subscriber.ids) == sorted(ids), "what was matched before")


async def test_keys_keep_their_order_over_retries(stage: Stage, subscribe: Subscribe) -> None:
    failed: set[str] = set()

    def react(request: object) -> tuple[int, dict[str, str], bytes]:
        ident = request.id  # type: ignore[attr-defined]
        if ident in failed or int(ident[1:]) % 3:
            delivered.append(ident)
            return OK
        failed.add(ident)
        return 503, {}, b""

    delivered: list[str] = []
    subscriber = await subscribe(react)
    policy = Delivery(retry=3, backoff_policy="exponential", backoff_delay=0.05)
    route = stage.trigger(subscriber.endpoint, delivery=policy, ordering="key")
    stage.publish(route)
    async with stage.task(max_outstanding=10):
        a = [stage.match(route, key="a")[0] for _ in range(15)]
        b = [stage.match(route, key="b")[0] for _ in range(15)]
        await until(lambda: len(delivered) == 30, "everything")
    assert [ident for ident in delivered if ident in set(a)] == a
    assert [ident for ident in delivered if ident in set(b)] == b


def certificate(folder: Path, host: str) -> tuple[ssl.SSLContext, str]:
    """A server's TLS for a name, and the PEM to trust it by."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / f"{host}.pem"
    file.write_bytes(secret + pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context, pem.decode()


async def test_certificates_are_verified_against_the_name(stage: Stage, subscribe: Subscribe, tmp_path: Path) -> None:
    tls, pem = certificate(tmp_path, "sink.team.svc.cluster.local")
    _, other = certificate(tmp_path, "other.team.svc.cluster.local")
    subscriber = await subscribe(tls=tls)
    address = (f"127.0.0.1:{subscriber.port}",)
    names = tuple(ServiceName(f"{name}.team.svc.cluster.local", {"443": address}) for name in ("sink", "wrong"))
    trusted = stage.trigger(Endpoint("https://sink.team.svc.cluster.local/in", ca_certs=pem))
    misnamed = stage.trigger(Endpoint("https://wrong.team.svc.cluster.local/in", ca_certs=pem))
    distrusted = stage.trigger(Endpoint("https://sink.team.svc.cluster.local/in", ca_certs=other))
    unknown = stage.trigger(Endpoint("https://sink.team.svc.cluster.local/in"))
    refused = (misnamed, distrusted, unknown)
    stage.publish(trusted, *refused, names=names)
    async with stage.task():
        stage.match(trusted, *refused)
        await until(lambda: subscriber.requests, "the event over TLS")
        await until(lambda: all(stage.attempts(route) for route in refused), "the refusals")
    assert len(subscriber.requests) == 1
    assert subscriber.requests[0].headers["host"] == "sink.team.svc.cluster.local"
    for route in refused:
        assert "certificate" in stage.attempts(route)[0]["reason"].lower()


async def test_what_retention_removed_everywhere_is_reported(stage: Stage, subscribe: Subscribe) -> None:
    subscriber = await subscribe()
    route = stage.trigger(subscriber.endpoint)
    async with stage.task(history=False):
        await fall_behind(stage, route, count=20)
    await remove_all_but(stage, 5)
    await remove_all_but(stage, 5, topics.EVENTS)
    stage.publish(route)
    async with stage.task(history=False):
        await until(lambda: len(subscriber.requests) == 5, "what is left")
        await until(lambda: losses(stage, route), "the report")
    [loss] = losses(stage, route)
    assert (loss.partition, loss.last - loss.first + 1 >= 15) == (0, True)


async def test_what_retention_removed_of_the_matched_events_is_read_where_it_came_from(
    stage: Stage, subscribe: Subscribe
) -> None:
    subscriber = await subscribe()
    route = stage.trigger(subscriber.endpoint)
    async with stage.task(history=False):
        ids = await fall_behind(stage, route, count=20)
    await remove_all_but(stage, 5)
    stage.publish(route)
    async with stage.task(history=False):
        await until(lambda: set(ids) <= set(subscriber.ids), "all of them")
    assert losses(stage, route) == []


async def test_what_is_still_in_memory_is_not_lost_by_retention(stage: Stage, subscribe: Subscribe) -> None:
    subscriber = await subscribe()
    route = stage.trigger(subscriber.endpoint)
    async with stage.task():
        await fall_behind(stage, route, count=20)
        await remove_all_but(stage, 5)
        stage.publish(route)
        await until(lambda: len(subscriber.requests) == 20, "all of them")
    assert losses(stage, route) == []


async def fall_behind(stage: Stage, route: Route, count: int) -> list[str]:
    """So many events for a route that is paused; returns their ids."""
    stage.publish(msgspec.structs.replace(route, paused=True))
    ids = stage.match(route, count=count)
    end = end_of_matched(stage)
    await until(lambda: stage.tail(0) >= end, "the tail to have read them")
    assert resume_of(stage, route) is not None
    return ids


async def remove_all_but(stage: Stage, newest: int, topic: str = topics.MATCHED) -> None:
    """As retention does."""
    admin = AdminClient(kafka_access(stage.settings))
    keep = end_of(stage, topic) - newest
    for future in admin.delete_records([TopicPartition(topic, 0, keep)]).values():
        await asyncio.to_thread(future.result, 60)


def resume_of(stage: Stage, route: Route) -> int | None:
    value = stage.table(topics.CURSORS).get(f"{route.uid}/0")
    return None if value is None else msgspec.json.decode(value).get("resume")


def end_of_matched(stage: Stage) -> int:
    return end_of(stage, topics.MATCHED)


def end_of(stage: Stage, topic: str) -> int:
    consumer = Consumer({**kafka_access(stage.settings), "group.id": "stage"})
    end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)[1]
    consumer.close()
    return int(end)


def losses(stage: Stage, route: Route) -> list[Loss]:
    values = stage.table(topics.REPORTS)
    found = [decode(key, value) for key, value in values.items() if key.startswith(f"loss/{route.uid}")]
    return [loss for loss in found if isinstance(loss, Loss)]


async def test_a_task_whose_parent_is_gone_ends_itself(stage: Stage) -> None:
    """As when Spark's daemon is killed: nobody would ever stop the task."""
    program = Path(__file__).with_name("dispatcher_process.py")
    settings = stage.settings.model_copy(update={"drain_seconds": 0.5}).model_dump_json()
    parent = subprocess.Popen(  # noqa: ASYNC220  # starting it does not block
        ["/bin/sh", "-c", '"$0" "$1" "$2" & echo $!; wait', sys.executable, str(program), settings],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    try:
        while b"dispatching" not in await asyncio.to_thread(parent.stdout.readline):
            assert child.is_running()
        parent.kill()
        parent.wait()
        await until(lambda: not alive(child), "the task's end")
    finally:
        parent.stdout.close()
        if alive(child):
            child.kill()
