"""The ASGI application: what belongs to one host, and which path leads where."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from grundlag_bus.errors import CallError, ConfigurationError
from grundlag_bus.gateway.access import Access
from grundlag_bus.gateway.action_route import call_action, cancel_action
from grundlag_bus.gateway.allowing import AllowLists
from grundlag_bus.gateway.asking import Asking
from grundlag_bus.gateway.catalogue import Catalogue
from grundlag_bus.gateway.continuing import Continuations
from grundlag_bus.gateway.eval_route import run_script
from grundlag_bus.gateway.event_route import listen
from grundlag_bus.gateway.health_route import show_live, show_ready
from grundlag_bus.gateway.interrupt_route import (
    answer_interrupt,
    edit_interrupt,
    list_interrupts,
    reject_interrupt,
    show_interrupt,
)
from grundlag_bus.gateway.limits import GatewayLimits, Shares
from grundlag_bus.gateway.refusing import Refused, refusal
from grundlag_bus.gateway.run_route import cancel_run, follow_run, list_runs, retry_run, show_run, start_run
from grundlag_bus.gateway.running import RunningCalls
from grundlag_bus.gateway.schema_route import show_manifest, show_openapi, show_page
from grundlag_bus.gateway.scripts import Scripts
from grundlag_bus.logs import get_logger
from grundlag_bus.providers.seal import SealKeys
from grundlag_bus.schema.envelope import Failed, new_call_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from grundlag_bus.adapters import Bus
    from grundlag_bus.durable import Runs
    from grundlag_bus.gateway.access import Authenticator

    Answer = Callable[["Host", Request], Awaitable[Response]]

CANCEL_SECONDS = 35.0
"""How long calls that are cancelled at the end of a drain get: longer than a caller waits for their end."""

_LOGGER = get_logger("grundlag_bus.gateway")


class Host:
    """An ASGI application over a bus, which it opens and closes with its lifespan. Made by `create_app`."""

    def __init__(  # noqa: PLR0913  what a host is made of, all but one keyword-only
        self,
        bus: Bus,
        *,
        auth: Authenticator | None,
        allow: AllowLists | None,
        cors: Sequence[str],
        limits: GatewayLimits,
        keys: SealKeys,
        runs: Runs | None,
    ) -> None:
        self.bus = bus
        self.runs = runs
        self.limits = limits
        self.access = Access(auth)
        self.catalogue = Catalogue(bus, allow)
        self.asking = Asking(self.catalogue, asks_for_tokens=self.access.asks_for_tokens)
        self.shares = Shares(limits)
        self.script_shares = Shares(replace(limits, concurrent=limits.scripts))
        self.calls = RunningCalls(bus.caller, self.shares)
        self.scripts = Scripts(bus.caller, Continuations(keys, limit=limits.body))
        self.closing = asyncio.Event()
        self.manifest_seconds = 1.0
        self._app = Starlette(
            routes=self._routes(),
            middleware=_cors(cors),
            exception_handlers={
                Refused: _refuse,
                CallError: _refuse,
                HTTPException: _unknown,
                ClientDisconnect: _left,
                Exception: _broken,
            },
            lifespan=self._lifespan,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Open the bus and the runs, and close them again. Raises what opening them raises."""
        async with self.bus, nullcontext() if self.runs is None else self.runs:
            yield

    @property
    def draining(self) -> bool:
        return self.closing.is_set()

    async def user_id(self, request: Request) -> str | None:
        """Return on whose behalf a request is made, and count it. Raises CallError, Refused."""
        user_id = await self.access.user_id(request)
        self.shares.spend(user_id)
        return user_id

    async def drain(self, grace: float) -> None:
        """Take no more calls, and return when those that run have ended: after `grace` seconds they are cancelled."""
        self.closing.set()
        if not await self._idle(grace):
            _LOGGER.warning("calls_cancelled", calls=self.calls.in_flight, scripts=self.scripts.in_flight, grace=grace)
            self.scripts.cancel_all()
            self.calls.cancel_all()
            await self._idle(CANCEL_SECONDS)

    async def _idle(self, within: float) -> bool:
        return all(await asyncio.gather(self.calls.idle(within), self.scripts.idle(within)))

    def _routes(self) -> list[Route]:
        action = "/api/actions/{provider_id}/{action_id}"
        return [
            self._route(action, "POST", call_action),
            self._route(action, "DELETE", cancel_action),
            self._route("/api/client/schema", "GET", show_manifest),
            self._route("/api/eval", "POST", run_script),
            self._route("/api/events", "GET", listen),
            *self._run_routes(),
            self._route("/openapi.json", "GET", show_openapi),
            self._route("/docs", "GET", show_page),
            self._route("/live", "GET", show_live),
            self._route("/ready", "GET", show_ready),
        ]

    def _run_routes(self) -> list[Route]:
        runs, run = "/api/runs", "/api/runs/{run_id}"
        interrupts, interrupt = "/api/interrupts", "/api/interrupts/{interrupt_id}"
        return [
            self._route(runs, "GET", list_runs),
            self._route(runs, "POST", start_run),
            self._route(run, "GET", show_run),
            self._route(f"{run}/events", "GET", follow_run),
            self._route(f"{run}/cancel", "POST", cancel_run),
            self._route(f"{run}/retry", "POST", retry_run),
            self._route(interrupts, "GET", list_interrupts),
            self._route(interrupt, "GET", show_interrupt),
            self._route(f"{interrupt}/answer", "POST", answer_interrupt),
            self._route(f"{interrupt}/reject", "POST", reject_interrupt),
            self._route(f"{interrupt}/edit", "POST", edit_interrupt),
        ]

    def _route(self, path: str, method: str, answer: Answer) -> Route:
        async def endpoint(request: Request) -> Response:
            return await answer(self, request)

        return Route(path, endpoint, methods=[method])

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with self.opened():
            yield
            await self.drain(0)


