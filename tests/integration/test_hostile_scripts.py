"""Whatever a script does, it ends in its time and its memory, seen from outside, with an error that says why."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from grundlag_bus import (
    ConfigurationError,
    EnginePool,
    Limits,
    Sandbox,
    ScriptError,
    ScriptFailedError,
    ScriptInvalidError,
    ScriptLimitError,
    ScriptValueError,
    Tool,
    ToolContext,
    define_tool,
)
from grundlag_bus.sandbox.script.limits import MIB
from tests.support.engines import engines, resident

LIMITS = Limits(time=6, memory=128 * MIB, source=MIB)


async def give(value: Any, _: ToolContext) -> Any:
    return value


def tool(id: str = "give", schema: dict[str, Any] | None = None) -> dict[str, Tool]:  # noqa: A002  the field's name
    return {id: define_tool(id=id, name=id, input=schema or {}, output={}, execute=give)}


@dataclass
class Watch:
    """peak: bytes of the largest engine; ended: to stop watching."""

    peak: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self.ended.wait(0.02):
            self.peak = max([self.peak, *map(resident, engines())])


@contextmanager
def watched() -> Iterator[Watch]:
    watch = Watch()
    thread = threading.Thread(target=watch.watch)
    thread.start()
    try:
        yield watch
    finally:
        watch.ended.set()
        thread.join()


HOSTILE = {
    "endless loop": ("while True:\n    pass", "time"),
    "endless squaring": ("x = 3\nwhile True:\n    x = x * x", "time"),
    "endless prints": ("while True:\n    print('x' * 1000)", "time"),
    "endless builtin": ("sum(range(10 ** 11))", "time"),
    "long multiplication": ("import math\nmath.factorial(10 ** 7)\n1", "time"),
    "memory": ("x = []\nwhile True:\n    x.append('a' * 1000)", "memory"),
    "objects": ("x = {}\ni = 0\nwhile True:\n    x[i] = [i]\n    i += 1", "memory"),
    "string at once": ("'a' * 10 ** 10", "memory"),
    "string in steps": ("x = 'a'\nwhile True:\n    x += x", "memory"),
    "replacing": ("('a' * 10_000_000).replace('a', 'b' * 1000)", "memory"),
    "formatting": ("'%1000000000d' % 3", "memory"),
    "list at once": ("[0] * 10 ** 10", "memory"),
    "product": ("import itertools\nlist(itertools.product(range(1000), repeat=5))", "memory"),
    "tower of powers": ("9 ** 9 ** 9", "memory"),
    "value of 100 MB": ("'a' * 100_000_000", "memory"),
    "deep recursion": ("def f(n: int) -> int:\n    return f(n + 1)\nf(0)", "recursion"),
    "expression of 300,000 terms": ("x = " + "+".join(["1"] * 300_000), "engine"),
    "10,000 calls": ("for i in range(10_000):\n    await give(i)", "suspensions"),
    "10,000 calls at once": (
        "import asyncio\nawait asyncio.gather(*[give(i) for i in range(10_000)])",
        "suspensions",
    ),
}


@pytest.mark.parametrize(("source", "limit"), HOSTILE.values(), ids=HOSTILE)
async def test_it_comes_to_its_limit(source: str, limit: str) -> None:
    pool = EnginePool(1)
    sandbox = Sandbox(tool(), limits=LIMITS, pool=pool)
    began = time.monotonic()
    with watched() as watch, pytest.raises(ScriptLimitError) as raised:
        await sandbox.run(source)
    assert raised.value.limit == limit
    assert str(raised.value)
    if limit != "suspensions":  # those are the tools' time
        assert time.monotonic() - began < 1.5 * LIMITS.time
    assert watch.peak < LIMITS.memory + 64 * MIB
    assert not engines()
    assert (await sandbox.run("1 + 1")).value == 2


OTHERS: dict[str, tuple[str, type[ScriptError]]] = {
    "nested brackets": ("(" * 5000 + "1" + ")" * 5000, ScriptInvalidError),
    "regex of many states": ("import re\nre.match('(a{1,1000}){1,1000}', 'a' * 40)", ScriptFailedError),
    "deep JSON": ("import json\njson.loads('[' * 1_000_000)", ScriptFailedError),
    "digits": ("str(10 ** 100_000)", ScriptFailedError),
    "deep value": ("x: list = []\nfor i in range(100_000):\n    x = [x]\nx", ScriptValueError),
    "too long": ("x = 1\n" * 200_000, ScriptInvalidError),
    "huge value": ("'a' * 5_000_000", ScriptValueError),
    "lists in lists": ("a: list = [1]\nfor i in range(60):\n    a = [a, a]\na", ScriptValueError),
    "one text many times": ("['a' * 1_000_000] * 100_000", ScriptValueError),
    "many keys": ("k = 'k' * 1_000_000\n[{k: 1}] * 100_000", ScriptValueError),
    "lists in lists to a tool": (
        "a: list = [1]\nfor i in range(60):\n    a = [a, a]\nawait give(a)",
        ScriptFailedError,
    ),
    "huge integer": ("10 ** 100", ScriptValueError),
    "file": ("open('/etc/passwd').read()", ScriptError),
    "directory": ("from pathlib import Path\nlist(Path('/').iterdir())", ScriptFailedError),
    "environment": ("import os\nos.environ['PATH']", ScriptError),
    "program": ("import subprocess", ScriptInvalidError),
    "sleep": ("import time\ntime.sleep(60)", ScriptFailedError),
    "exit": ("exit(3)", ScriptError),
    "interpreter's exit": ("raise SystemExit", ScriptError),
}


@pytest.mark.parametrize(("source", "kind"), OTHERS.values(), ids=OTHERS)
async def test_it_is_refused(source: str, kind: type[ScriptError]) -> None:
    sandbox = Sandbox(tool(), limits=LIMITS)
    began = time.monotonic()
    with watched() as watch, pytest.raises(kind) as raised:
        await sandbox.run(source)
    assert str(raised.value)
    assert time.monotonic() - began < 1.5 * LIMITS.time
    assert watch.peak < LIMITS.memory + 64 * MIB
    assert (await sandbox.run("1 + 1")).value == 2


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(a|aa)+$", "(.*a){20}$"])
async def test_no_regex_takes_for_ever(pattern: str) -> None:
    result = await Sandbox({}, limits=LIMITS).run(f"import re\nre.match({pattern!r}, 'a' * 40 + 'b') is None")
    assert result.value in (True, False)


async def test_the_host_s_loop_lives_on_meanwhile() -> None:
    sandbox = Sandbox({}, limits=Limits(time=1))
    running = asyncio.create_task(sandbox.run("while True:\n    print('x' * 1000)"))
    longest, last = 0.0, time.monotonic()
    while not running.done():
        await asyncio.sleep(0.01)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    with pytest.raises(ScriptLimitError) as raised:
        await running
    assert longest < 1
    assert len(raised.value.stdout) < 70_000


@pytest.mark.parametrize("name", ["print", "list", "class", "await", "a-b", "_hidden", "1st", "Any"])
def test_a_tool_whose_name_a_script_cannot_call_is_told_when_the_sandbox_is_made(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot call a tool named"):
        Sandbox(tool(name))


async def test_property_names_that_are_keywords_are_given_in_a_dict() -> None:
    schema = {"type": "object", "properties": {"from": {"type": "string"}}, "required": ["from"]}
    sandbox = Sandbox(tool(schema=schema))
    assert "async def give(input: dict[str, Any])" in sandbox.prompt()
    assert (await sandbox.run("await give({'from': 'x'})")).value == {"from": "x"}


async def test_names_of_tools_can_be_hidden_by_the_script_without_harm() -> None:
    result = await Sandbox(tool(), limits=LIMITS).run("def helper(give: int) -> int:\n    return give\nhelper(3)")
    assert result.value == 3
