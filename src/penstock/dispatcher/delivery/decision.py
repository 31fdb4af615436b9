"""What to do after an attempt, as a value: the delivery state machine.

```
matched --> attempt --2xx, no event--------------------------> Done
               |  \\--2xx with an event (not 202)--> Reply --2xx--> Done
               |                                      | retryable, attempts left --> Retry --> reply
               |                                      | otherwise ----------------------------+
               | retryable (network, 404 408 409 429 5xx), attempts left --> Retry --> attempt |
               | otherwise --------------------------------------------------------------------+
               v                                                                               v
     no dead letter sink: Dropped, counted, recorded                                  DeadLetter --2xx--> Done
                                                            (same retry policy) otherwise: Dropped
```

A Trigger's reply is not a stage of its own: storing it in the Broker belongs to the attempt, and fails with it.
"""

from __future__ import annotations

import msgspec

from penstock.contract.attempts import FailureCause
from penstock.contract.routes import Delivery, Endpoint, Route
from penstock.dispatcher.cursors.cursor import Stage
from penstock.dispatcher.delivery.backoff import wait_before
from penstock.dispatcher.http.outcome import Outcome


class Verdict(msgspec.Struct, frozen=True):
    """What is known after an attempt: enough to decide, and to say why."""

    outcome: Outcome
    status: int | None = None
    retry_after: str | None = None
    replied: bool = False
    """Whether the response carries an event that still has to be sent to the Subscription's reply destination."""
    reason: str = ""
    """Why it failed, as a sentence."""
    cause: FailureCause = FailureCause.DELIVERY_FAILED
    """The same for programs, where there was no response."""


class Retry(msgspec.Struct, frozen=True):
    """Again in the same stage, not before `at`."""

    at: float


class Reply(msgspec.Struct, frozen=True):
    """Continue with the reply stage."""


class ToDeadLetter(msgspec.Struct, frozen=True):
    """Continue with the dead letter sink."""

    reason: str


class Dropped(msgspec.Struct, frozen=True):
    """Failed, and there is no dead letter sink left to send it to."""

    reason: str


class Done(msgspec.Struct, frozen=True):
    """Delivered."""


Step = Retry | Reply | ToDeadLetter | Dropped | Done

DONE = Done()
REPLY = Reply()


def destination(route: Route, stage: Stage) -> Endpoint | None:
    """Where a delivery in this stage goes. A Subscription without subscriber sends the event straight to its reply."""
    match stage:
        case Stage.SUBSCRIBER:
            return route.subscriber or route.reply
        case Stage.REPLY:
            return route.reply
        case Stage.DEAD_LETTER:
            return route.delivery.dead_letter


def expects_reply(route: Route, stage: Stage) -> bool:
    """Whether an event in the response is a reply: only in that of a subscriber."""
    return stage is Stage.SUBSCRIBER and route.subscriber is not None


def next_step(route: Route, stage: Stage, attempts: int, verdict: Verdict, now: float) -> Step:
    """What follows an attempt; `attempts` counts those made in this stage, this one included."""
    if verdict.outcome is Outcome.DELIVERED:
        return REPLY if verdict.replied and stage is Stage.SUBSCRIBER and route.reply is not None else DONE
    policy = route.delivery
    if verdict.outcome is Outcome.RETRYABLE and attempts <= policy.retry:
        return Retry(now + wait_before(policy, attempts - 1, verdict.status, verdict.retry_after, now))
    return dead_letter_or_drop(policy, stage, verdict.reason)


def dead_letter_or_drop(policy: Delivery, stage: Stage, reason: str) -> Step:
    """The dead letter sink where there is one and it has not itself failed."""
    if stage is not Stage.DEAD_LETTER and policy.dead_letter is not None:
        return ToDeadLetter(reason)
    return Dropped(reason)
