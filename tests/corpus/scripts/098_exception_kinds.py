# task: Try several wrong operations and tell me which error each one gives.
# expects: {"division": "ZeroDivisionError", "key": "KeyError", "index": "IndexError", "number": "ValueError", "json": "JSONDecodeError", "attribute": "AttributeError", "assert": "AssertionError"}
import json
from typing import Any, Callable

nothing: Any = None


def failing_assert() -> None:
    assert 1 + 1 == 3, "arithmetic still works"


attempts: dict[str, Callable[[], Any]] = {
    "division": lambda: 1 / 0,
    "key": lambda: {"a": 1}["b"],
    "index": lambda: [1, 2][5],
    "number": lambda: int("twelve"),
    "json": lambda: json.loads("{broken"),
    "attribute": lambda: nothing.title,
    "assert": failing_assert,
}

kinds: dict[str, str] = {}
for name, attempt in attempts.items():
    try:
        attempt()
    except Exception as error:
        kinds[name] = type(error).__name__
        print(f"{name}: {type(error).__name__}: {error}")

kinds
