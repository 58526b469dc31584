# task: Model the tasks as records, sort them by priority and deadline, and return the open ones.
# expects: [{"name": "Taxes", "priority": 1, "due": "2026-09-30", "done": false}, {"name": "Slides", "priority": 2, "due": "2026-09-18", "done": false}]
from dataclasses import asdict, dataclass


@dataclass
class Task:
    name: str
    priority: int
    due: str
    done: bool = False


tasks = [
    Task("Slides", 2, "2026-09-18"),
    Task("Call mum", 3, "2026-09-14", done=True),
    Task(name="Taxes", priority=1, due="2026-09-30"),
]

open_tasks = sorted((t for t in tasks if not t.done), key=lambda t: (t.priority, t.due))
[asdict(t) for t in open_tasks]
