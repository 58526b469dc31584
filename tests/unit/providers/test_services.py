import asyncio
import contextvars
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Protocol, Self

import pytest

from grundlag_bus.errors import ConfigurationError, GrundlagError, ServiceMissingError, ServicesClosedError
from grundlag_bus.providers.services import ServiceRegistry, Services
from tests.support.eventually import eventually


class Clock:
    pass


class Mail:
    pass


class Session:
    pass


class Trail:
    """What happened, in order."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def around(self, kind: type, *asks: type, scope_error: bool = False) -> Callable[[Services], AsyncIterator[Any]]:
        """Make a recipe that asks for other services and notes its opening and closing."""

        async def recipe(services: Services) -> AsyncIterator[Any]:
            for asked in asks:
                await services.get(asked)
            self.seen.append(f"open {kind.__name__}")
            try:
                yield kind()
            except BaseException as error:
                self.seen.append(f"{kind.__name__} saw {type(error).__name__}")
                raise
            finally:
                self.seen.append(f"close {kind.__name__}")
            if scope_error:
                raise RuntimeError(kind.__name__)

        return recipe


@asynccontextmanager
async def managed() -> AsyncIterator[Clock]:
    yield Clock()


async def generated() -> AsyncIterator[Clock]:
    yield Clock()


async def awaited() -> Clock:
    return Clock()


def plainly() -> Clock:
    return Clock()


def from_services(services: Services) -> Clock:
    assert isinstance(services, Services)
    return Clock()


def with_default(zone: str = "UTC") -> Clock:
    assert zone == "UTC"
    return Clock()


class NeedsServices(Clock):
    def __init__(self, services: Services) -> None:
        assert isinstance(services, Services)


@pytest.mark.parametrize("scope", ["worker", "call"])
@pytest.mark.parametrize(
    "recipe",
    [
        managed,
        generated,
        awaited,
        plainly,
        from_services,
        with_default,
        Clock,
        NeedsServices,
        Clock(),
        partial(generated),
        lambda _services: Clock(),
    ],
)
async def test_every_kind_of_recipe_makes_its_service(recipe: Any, scope: Any) -> None:
    registry = ServiceRegistry()
    registry.register(Clock, recipe, scope=scope)
    async with registry.open() as opened, opened.call_scope() as services:
        clock = await services.get(Clock)
        assert isinstance(clock, Clock)
        assert await services.get(Clock) is clock


async def test_a_worker_scoped_service_is_shared_by_calls_and_a_call_scoped_one_is_not() -> None:
    registry = ServiceRegistry()
    registry.register(Clock, Clock)
    registry.register(Session, Session, scope="call")
    async with registry.open() as opened:
        async with opened.call_scope() as first:
            seen = await first.get(Clock), await first.get(Session)
        async with opened.call_scope() as second:
            assert await second.get(Clock) is seen[0]
            assert await second.get(Session) is not seen[1]


@pytest.mark.parametrize("scope", ["worker", "call"])
async def test_a_service_is_built_once_when_a_hundred_ask_at_once(scope: Any) -> None:
    built = 0

    async def slow() -> Clock:
        nonlocal built
        built += 1
        await asyncio.sleep(0)
        return Clock()

    registry = ServiceRegistry()
    registry.register(Clock, slow, scope=scope)
    async with registry.open() as opened, opened.call_scope() as services:
        clocks = await asyncio.gather(*(services.get(Clock) for _ in range(100)))
    assert built == 1
    assert len(set(map(id, clocks))) == 1


async def test_nothing_is_built_before_it_is_asked_for() -> None:
    trail = Trail()
    registry = ServiceRegistry()
    registry.register(Clock, trail.around(Clock))
    registry.register(Session, trail.around(Session), scope="call")
    async with registry.open() as opened, opened.call_scope():
        pass
    assert trail.seen == []


async def test_worker_scoped_services_close_in_reverse_of_their_creation() -> None:
    trail = Trail()
    registry = ServiceRegistry()
    registry.register(Clock, trail.around(Clock))
    registry.register(Mail, trail.around(Mail, Clock))
    registry.register(Session, trail.around(Session, Mail))
    async with registry.open() as opened:
        async with opened.call_scope() as services:
            await services.get(Session)
        assert trail.seen == ["open Clock", "open Mail", "open Session"]
    assert trail.seen[3:] == ["close Session", "close Mail", "close Clock"]


async def test_call_scoped_services_close_in_reverse_at_the_end_of_the_call() -> None:
    trail = Trail()
    registry = ServiceRegistry()
    registry.register(Mail, trail.around(Mail, Clock), scope="call")
    registry.register(Clock, trail.around(Clock), scope="call")
    async with registry.open() as opened:
        async with opened.call_scope() as services:
            await services.get(Mail)
        assert trail.seen == ["open Clock", "open Mail", "close Mail", "close Clock"]


@pytest.mark.parametrize("raised", [ValueError, asyncio.CancelledError, KeyboardInterrupt])
async def test_call_scoped_services_see_what_ended_the_call(raised: type[BaseException]) -> None:
    trail = Trail()
    registry = ServiceRegistry()
    registry.register(Session, trail.around(Session), scope="call")

    async def call() -> None:
        async with opened.call_scope() as services:
            await services.get(Session)
            raise raised

    async with registry.open() as opened:
        with pytest.raises(raised):
            await call()
    assert trail.seen == ["open Session", f"Session saw {raised.__name__}", "close Session"]


async def fail_in_a_call(registry: ServiceRegistry) -> None:
    async with registry.open() as opened, opened.call_scope() as services:
        await services.get(Session)
        raise ValueError("of the call")


async def test_a_recipe_cannot_swallow_the_error_of_a_call() -> None:
    async def swallowing() -> AsyncIterator[Session]:
        with suppress(ValueError):
            yield Session()

    registry = ServiceRegistry()
    registry.register(Session, swallowing, scope="call")
    with pytest.raises(ValueError, match="of the call"):
        await fail_in_a_call(registry)


async def test_cancelling_a_call_closes_its_services() -> None:
    trail = Trail()
    registry = ServiceRegistry()
    registry.register(Session, trail.around(Session), scope="call")
    async with registry.open() as opened:

        async def call() -> None:
            async with opened.call_scope() as services:
                await services.get(Session)
                await asyncio.Event().wait()

        running = asyncio.create_task(call())
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert trail.seen == ["open Session", "Session saw CancelledError", "close Session"]


@pytest.mark.parametrize("scope", ["worker", "call"])
async def test_a_service_that_fails_to_close_keeps_no_other_from_closing(scope: Any) -> None:
    trail = Trail()
    registry = ServiceRegistry()
    registry.register(Clock, trail.around(Clock), scope=scope)
    registry.register(Mail, trail.around(Mail, Clock, scope_error=True), scope=scope)
    with pytest.raises(RuntimeError, match="Mail") as caught:
        async with registry.open() as opened, opened.call_scope() as services:
            await services.get(Mail)
    assert caught.value.__notes__ == ["while closing the service Mail"]
    assert trail.seen[2:] == ["close Mail", "close Clock"]


@pytest.mark.parametrize("scope", ["worker", "call"])
async def test_every_error_of_closing_is_told(scope: Any) -> None:
    trail = Trail()
    registry = ServiceRegistry()
    registry.register(Clock, trail.around(Clock, scope_error=True), scope=scope)
    registry.register(Mail, trail.around(Mail, Clock, scope_error=True), scope=scope)
    with pytest.raises(ExceptionGroup) as caught:
        async with registry.open() as opened, opened.call_scope() as services:
            await services.get(Mail)
    assert [str(error) for error in caught.value.exceptions] == ["Mail", "Clock"]


async def test_an_error_of_closing_is_logged_and_does_not_hide_the_error_of_the_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @asynccontextmanager
    async def failing() -> AsyncIterator[Session]:
        try:
            yield Session()
        finally:
            raise OSError("while closing")

    registry = ServiceRegistry()
    registry.register(Session, failing, scope="call")
    with pytest.raises(ValueError, match="of the call"):
        await fail_in_a_call(registry)
    assert "while closing" in caplog.text
    assert caplog.messages == ["service_closing_failed service='Session'"]


async def test_a_cancellation_while_closing_closes_the_others_and_goes_on() -> None:
    trail = Trail()
    closing = asyncio.Event()

    async def slow(services: Services) -> AsyncIterator[Mail]:
        await services.get(Clock)
        yield Mail()
        closing.set()
        await asyncio.Event().wait()

    registry = ServiceRegistry()
    registry.register(Clock, trail.around(Clock))
    registry.register(Mail, slow)

    async def work() -> None:
        async with registry.open() as opened, opened.call_scope() as services:
            await services.get(Mail)

    worker = asyncio.create_task(work())
    await closing.wait()
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    assert trail.seen == ["open Clock", "close Clock"]


async def test_a_cancellation_while_closing_goes_before_the_error_of_the_call() -> None:
    closing = asyncio.Event()

    async def slow() -> AsyncIterator[Session]:
        try:
            yield Session()
        finally:
            closing.set()
            await asyncio.Event().wait()

    registry = ServiceRegistry()
    registry.register(Session, slow, scope="call")
    call = asyncio.create_task(fail_in_a_call(registry))
    await closing.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_ready_instance_is_not_closed() -> None:
    class Owned:
        closed = False

        async def __aenter__(self) -> Self:
            raise AssertionError("not ours to enter")

        async def __aexit__(self, *_: object) -> None:
            self.closed = True

    owned = Owned()
    registry = ServiceRegistry()
    registry.register(Owned, owned)
    async with registry.open() as opened, opened.call_scope() as services:
        assert await services.get(Owned) is owned
    assert not owned.closed


async def test_a_service_that_is_a_context_manager_itself_is_entered_and_left() -> None:
    class Client:
        state = "new"

        async def __aenter__(self) -> Self:
            self.state = "open"
            return self

        async def __aexit__(self, *_: object) -> None:
            self.state = "closed"

    registry = ServiceRegistry()
    registry.register(Client, Client)
    async with registry.open() as opened, opened.call_scope() as services:
        client = await services.get(Client)
        assert client.state == "open"
    assert client.state == "closed"


async def test_a_service_that_can_be_awaited_or_entered_is_entered() -> None:
    class Pool:
        entered = False

        def __await__(self) -> Generator[None, None, Self]:
            raise AssertionError("awaited, it would never be closed")

        async def __aenter__(self) -> Self:
            self.entered = True
            return self

        async def __aexit__(self, *_: object) -> None:
            self.entered = False

    registry = ServiceRegistry()
    registry.register(Pool, partial(Pool))
    async with registry.open() as opened, opened.call_scope() as services:
        pool = await services.get(Pool)
        assert pool.entered
    assert not pool.entered


async def test_a_worker_scoped_service_may_not_depend_on_a_call_scoped_one() -> None:
    async def recipe(services: Services) -> Mail:
        await services.get(Session)
        return Mail()

    registry = ServiceRegistry()
    registry.register(Mail, recipe)
    registry.register(Session, Session, scope="call")
    async with registry.open() as opened, opened.call_scope() as services:
        await services.get(Session)
        with pytest.raises(ConfigurationError, match=r"service Mail lives as long as its worker and asks for Session"):
            await services.get(Mail)


async def test_a_missing_recipe_names_the_type_and_what_is_registered() -> None:
    registry = ServiceRegistry()
    registry.register(Clock, Clock)
    registry.register(Mail, Mail)
    async with registry.open() as opened, opened.call_scope() as services:
        with pytest.raises(ServiceMissingError, match=r"No service Session is registered \(registered: Clock, Mail\)"):
            await services.get(Session)


@pytest.mark.parametrize("scope", ["worker", "call"])
async def test_a_recipe_that_failed_is_tried_again_by_the_next_who_asks(scope: Any) -> None:
    attempts = 0

    async def recipe() -> Clock:
        nonlocal attempts
        attempts += 1
        await asyncio.sleep(0)
        if attempts == 1:
            raise OSError("no network yet")
        return Clock()

    registry = ServiceRegistry()
    registry.register(Clock, recipe, scope=scope)
    async with registry.open() as opened, opened.call_scope() as services:
        failed = await asyncio.gather(*(services.get(Clock) for _ in range(3)), return_exceptions=True)
        assert [str(error) for error in failed] == ["no network yet"] * 3
        assert isinstance(await services.get(Clock), Clock)
    assert attempts == 2


@pytest.mark.parametrize("scope", ["worker", "call"])
async def test_what_is_half_made_is_closed_when_its_recipe_fails(scope: Any) -> None:
    trail = Trail()

    async def recipe(services: Services) -> AsyncIterator[Mail]:
        try:
            trail.seen.append("open socket")
            await asyncio.sleep(0)
            raise OSError("refused")
            yield Mail()
        finally:
            trail.seen.append("close socket")

    registry = ServiceRegistry()
    registry.register(Mail, recipe, scope=scope)
    async with registry.open() as opened, opened.call_scope() as services:
        with pytest.raises(OSError, match="refused"):
            await services.get(Mail)
        assert trail.seen == ["open socket", "close socket"]


@pytest.mark.parametrize("scope", ["worker", "call"])
async def test_a_recipe_that_makes_something_else_is_refused_and_closed(scope: Any) -> None:
    trail = Trail()
    registry = ServiceRegistry()
    registry.register(Mail, trail.around(Clock), scope=scope)
    async with registry.open() as opened, opened.call_scope() as services:
        with pytest.raises(ConfigurationError, match="The recipe of the service Mail made a Clock"):
            await services.get(Mail)
        assert trail.seen == ["open Clock", "Clock saw ConfigurationError", "close Clock"]


def test_registering_twice_is_refused() -> None:
    registry = ServiceRegistry()
    registry.register(Clock, Clock)
    with pytest.raises(ConfigurationError, match="Clock is registered twice"):
        registry.register(Clock, Clock)


@pytest.mark.parametrize(
    ("recipe", "told"),
    [
        (7, "is a int: give a function, a class or an instance of Clock"),
        (lambda services, zone: (services, zone), r"takes \(services, zone\)"),
        (partial(lambda *, zone: zone), r"takes \(zone\)"),
    ],
)
def test_what_is_no_recipe_is_refused_when_registered(recipe: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        ServiceRegistry().register(Clock, recipe)


def test_a_class_that_wants_something_else_than_services_is_refused_when_registered() -> None:
    class Client:
        def __init__(self, url: str) -> None: ...

    client: Any = Client  # the type checker refuses it too
    with pytest.raises(ConfigurationError, match=r"takes \(url: str\): it may take nothing, or the Services"):
        ServiceRegistry().register(Client, client)


def test_an_unknown_scope_is_refused() -> None:
    scope: Any = "request"
    with pytest.raises(ConfigurationError, match="scope 'request': use 'worker' or 'call'"):
        ServiceRegistry().register(Clock, Clock, scope=scope)


async def test_a_protocol_can_be_registered() -> None:
    class Now(Protocol):
        def now(self) -> float: ...

    class Fixed:
        def now(self) -> float:
            return 7.0

    registry = ServiceRegistry()
    registry.register(Now, Fixed())  # type: ignore[type-abstract]  # mypy has no type for abstract types
    async with registry.open() as opened, opened.call_scope() as services:
        assert (await services.get(Now)).now() == 7.0  # type: ignore[type-abstract]  # the same


@pytest.mark.parametrize("scope", ["worker", "call"])
@pytest.mark.parametrize("together", [False, True])
async def test_services_that_ask_for_each_other_are_an_error_and_no_deadlock(scope: Any, together: bool) -> None:
    async def clock(services: Services) -> Clock:
        await asyncio.sleep(0)
        await services.get(Mail)
        return Clock()

    async def mail(services: Services) -> Mail:
        await asyncio.sleep(0)
        await services.get(Clock)
        return Mail()

    registry = ServiceRegistry()
    registry.register(Clock, clock, scope=scope)
    registry.register(Mail, mail, scope=scope)
    async with registry.open() as opened, opened.call_scope() as services, asyncio.timeout(5):
        asked = [services.get(Clock), services.get(Mail)] if together else [services.get(Clock)]
        for error in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(error, ConfigurationError)
            assert "ask for each other in a circle" in str(error)


async def test_a_service_may_ask_later_for_one_that_was_made_from_it() -> None:
    proceed = asyncio.Event()

    class Hub:
        def __init__(self, services: Services) -> None:
            self.services = services

    async def hub(services: Services) -> Hub:
        await asyncio.sleep(0)
        return Hub(services)

    async def mail(services: Services) -> Mail:
        await services.get(Hub)
        await proceed.wait()
        return Mail()

    registry = ServiceRegistry()
    registry.register(Hub, hub)
    registry.register(Mail, mail)
    async with registry.open() as opened, opened.call_scope() as services, asyncio.timeout(5):
        opening = asyncio.create_task(services.get(Mail))
        later = asyncio.create_task((await services.get(Hub)).services.get(Mail))
        await asyncio.sleep(0)
        proceed.set()
        assert await later is await opening


async def test_a_recipe_may_ask_for_several_services_at_once() -> None:
    async def recipe(services: Services) -> Session:
        clock, again, mail = await asyncio.gather(services.get(Clock), services.get(Clock), services.get(Mail))
        assert clock is again
        assert isinstance(mail, Mail)
        return Session()

    async def mail(services: Services) -> Mail:
        await services.get(Clock)
        return Mail()

    registry = ServiceRegistry()
    registry.register(Clock, awaited)
    registry.register(Mail, mail)
    registry.register(Session, recipe)
    async with registry.open() as opened, opened.call_scope() as services, asyncio.timeout(5):
        assert isinstance(await services.get(Session), Session)


async def test_cancelling_the_call_that_asked_first_does_not_cancel_the_opening_for_others() -> None:
    proceed = asyncio.Event()
    built = 0

    async def recipe() -> Clock:
        nonlocal built
        built += 1
        await proceed.wait()
        return Clock()

    registry = ServiceRegistry()
    registry.register(Clock, recipe)
    async with registry.open() as opened, opened.call_scope() as services:
        first, second = asyncio.create_task(services.get(Clock)), asyncio.create_task(services.get(Clock))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        proceed.set()
        assert isinstance(await second, Clock)
    assert first.cancelled()
    assert built == 1


async def test_a_part_of_a_call_opens_what_another_part_gave_up() -> None:
    built = 0
    proceed = asyncio.Event()

    async def recipe() -> Clock:
        nonlocal built
        built += 1
        await proceed.wait()
        return Clock()

    registry = ServiceRegistry()
    registry.register(Clock, recipe, scope="call")
    async with registry.open() as opened, opened.call_scope() as services:
        first, second = asyncio.create_task(services.get(Clock)), asyncio.create_task(services.get(Clock))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        proceed.set()
        assert isinstance(await second, Clock)
    assert built == 2


request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="none")


async def test_a_worker_scoped_service_does_not_see_the_context_variables_of_who_asked_first() -> None:
    seen: list[str] = []

    async def recipe() -> Clock:
        seen.append(request_id.get())
        return Clock()

    registry = ServiceRegistry()
    registry.register(Clock, recipe)
    async with registry.open() as opened, opened.call_scope() as services:
        request_id.set("of one call")
        await services.get(Clock)
    assert seen == ["none"]


@pytest.mark.parametrize("fails", [True, False])
async def test_an_opening_that_nobody_waits_for_any_more_leaves_a_line_in_the_log_where_it_failed(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    gate, errors = asyncio.Event(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: errors.append(told))

    async def recipe() -> Clock:
        await gate.wait()
        if fails:
            raise ConnectionError("too late")
        return Clock()

    registry = ServiceRegistry()
    registry.register(Clock, recipe)
    async with registry.open() as opened, opened.call_scope() as services:
        asked = asyncio.create_task(services.get(Clock))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        if fails:
            gate.set()
            await eventually(lambda: caplog.records)
    del asked, services, opened
    gc.collect()
    await asyncio.sleep(0)
    assert errors == []
    assert [record.getMessage() for record in caplog.records] == ["opening_failed what='service Clock'"] * fails


async def test_a_worker_scoped_service_sees_the_context_variables_it_is_opened_with() -> None:
    seen: list[str] = []
    request_id.set("of the worker")
    variables = contextvars.copy_context()
    request_id.set("of one call")

    async def recipe() -> Clock:
        seen.append(request_id.get())
        return Clock()

    registry = ServiceRegistry()
    registry.register(Clock, recipe)
    async with registry.open(variables) as opened, opened.call_scope() as services:
        await services.get(Clock)
    assert seen == ["of the worker"]


async def test_an_action_sees_the_context_variables_that_a_call_scoped_service_sets() -> None:
    async def recipe() -> AsyncIterator[Clock]:
        token = request_id.set("set by the service")
        yield Clock()
        request_id.reset(token)

    registry = ServiceRegistry()
    registry.register(Clock, recipe, scope="call")
    async with registry.open() as opened:
        async with opened.call_scope() as services:
            await services.get(Clock)
            assert request_id.get() == "set by the service"
        assert request_id.get() == "none"


async def test_a_worker_scoped_service_may_hold_a_task_group_open() -> None:
    """Task groups must be entered and left by one task, whichever call asks and whoever closes."""
    ended = asyncio.Event()

    async def recipe() -> AsyncIterator[Clock]:
        async def serve() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            server = group.create_task(serve())
            yield Clock()
            server.cancel()

    registry = ServiceRegistry()
    registry.register(Clock, recipe)
    async with registry.open() as opened, opened.call_scope() as services:
        await asyncio.create_task(services.get(Clock))
    assert ended.is_set()


async def test_closing_gives_up_what_is_still_opening() -> None:
    trail = Trail()

    async def stuck() -> AsyncIterator[Clock]:
        try:
            await asyncio.Event().wait()
            yield Clock()
        finally:
            trail.seen.append("gave up")

    registry = ServiceRegistry()
    registry.register(Clock, stuck)
    async with registry.open() as opened, opened.call_scope() as services:
        begun = asyncio.create_task(services.get(Clock))
        await asyncio.sleep(0.01)
        late = asyncio.create_task(services.get(Clock))
    for asked in (begun, late):
        with pytest.raises(ServicesClosedError):
            await asked
    assert trail.seen == ["gave up"]


async def test_closing_gives_up_what_has_not_begun_to_open() -> None:
    registry = ServiceRegistry()
    registry.register(Clock, Clock)
    async with registry.open() as opened, opened.call_scope() as services:
        asked = asyncio.create_task(services.get(Clock))
        await asyncio.sleep(0)  # asked, and the task of the service has not had its turn
    with pytest.raises(ServicesClosedError):
        await asked


@pytest.mark.parametrize("scope", ["worker", "call"])
async def test_asking_after_the_end_is_an_error(scope: Any) -> None:
    registry = ServiceRegistry()
    registry.register(Clock, Clock, scope=scope)
    async with registry.open() as opened, opened.call_scope() as services:
        await services.get(Clock)
    with pytest.raises(ServicesClosedError, match="Clock was asked for after its call or its worker ended"):
        await services.get(Clock)


async def test_a_service_whose_call_ended_while_it_opened_is_closed_at_once() -> None:
    trail = Trail()
    proceed = asyncio.Event()

    async def slow() -> AsyncIterator[Clock]:
        await proceed.wait()
        yield Clock()
        trail.seen.append("closed")

    registry = ServiceRegistry()
    registry.register(Clock, slow, scope="call")
    async with registry.open() as opened:
        async with opened.call_scope() as services:
            stray = asyncio.create_task(services.get(Clock))
            await asyncio.sleep(0)
        proceed.set()
        with pytest.raises(ServicesClosedError):
            await stray
    assert trail.seen == ["closed"]


async def test_one_registry_can_be_opened_again_with_new_instances() -> None:
    registry = ServiceRegistry()
    registry.register(Clock, managed)
    seen = []
    for _ in range(2):
        async with registry.open() as opened, opened.call_scope() as services:
            seen.append(await services.get(Clock))
    assert seen[0] is not seen[1]


async def test_services_of_ready_instances_take_fakes() -> None:
    class FakeMail:
        pass

    fake: Any = FakeMail()
    services = Services.of({Mail: fake})
    assert await services.get(Mail) is fake
    with pytest.raises(ServiceMissingError, match=r"No service Clock is registered \(registered: Mail\)"):
        await services.get(Clock)


def test_services_left_open_are_closed_when_the_loop_ends() -> None:
    trail = Trail()
    registry = ServiceRegistry()
    registry.register(Clock, trail.around(Clock))

    async def main() -> None:
        async with registry.open().call_scope() as services:
            await services.get(Clock)

    asyncio.run(main())
    assert trail.seen[-1] == "close Clock"


def test_every_error_of_services_is_one_of_the_package() -> None:
    assert issubclass(ServicesClosedError, GrundlagError)


def test_the_module_loads_no_database_library() -> None:
    program = (
        "import sys, grundlag_bus.providers.services; "
        "print([name for name in ('sqlalchemy', 'alembic', 'dishka') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
