"""Call a provider's actions as tools: in this process or over RabbitMQ.

What stands in `__all__` is the public API, and nothing else is. Each name is loaded when it is first used, so that
importing the package costs next to nothing.
"""

from importlib import import_module
from typing import Any

from grundlag_bus._version import __version__

# The same names, with their types, stand in `__init__.pyi`.
_PLACES = {
    "adapters": "Bus BusCaller EventListener Submission connect",
    "adapters.http": "HttpBus HttpCaller HttpRuns",
    "adapters.pydantic_ai": "PydanticAIModel",
    "adapters.typed": "TypedClient",
    "agent": (
        "AgentEvent AgentRun AgentTools AnswerRefused InterruptRaised Message Model ModelPart ModelReply ModelRequest "
        "PendingInterrupt Prompt Rejection Replied ReplyEnd ReplyEnded Returned RunEnded RunEvents RunResult "
        "ScriptedModel Steps Strategy TextDelta ToolCall ToolDescription ToolEnded ToolProgress ToolResult ToolRuntime "
        "ToolStarted Transcript TurnEnded Usage call_until_answered create_agent_session"
    ),
    "errors": (
        "ActionFailed ActionInputValidationError ActionOutputValidationError ActionUnknownError AnswerConflictError "
        "AnswerInvalidError AttemptsExhaustedError BusUnreachableError CallCancelledError CallError CallIdReusedError "
        "ConfigurationError DatabaseError DeadlineExceededError Defer EventInvalidError EventNotSentError "
        "ForbiddenError GrundlagError InternalError InterruptExpiredError InterruptUnknownError Issue LeaseLostError "
        "ModelError NestedInterruptError NotJsonError OutcomeUnknownError OverloadedError PayloadTooLargeError "
        "ProviderUnavailableError RunStateError RunUnknownError ScriptCancelledError ScriptError ScriptFailedError "
        "ScriptInvalidError ScriptLimitError ScriptReplayError ScriptValueError ServiceMissingError "
        "StateInvalidError StoreAwayError ToolInputValidationError ToolInterrupt ToolOutputValidationError "
        "TopologyMismatchError TranscriptError TransportClosedError UnauthenticatedError"
    ),
    "durable": "Runs",
    "gateway.access": "Authenticator",
    "gateway.allowing": "AllowLists",
    "gateway.host": "create_app",
    "gateway.limits": "GatewayLimits",
    "gateway.signed": "JwtTokens",
    "gateway.tokens": "StaticTokens",
    "providers.action": "Action define_action",
    "providers.as_tool": "to_tool",
    "providers.context": "ActionContext ActionResumption",
    "providers.database": "Database DatabaseService",
    "providers.disposition": "Retry",
    "providers.local": "LocalCaller",
    "providers.provider": "Entity Event Provider",
    "providers.registry": "ProviderRegistry",
    "providers.seal": "SealKeys",
    "providers.services": "ServiceRegistry Services",
    "sandbox.script": "EnginePool Limits Sandbox ScriptCall ScriptResult",
    "schema.envelope": "Call Completed Failed Interrupted Reply Request Response Resumption",
    "schema.event": "EmittedEvent",
    "schema.items": "Item",
    "schema.manifest": "Manifest",
    "schema.names": "allocate_action_names",
    "schema.progress": "Progress",
    "schema.run": "OpenInterrupt Run RunEntry",
    "schema.trace": "Trace",
    "store.store": "Store",
    "telemetry": (
        "CallBuried CallEnded CallSentOn CallStarted EnvelopeRefused Hook LedgerAnswered LedgerAway "
        "LedgerNoted LoopBlocked LoopTurned ReplyLate Report"
    ),
    "telemetry.prometheus": "PrometheusHook",
    "tools": (
        "Caller ItemStore Journal MemoryJournal Outcome Tool ToolContext ToolItems ToolResumption define_tool "
        "gather_outcomes to_tools"
    ),
    "transport": "MemoryTransport Transport",
    "transport.rabbitmq": "Address RabbitTransport",
    "workers": "Worker",
    "workers.ledger": "Ledger",
    "workers.status": "WorkerStatus",
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names.split()}

__all__ = [  # noqa: PLE0604  the names of the table above
    "__version__",
    *sorted(_PLACE_OF),
]


def __getattr__(name: str) -> Any:
    place = _PLACE_OF.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{place}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
