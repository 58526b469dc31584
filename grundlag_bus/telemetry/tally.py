"""Adds up cheaply, and hands the sums over to prometheus_client now and then.

Each count of prometheus_client takes a lock and, where several processes count together, writes to a mapped file: for
what a call costs in all that was an eighth to a quarter of a worker's time. Only one thread may add.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram


class Tally:
    """What was added since it was handed over the last time."""

    def __init__(self) -> None:
        self._touched: list[Counted | Observed] = []

    def touch(self, sum_of: Counted | Observed) -> None:
        self._touched.append(sum_of)

    def hand_over(self) -> None:
        touched, self._touched = self._touched, []
        for sum_of in touched:
            sum_of.hand_over()


class Counted:
    """One series of a counter."""

    __slots__ = ("_amount", "_counter", "_tally")

    def __init__(self, counter: Counter, tally: Tally) -> None:
        self._counter = counter
        self._tally = tally
        self._amount = 0.0

    def inc(self, amount: float = 1.0) -> None:
        if not self._amount:
            self._tally.touch(self)
        self._amount += amount

    def hand_over(self) -> None:
        self._counter.inc(self._amount)
        self._amount = 0.0


class Observed:
    """The series of a histogram under one set of labels."""

    __slots__ = ("_bounds", "_counts", "_histogram", "_sum", "_tally", "_untouched")

    def __init__(self, histogram: Histogram, tally: Tally) -> None:
        self._histogram = histogram
        self._tally = tally
        self._bounds = histogram._upper_bounds  # noqa: SLF001  `observe` takes one value at a time
        self._untouched = True
        self._begin()

    def observe(self, value: float) -> None:
        if self._untouched:
            self._untouched = False
            self._tally.touch(self)
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def hand_over(self) -> None:
        histogram = self._histogram
        histogram._sum.inc(self._sum)  # noqa: SLF001  as above
        for count, bucket in zip(self._counts, histogram._buckets, strict=True):  # noqa: SLF001  as above
            if count:
                bucket.inc(count)
        self._untouched = True
        self._begin()

    def _begin(self) -> None:
        self._counts = [0] * len(self._bounds)
        self._sum = 0.0
