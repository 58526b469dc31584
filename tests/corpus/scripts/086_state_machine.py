# task: Run the order through its states by the events and report an illegal transition.
# expects: {"final": "shipped", "history": ["new", "paid", "packed", "shipped"], "rejected": ["pay"]}
from typing import Literal

State = Literal["new", "paid", "packed", "shipped"]
TRANSITIONS: dict[tuple[str, str], State] = {
    ("new", "pay"): "paid",
    ("paid", "pack"): "packed",
    ("packed", "ship"): "shipped",
}

state: State = "new"
history: list[State] = [state]
rejected: list[str] = []
for event in ["pay", "pay", "pack", "ship"]:
    try:
        state = TRANSITIONS[state, event]
    except KeyError:
        rejected.append(event)
    else:
        history.append(state)

{"final": state, "history": history, "rejected": rejected}
