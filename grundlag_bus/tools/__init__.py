"""Tools: what agents and scripts call. They hold nothing of a server, wherever their actions run."""

from grundlag_bus.tools.caller import Caller
from grundlag_bus.tools.context import ItemStore, Logger, ToolContext, ToolItems, ToolResumption
from grundlag_bus.tools.joining import JoiningCaller
from grundlag_bus.tools.journal import Journal, MemoryJournal
from grundlag_bus.tools.outcomes import Outcome, gather_outcomes
from grundlag_bus.tools.remote import RemoteAction, default_timeout, to_tools
from grundlag_bus.tools.tool import Tool, define_tool

__all__ = [
    "Caller",
    "ItemStore",
    "JoiningCaller",
    "Journal",
    "Logger",
    "MemoryJournal",
    "Outcome",
    "RemoteAction",
    "Tool",
    "ToolContext",
    "ToolItems",
    "ToolResumption",
    "default_timeout",
    "define_tool",
    "gather_outcomes",
    "to_tools",
]
