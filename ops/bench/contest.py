"""What every contestant does: serve `{a, b} -> {sum}` in one process and call it from another.

A contestant is a module with `serve(url, ready)`, which calls `ready()` when it consumes and then serves until
cancelled, and `connect(url)`, an async context manager that gives an async function `call()` which returns the result.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

Call = Callable[[], Awaitable[Any]]

CONTESTANTS = ("grundlag_bus", "aiormq", "faststream")
QUEUE = "grundlag-bench"
INPUT = {"a": 1, "b": 2}
RESULT = {"sum": 3}
WARM_UP = 200
"""Calls that are made first and not counted: caches fill, the broker's flow control settles."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run. Latency in milliseconds, CPU in microseconds of user and system time for each call."""

    calls_per_second: float
    p50: float
    caller_cpu: float
    worker_cpu: float


def measure(
    name: str, url: str, *, calls: int, in_flight: int, environment: Mapping[str, str] | None = None
) -> Measured:
    """Run a contestant's worker and caller, each in a process of its own."""
    worker = start("worker", name, url, environment=environment)
    try:
        if worker.stdout is None or worker.stdin is None or worker.stdout.readline().strip() != "ready":
            raise RuntimeError(f"The worker of {name} did not start: see its error above.")
        caller = start("caller", name, url, str(calls), str(in_flight), environment=environment)
        told = orjson.loads(caller.communicate(timeout=600)[0])
        worker.stdin.write("report\n")
        worker.stdin.flush()
        served = float(worker.stdout.readline())
        return Measured(
            calls_per_second=calls / told["took"],
            p50=told["p50"] * 1e3,
            caller_cpu=told["cpu"] / calls * 1e6,
            worker_cpu=served / (calls + WARM_UP) * 1e6,
        )
    finally:
        worker.kill()
        worker.wait()


def start(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a contestant's worker or caller in a process of its own. environment: added to that of this one."""
    command = [sys.executable, "-m", "ops.bench.contest", *arguments]
    around = {**os.environ, **(environment or {})}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=around)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _worker(name: str, url: str) -> None:
    """Serve, and tell the CPU seconds used since it was ready for each line that comes in."""
    started: list[float] = []

    def ready() -> None:
        started.append(_cpu())
        print("ready", flush=True)

    serving = asyncio.create_task(import_module(f"ops.bench.contestants.{name}").serve(url, ready))
    serving.add_done_callback(_end_with)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(_cpu() - started[0], flush=True)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


def _end_with(serving: asyncio.Task[None]) -> None:
    """Tell why the serving failed, and end: whoever measures would wait for it."""
    if not serving.cancelled() and (error := serving.exception()) is not None:
        traceback.print_exception(error)
        os._exit(1)


async def _caller(name: str, url: str, calls: int, in_flight: int) -> None:
    async with import_module(f"ops.bench.contestants.{name}").connect(url) as call:
        await _spend(call, WARM_UP, in_flight)
        before, began = _cpu(), time.perf_counter()
        latencies = sorted(await _spend(call, calls, in_flight))
        took, cpu = time.perf_counter() - began, _cpu() - before
    told = {"took": took, "cpu": cpu, "p50": latencies[len(latencies) // 2]}
    print(orjson.dumps(told).decode(), flush=True)


async def _spend(call: Call, calls: int, in_flight: int) -> list[float]:
    left, latencies = iter(range(calls)), []

    async def runner() -> None:
        for _ in left:
            began = time.perf_counter()
            if await call() != RESULT:
                raise RuntimeError("A call returned something else than the sum.")
            latencies.append(time.perf_counter() - began)

    await asyncio.gather(*(runner() for _ in range(in_flight)))
    return latencies


def _main() -> None:
    role, name, url, *numbers = sys.argv[1:]
    if role == "worker":
        _run(_worker(name, url))
    else:
        calls, in_flight = (int(number) for number in numbers)
        _run(_caller(name, url, calls, in_flight))


def _run(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed, for every contestant alike."""
    try:
        import uvloop  # noqa: PLC0415  an extra
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


if __name__ == "__main__":
    _main()
