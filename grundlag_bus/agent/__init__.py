"""An agent: a model that works with tools. It holds nothing but tools, wherever their actions run.

The data's way, of one prompt:

    prompt                    AgentRun.send() writes it into the Transcript, which is all that a run remembers
      -> strategy             the loop; it decides what is next, by looking at the transcript
      -> model request        Steps.ask(): the transcript's messages and what AgentTools.list() describes
      -> model reply          text piece by piece (TextDelta), tool calls, usage; written down when it is whole
      -> AgentTools.execute   Steps.call_tools(): neighbours that are parallel-safe side by side, else in turn
      -> results              written down as each call ends; every failure is a result {ok, summary, data}
      -> transcript           what each call gave follows the reply, in the order of the calls
      -> next request ...
      -> end                  RunEnded: completed, interrupted, failed, cancelled or max_turns

Interrupts and cancellation never go to the model as results of their own accord. An interrupt is written down, its
running neighbours finish, and the run ends as `interrupted`; `answer` writes the answer down, and the strategy starts
anew on the transcript: what has its result is not called again. The transcript keeps of a result what the model was
shown, so that it stays as small as the model's window; what a tool has to hand over as a whole is an item.
"""

from grundlag_bus.agent.events import (
    AgentEvent,
    AnswerRefused,
    InterruptRaised,
    PendingInterrupt,
    Rejection,
    ReplyEnded,
    RunEnded,
    RunResult,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from grundlag_bus.agent.model import (
    Message,
    Model,
    ModelPart,
    ModelReply,
    ModelRequest,
    Prompt,
    Replied,
    ReplyEnd,
    Returned,
    TextDelta,
    ToolCall,
    ToolDescription,
    Usage,
)
from grundlag_bus.agent.results import ToolResult
from grundlag_bus.agent.run import AgentRun
from grundlag_bus.agent.scripted import ScriptedModel
from grundlag_bus.agent.session import create_agent_session
from grundlag_bus.agent.strategy import Steps, Strategy, call_until_answered
from grundlag_bus.agent.stream import RunEvents
from grundlag_bus.agent.tools import AgentTools, ToolRuntime
from grundlag_bus.agent.transcript import Transcript

__all__ = [
    "AgentEvent",
    "AgentRun",
    "AgentTools",
    "AnswerRefused",
    "InterruptRaised",
    "Message",
    "Model",
    "ModelPart",
    "ModelReply",
    "ModelRequest",
    "PendingInterrupt",
    "Prompt",
    "Rejection",
    "Replied",
    "ReplyEnd",
    "ReplyEnded",
    "Returned",
    "RunEnded",
    "RunEvents",
    "RunResult",
    "ScriptedModel",
    "Steps",
    "Strategy",
    "TextDelta",
    "ToolCall",
    "ToolDescription",
    "ToolEnded",
    "ToolProgress",
    "ToolResult",
    "ToolRuntime",
    "ToolStarted",
    "Transcript",
    "TurnEnded",
    "Usage",
    "call_until_answered",
    "create_agent_session",
]
