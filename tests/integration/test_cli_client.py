"""The command line before an HTTP host, and the typed client that it writes: checked, used, and found out of date."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from grundlag_bus import StaticTokens, connect
from tests.support.command_line import ROOT, CommandLine
from tests.support.contract_registry import make_registry
from tests.support.gateway import open_gateway

CONTRACT = ("--registry", "tests.support.contract_registry:make_registry")
PROGRAMS = ROOT / "tests" / "typing"
TOKEN = "token-of-ada-0123456789"


@pytest.fixture
def line(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with open_gateway(connect(make_registry()), auth=StaticTokens({TOKEN: "ada"})) as gateway:
        yield gateway.url


def errors_in(folder: Path, *names: str) -> list[tuple[str, int]]:
    """Check files by mypy, strictly; the cache is that of `make types`, since nothing else about them is new."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *(str(folder / name) for name in names)],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    told = [line.split(":") for line in done.stdout.splitlines() if ": error:" in line]
    return [(Path(parts[0]).name, int(parts[1])) for parts in told]


# --- the typed client -------------------------------------------------------------------------------------------------


def test_a_client_is_typed_and_a_wrong_argument_found(line: CommandLine, tmp_path: Path) -> None:
    assert line.run("client", "generate", *CONTRACT, "--out", str(tmp_path / "contract_client.py")).code == 0
    for program in PROGRAMS.glob("*.py"):
        shutil.copy(program, tmp_path)
    lines = (tmp_path / "wrong.py").read_text().splitlines()
    wrong = [("wrong.py", number) for number, text in enumerate(lines, 1) if "# wrong" in text]
    assert errors_in(tmp_path, "contract_client.py", "right.py", "wrong.py") == wrong
    ran = subprocess.run(
        [sys.executable, "right.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "all is well\n"), ran.stderr


def test_a_client_that_is_up_to_date_stays_as_it_is_and_one_that_is_not_is_told(
    line: CommandLine, tmp_path: Path
) -> None:
    out = tmp_path / "client.py"
    generate = ("client", "generate", *CONTRACT, "--out", str(out))
    assert line.run(*generate, "--check").code == 1
    assert not out.exists()
    assert line.run(*generate).code == 0
    first = out.read_text()
    assert line.run(*generate).code == 0
    assert out.read_text() == first
    assert line.run(*generate, "--check").code == 0
    out.write_text(first.replace("    a: int\n    b: int\n", "    a: int\n").replace("contractEcho(", "contractOld("))
    ended = line.run(*generate, "--check")
    assert ended.code == 1
    for told in ("changed: ContractAddInput", "new: Client.contractEcho", "gone: Client.contractOld"):
        assert told in ended.err
    assert "contractOld" in out.read_text()


def test_a_client_is_checked_and_written_anew_with_the_options_it_was_written_with(
    line: CommandLine, tmp_path: Path
) -> None:
    out = tmp_path / "client.py"
    generate = ("client", "generate", "--registry", "grundlag_bus.demo:registry", "--out", str(out))
    assert line.run(*generate, "--provider", "demo", "--name", "DemoClient").code == 0
    first = out.read_text()
    assert "calendar" not in first
    assert line.run(*generate, "--check").code == 0
    assert line.run(*generate, "--check", "--provider", "demo").code == 0
    other = line.run(*generate, "--check", "--name", "Client", "--provider", "calendar")
    assert other.code == 1
    assert "`grundlag-bus client generate --provider demo --name DemoClient`, not by" in other.sentence
    assert "with --provider demo --name DemoClient as before" in line.run(*generate).sentence
    assert out.read_text() == first
    assert line.run(*generate, "--provider", "calendar").code == 0
    assert "class DemoClient" in out.read_text()
    assert "demoAdd" not in out.read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--provider", "contact"), "did you mean contract?"),
        (("--name", "lower"), "no name of a class"),
        (("--name", "None"), "no name of a class"),
    ],
)
def test_what_cannot_be_generated_is_told(line: CommandLine, arguments: tuple[str, ...], told: str) -> None:
    ended = line.run("client", "generate", *CONTRACT, "--out", "-", *arguments)
    assert ended.code == 2
    assert told in ended.sentence
    assert not ended.out


# --- before an HTTP host ----------------------------------------------------------------------------------------------


async def test_commands_that_call_take_an_http_host_and_its_token(url: str, tmp_path: Path) -> None:
    line = CommandLine(tmp_path, GRUNDLAG_TOKEN=TOKEN)
    ended = await asyncio.to_thread(line.run, "call", "contractAdd", '{"a": 1, "b": 2}', "--url", url, "--json")
    assert ended.response["result"] == {"sum": 3}
    ended = await asyncio.to_thread(line.run, "client", "generate", "--url", url, "--out", "-")
    assert "class ContractAddInput(TypedDict):" in ended.out
    without = await asyncio.to_thread(CommandLine(tmp_path).run, "tools", "--url", url)
    assert without.code == 4
    assert "asks who calls: give a token= (on the command line, in GRUNDLAG_TOKEN)" in without.sentence
    other = await asyncio.to_thread(line.run, "call", "contractAdd", '{"a": 1, "b": 2}', "--url", url, "--user", "bob")
    assert "--user on the command line" in other.sentence


@pytest.mark.parametrize(
    "arguments",
    [
        ("submit", "contractAdd"),
        ("workers",),
        ("dead", "list"),
        ("manifest", "retire", "contract"),
        ("worker", "tests.support.contract_registry:make_registry"),
    ],
)
def test_commands_that_need_the_bus_itself_refuse_an_http_host(line: CommandLine, arguments: tuple[str, ...]) -> None:
    ended = line.run(*arguments, "--url", "http://127.0.0.1:1")
    assert ended.code == 2
    assert "the bus behind it" in ended.sentence
