"""Print what a call costs through the HTTP host: `python -m ops.bench.gateway [--url amqp://...] [--calls N]`.

In turns within one run, on the same broker: the bus alone, and a host in front of it, which is called over connections
that are kept. The host's CPU is its process's; the client's, which does next to nothing, is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson

from ops.bench.__main__ import broker
from ops.bench.contest import INPUT, RESULT, WARM_UP, measure, start
from ops.bench.contestants.grundlag_bus import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

IN_FLIGHT = (1, 64)
_TICKS = os.sysconf("SC_CLK_TCK")
_BODY = orjson.dumps({"input": INPUT})
_REQUEST = (
    b"POST /api/actions/demo/add HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


@dataclass(frozen=True, slots=True)
class Through:
    """One run through a host. cpu: of the host, in microseconds for each call."""

    calls_per_second: float
    p50: float
    cpu: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.gateway", description="Calls through the HTTP host.")
    parser.add_argument("--url", help="a RabbitMQ that nothing else uses meanwhile (default: a private node)")
    parser.add_argument("--calls", type=int, default=3000, help="calls of each run at 64 in flight (default 3000)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each (default 5)")
    given = parser.parse_args(arguments)
    print("| in flight | what | calls/s | p50 ms | CPU us/call of the caller, or the host |\n|---|---|---|---|---|")
    with broker(given.url) as url:
        for in_flight in IN_FLIGHT:
            calls = given.calls if in_flight > 1 else max(100, given.calls // 5)
            rounds = [
                (measure("grundlag_bus", url, calls=calls, in_flight=in_flight), _measure(url, calls, in_flight))
                for _ in range(given.rounds)
            ]
            bus, host = zip(*rounds, strict=True)
            alone = [(run.calls_per_second, run.p50, run.caller_cpu) for run in bus]
            through = [(run.calls_per_second, run.p50, run.cpu) for run in host]
            print(_row(in_flight, "the bus alone", alone), _row(in_flight, "through a host", through), sep="\n")
            ratio = statistics.median(b[2] / a[2] for a, b in zip(alone, through, strict=True))
            speed = statistics.median(b[0] / a[0] for a, b in zip(alone, through, strict=True))
            print(f"| {in_flight} | host / bus | {speed:.2f} | | {ratio:.1f} |", flush=True)
    return 0


def _row(in_flight: int, what: str, runs: Sequence[tuple[float, float, float]]) -> str:
    speed, p50, cpu = (statistics.median(figures) for figures in zip(*runs, strict=True))
    return f"| {in_flight} | {what} | {speed:.0f} | {p50:.2f} | {cpu:.0f} |"


def _measure(url: str, calls: int, in_flight: int) -> Through:
    worker = start("worker", "grundlag_bus", url)
    try:
        if worker.stdout is None or worker.stdout.readline().strip() != "ready":
            raise RuntimeError("The worker did not start: see its error above.")
        with _host(url) as (pid, address):
            return asyncio.run(_call_all(pid, address, calls, in_flight))
    finally:
        worker.kill()
        worker.wait()


@contextmanager
def _host(url: str) -> Iterator[tuple[int, str]]:
    """Start a host and give its process id and its address."""
    command = [sys.executable, "-m", "grundlag_bus", "serve", "--url", url, "--namespace", NAMESPACE, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as host:
        try:
            told = (json.loads(line) for line in host.stderr or () if line.startswith("{"))
            yield host.pid, next(line["url"] for line in told if line["event"] == "serving")
        finally:
            host.terminate()


async def _call_all(pid: int, address: str, calls: int, in_flight: int) -> Through:
    parts = urlsplit(address)
    connections = [await asyncio.open_connection(parts.hostname, parts.port) for _ in range(in_flight)]
    await _spend(connections, WARM_UP)
    before, began = _cpu(pid), time.perf_counter()
    latencies = sorted(await _spend(connections, calls))
    took, cpu = time.perf_counter() - began, _cpu(pid) - before
    for _, writer in connections:
        writer.close()
    return Through(calls / took, latencies[len(latencies) // 2] * 1e3, cpu / calls * 1e6)


async def _spend(connections: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]], calls: int) -> list[float]:
    left, latencies = iter(range(calls)), []

    async def runner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in left:
            began = time.perf_counter()
            writer.write(_REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            if orjson.loads(await reader.readexactly(length)).get("result") != RESULT:
                raise RuntimeError("A call returned something else than the sum.")
            latencies.append(time.perf_counter() - began)

    await asyncio.gather(*(runner(*connection) for connection in connections))
    return latencies


def _cpu(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


if __name__ == "__main__":
    sys.exit(main())
