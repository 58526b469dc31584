"""When which fault happens: decided beforehand from a seed, so that a run can be repeated.

A run is a sequence of rounds. In each of them one fault leads, which is the last one to heal; small faults befall
single processes and connections before and meanwhile; then all is quiet for a while, to see calls complete again. Who
leads is dealt from a pack with every kind in it, and so are the small ones: none is rare.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WARM_UP = 6.0
"""Seconds without a fault at first: a killed broker does not know queues that were declared in the last one or two."""
QUIET = 4.0
"""Seconds without a fault after each round. One that takes longer to recover from is still judged, by the next."""
_APART = 1.1
"""Seconds between the beginnings of two small faults, about."""
_MARGIN = 0.5
_SHORTEST = 3.0
_TARGETS = 2**16


@dataclass(frozen=True, slots=True)
class Kind:
    """What there is to know of a fault to plan it.

    lasts: seconds at least and at most until it is healed; heals: seconds which that takes; small: it befalls a part
    of the fleet only, so that it may happen beside any other.
    """

    name: str
    lasts: tuple[float, float] = (0.0, 0.0)
    heals: float = 0.0
    small: bool = False

    @property
    def longest(self) -> float:
        return self.lasts[1] + self.heals


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault to come. Seconds, of the run; end: when it is healed; choice: which target, modulo how many there are."""

    begin: float
    lasts: float
    end: float
    fault: str
    choice: int
    round: int


def schedule(seed: int, seconds: float, kinds: Sequence[Kind]) -> list[Planned]:
    """Plan the faults of a run of so many seconds, by their beginnings.

    Every kind occurs in a run of `least_seconds`; in a shorter one as many as there is time for.
    """
    chance = Random(f"{seed}/faults")  # noqa: S311  it is to be repeated, and guards nothing
    ordered = sorted(kinds, key=lambda kind: kind.name)
    if not ordered:
        return []
    small = [kind for kind in ordered if kind.small]
    # The large ones first: the small ones happen beside them.
    leads = chain(
        _pack(chance, [kind for kind in ordered if not kind.small]), _pack(chance, small), _dealt(chance, ordered)
    )
    beside = _dealt(chance, small)
    planned: list[Planned] = []
    begin, number = WARM_UP, 0
    while True:
        faults = list(_round(chance, number, begin, next(leads), beside))
        end = max(fault.end for fault in faults)
        if end + QUIET > seconds:
            return planned
        planned += sorted(faults, key=lambda fault: fault.begin)
        begin, number = end + QUIET, number + 1


def least_seconds(kinds: Sequence[Kind]) -> float:
    """Return how long a run has to be for every kind to occur."""
    return WARM_UP + sum(max(kind.longest, _SHORTEST) + _MARGIN + QUIET for kind in kinds)


def _pack(chance: Random, kinds: Sequence[Kind]) -> list[Kind]:
    return chance.sample(kinds, len(kinds))


def _dealt(chance: Random, kinds: Sequence[Kind]) -> Iterator[Kind]:
    """Yield from packs with each kind once; nothing where there is none."""
    while kinds:
        yield from _pack(chance, kinds)


def _round(chance: Random, number: int, begin: float, lead: Kind, small: Iterator[Kind]) -> Iterator[Planned]:
    lasts = chance.uniform(*lead.lasts)
    length = max(lasts + lead.heals, _SHORTEST) + _MARGIN
    end = begin + length
    yield Planned(end - lead.heals - lasts, lasts, end, lead.name, chance.randrange(_TARGETS), number)
    for offset in _offsets(chance, length - _MARGIN):
        kind = next(small, None)
        if kind is None:
            return
        lasts = min(chance.uniform(*kind.lasts), length - _MARGIN - offset)
        healed = begin + offset + lasts
        yield Planned(begin + offset, lasts, healed, kind.name, chance.randrange(_TARGETS), number)


def _offsets(chance: Random, length: float) -> Iterator[float]:
    """Yield when the small faults of a round begin."""
    offset = chance.uniform(0, _APART)
    while offset < length:
        yield offset
        offset += _APART * chance.uniform(0.5, 1.5)
