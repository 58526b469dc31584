"""The delay ladder: a message waits for any whole number of seconds in queues whose waiting times are powers of two.

A queue of level N holds each message for 2**N seconds, so that all of one queue wait equally long and none waits behind
another. A routing key begins with the delay's bits, the highest first, and ends as that of a call does:

    0.0. ... .1.0.1.calendar.main           5 seconds

- A message enters at the exchange of its highest 1.
- The exchange of level N takes a 1 into the queue of level N, whose dead letters go to the exchange below; a 0 goes to
  the exchange below at once.
- Below level 0 is the outlet, to which every call queue is bound by the end of the key; what no queue takes there is a
  dead letter at once, since a message that cannot leave a queue would block all behind it.

Whoever may write to these exchanges reaches every provider: topic permissions on the calls do not cover them, and
need a pattern of their own here.

The broker decides when a message leaves, and confirms each step to itself: a crash loses and repeats nothing.
"""

from __future__ import annotations

import math
from functools import lru_cache

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.transport.parts import Binding, Bridge, Exchange, Ladder, Queue, Route

LEVELS = 20
LONGEST = 2**LEVELS - 1
"""Seconds: 12 days and 3 hours."""


def whole_seconds(delay: float) -> int:
    """Round a delay up; what is due is 0. Raises ConfigurationError where it is longer than the ladder holds."""
    if not delay <= LONGEST:
        raise ConfigurationError(f"A call cannot be delayed by {delay:g} s: use at most {LONGEST} s (12 days).")
    return math.ceil(delay) if delay > 0 else 0


def levels_of(seconds: int) -> tuple[int, ...]:
    """Tell in which levels' queues a message waits, in this order."""
    return tuple(level for level in reversed(range(LEVELS)) if seconds >> level & 1)


def delayed(route: Route, seconds: int, prefix: str, outlet: Exchange) -> Route:
    """Lead to where `route` does, but `seconds` later (1 to LONGEST), through the outlet."""
    bits = ".".join(f"{seconds:0{LEVELS}b}")
    entrance = level_name(prefix, levels_of(seconds)[0])
    return Route(entrance, f"{bits}.{route.routing_key}", needs=build(prefix, outlet))


def leaving(outlet: Exchange, routing_key: str) -> Binding:
    """Take from the outlet what was delayed on its way to a routing key."""
    return Binding(outlet, f"#.{routing_key}")


def level_name(prefix: str, level: int) -> str:
    return f"{prefix}.delay.{level:02}"


@lru_cache(maxsize=64)
def build(prefix: str, outlet: Exchange) -> Ladder:
    """Make the ladder of a topology, the same object each time. The exchanges are listed from the top down."""
    exchanges = tuple(Exchange(level_name(prefix, level), "topic") for level in reversed(range(LEVELS)))
    below = (*exchanges[1:], outlet)
    queues, bridges = [], []
    for place, (exchange, target) in enumerate(zip(exchanges, below, strict=True)):
        before = "*." * place
        queues.append(_queue(exchange, f"{before}1.#", 2 ** (LEVELS - 1 - place), target))
        bridges.append(Bridge(target, Binding(exchange, f"{before}0.#")))
    return Ladder(exchanges, tuple(queues), tuple(bridges))


def _queue(exchange: Exchange, routing_key: str, seconds: int, target: Exchange) -> Queue:
    arguments = {
        "x-queue-type": "quorum",
        "x-message-ttl": seconds * 1000,
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": target.name,
        "x-dead-letter-strategy": "at-least-once",
        # Nobody consumes it; and should anybody, then no message is dropped or leaves early for that.
        "x-delivery-limit": 1_000_000,
    }
    return Queue(exchange.name, (Binding(exchange, routing_key),), arguments)