def create_app(  # noqa: PLR0913  the same
    bus: Bus,
    *,
    auth: Authenticator | None = None,
    allow: AllowLists | Mapping[str, Sequence[str]] | None = None,
    cors: Sequence[str] = (),
    limits: GatewayLimits | None = None,
    keys: SealKeys | None = None,
    runs: Runs | None = None,
) -> Host:
    """Make the ASGI application that serves a bus over HTTP.

    bus: not entered yet, its lifespan does that; auth: knows users by their tokens, as `StaticTokens` and `JwtTokens`
    do. Without one, user ids are claims, and only requests to loopback are answered. allow: for each user, and for
    everybody as `*`, patterns `provider.action` of what they may call. cors: origins whose pages may use it; limits:
    of this process; keys: seal what a script that asks needs to go on, to be shared by hosts behind one address (None:
    keys of this process alone); runs: on the same bus and not entered yet either, for `/api/runs` and
    `/api/interrupts`; their store is yours to close. Raises ConfigurationError.
    """
    for origin in cors:
        if origin != "*" and (not origin.startswith(("http://", "https://")) or origin.count("/") != 2):  # noqa: PLR2004  those of //
            raise ConfigurationError(f"{origin!r} is no origin: write scheme://host, as in 'https://app.example.com'.")
    lists = allow if allow is None or isinstance(allow, AllowLists) else AllowLists(allow)
    return Host(
        bus,
        auth=auth,
        allow=lists,
        cors=cors,
        limits=limits or GatewayLimits(),
        keys=keys or SealKeys.generate(),
        runs=runs,
    )


def _cors(origins: Sequence[str]) -> list[Middleware]:
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=[
                *("Authorization", "Content-Type", "Accept", "If-None-Match", "Last-Event-ID"),
                *("Idempotency-Key", "X-Sent-Before", "X-Timeout", "X-User-Id", "traceparent", "tracestate"),
            ],
            expose_headers=["ETag", "Retry-After", "X-Call-Id"],
            max_age=600,
        )
    ]


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused | CallError)  # noqa: S101  for mypy: registered for these
    return refusal(error)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  the same
    failed = Failed("not_found", "There is no such path here: see /docs.")
    if error.status_code == 405:  # noqa: PLR2004  not by this method
        allowed = " or ".join(sorted(_split(error.headers or {}) - {"HEAD"}))
        failed = Failed("method_not_allowed", f"{request.url.path} takes no {request.method}: use {allowed}.")
    return refusal(Refused(error.status_code, failed, error.headers))


def _split(headers: Mapping[str, str]) -> set[str]:
    return {method.strip() for method in headers.get("Allow", "").split(",")}


async def _left(_: Request, __: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it


async def _broken(_: Request, error: Exception) -> Response:
    reference = new_call_id()
    _LOGGER.error("request_failed", reference=reference, exc_info=error)
    details: dict[str, Any] = {"type": type(error).__name__, "reference": reference}
    return refusal(Refused(502, Failed("internal", "The host failed; its log says how.", details)))
