"""Scripts that call tools: what is told to their author, what is checked, and where they run."""

from grundlag_bus.sandbox.script.asking import interrupt_in
from grundlag_bus.sandbox.script.limits import Limits
from grundlag_bus.sandbox.script.pool import EnginePool
from grundlag_bus.sandbox.script.results import ScriptCall, ScriptResult
from grundlag_bus.sandbox.script.sandbox import Sandbox

__all__ = ["EnginePool", "Limits", "Sandbox", "ScriptCall", "ScriptResult", "interrupt_in"]
