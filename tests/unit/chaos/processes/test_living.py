import asyncio
from pathlib import Path

import pytest

from grundlag_bus.chaos.history import Began, Closed, History, Memory, read
from grundlag_bus.chaos.processes.config import Config
from grundlag_bus.chaos.processes.living import Life, memory


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(
        url="amqp://localhost",
        namespace="n",
        folder=str(tmp_path),
        name="worker-1",
        life=2,
        seed=1,
        run="r",
        ledger="sqlite:///x",
        lease=5.0,
        kept_share=0.1,
        rate=1.0,
        at_once=1,
        timeout=60.0,
    )


def test_a_configuration_is_read_as_it_was_written_and_by_nobody_else(config: Config) -> None:
    config.write()
    assert Config.read(str(config.file)) == config
    assert config.file.stat().st_mode & 0o077 == 0


async def test_a_life_tells_when_it_begins_and_how_much_memory_it_takes(config: Config) -> None:
    with History(config.history) as history:
        life = Life(config, history)
        life.begin()
        life.end(late=3)
    began, measured, closed = read(config.history)
    assert isinstance(began, Began)
    assert (began.process, began.life) == ("worker-1", 2)
    assert isinstance(measured, Memory)
    assert measured.size == pytest.approx(memory(), rel=0.5)
    assert isinstance(closed, Closed)
    assert closed.late == 3


async def test_a_task_or_a_future_that_is_left_is_named(config: Config) -> None:
    async def forgotten() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(forgotten())
    await asyncio.sleep(0)
    with History(config.history) as history:
        life = Life(config, history)
        life.end()
        task.cancel()
        await asyncio.wait({task})
        life.end()
    first, second = read(config.history)
    assert isinstance(first, Closed)
    assert isinstance(second, Closed)
    assert any("forgotten" in each for each in first.left)
    assert not any("forgotten" in each for each in second.left)


async def test_an_error_that_nobody_looked_at_is_told(config: Config) -> None:
    with History(config.history) as history:
        life = Life(config, history)
        loop = asyncio.get_running_loop()
        life.unseen(loop, {"message": "asyncpg's", "exception": ConnectionError("unexpected connection_lost() call")})
        life.unseen(loop, {"message": "it was never retrieved", "exception": ValueError("x")})
        life.end()
    (closed,) = read(config.history)
    assert isinstance(closed, Closed)
    assert closed.left[0] == "it was never retrieved: ValueError('x')"
