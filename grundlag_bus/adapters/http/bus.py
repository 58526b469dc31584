"""A bus behind an HTTP host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from grundlag_bus.adapters.bus import Bus
from grundlag_bus.adapters.http.host import read_body
from grundlag_bus.adapters.http.listening import HttpListener
from grundlag_bus.adapters.http.runs import HttpRuns
from grundlag_bus.adapters.later import Later
from grundlag_bus.errors import BusUnreachableError, EnvelopeError, PublishUnsureError, TransportClosedError
from grundlag_bus.schema.manifest import Manifest
from grundlag_bus.tools import JoiningCaller

if TYPE_CHECKING:
    from types import TracebackType

    from grundlag_bus.adapters.http.caller import HttpCaller
    from grundlag_bus.adapters.http.host import HttpHost
    from grundlag_bus.adapters.listening import EventListener
    from grundlag_bus.adapters.submission import Submission
    from grundlag_bus.schema.envelope import Call
    from grundlag_bus.schema.progress import ProgressSink
    from grundlag_bus.tools import ToolContext

LARGEST_MANIFEST = 64 * 1024 * 1024
_NOT_MODIFIED = 304
_OK = 200
_UNAUTHENTICATED = 401
_FORBIDDEN = 403


class HttpBus(Bus):
    """Sends calls to an HTTP host, by a caller that it opens and closes."""

    def __init__(self, caller: HttpCaller) -> None:
        super().__init__()
        self._http_caller = caller
        self.caller = JoiningCaller(caller)
        self._later = Later(self.caller)
        self._known: tuple[str, Manifest] | None = None

    @property
    def runs(self) -> HttpRuns:
        """The durable runs of the host."""
        return HttpRuns(self._http_caller.host)

    async def __aenter__(self) -> Self:
        await self._http_caller.open()
        try:
            await self.manifest()
        except BaseException:
            await self._http_caller.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._later.close()
        await self._stop_listening()
        await self._http_caller.close()

    async def _submit(
        self, call: Call, delay: int, context: ToolContext, on_progress: ProgressSink | None
    ) -> Submission:
        if not self._http_caller.host.is_open:
            raise TransportClosedError("The bus is not open: submit calls inside `async with connect(...) as bus`.")
        return self._later.submit(
            call, delay=delay, items=context.items, on_progress=on_progress, cancel=context.signal
        )

    def _listener(self, pattern: str) -> EventListener:
        return HttpListener(self._http_caller.host, pattern)

    async def _describe(self) -> Manifest:
        host = self._http_caller.host
        headers = {} if self._known is None else {"if-none-match": self._known[0]}
        try:
            async with host.answer("GET", host.address.manifest, headers=headers, quiet=30.0) as response:
                if response.status_code == _NOT_MODIFIED and self._known is not None:
                    return self._known[1]
                body = await read_body(response, limit=LARGEST_MANIFEST)
                if response.status_code != _OK:
                    raise BusUnreachableError(_refused(response.status_code, host))
        except PublishUnsureError as error:
            raise BusUnreachableError(f"The host {host.address} gave no manifest: {error}.") from error
        except EnvelopeError as error:
            raise BusUnreachableError(f"The manifest of {host.address} cannot be read: {error.reason}.") from error
        try:
            manifest = Manifest.decode(body)
        except EnvelopeError as error:
            raise BusUnreachableError(f"What answers at {host.address} is no host: {error.reason}.") from error
        etag = response.headers.get("etag")
        self._known = None if etag is None else (etag, manifest)
        return manifest


def _refused(status: int, host: HttpHost) -> str:
    if status == _UNAUTHENTICATED and not host.has_token:
        return f"The host {host.address} asks who calls: give a token= (on the command line, in GRUNDLAG_TOKEN)."
    if status in (_UNAUTHENTICATED, _FORBIDDEN):
        whom = "this token" if host.has_token else "who calls without a token"
        return f"The host {host.address} does not let {whom} read its manifest (status {status}): give another token=."
    return f"What answers at {host.address} gives no manifest (status {status}): correct the address."
