# task: Make two independent counters with closures and show that they do not affect each other.
# expects: {"a": [1, 2, 3], "b": [10, 20]}
from typing import Callable


def make_counter(step: int = 1) -> Callable[[], int]:
    count = 0

    def increment() -> int:
        nonlocal count
        count += step
        return count

    return increment


a = make_counter()
b = make_counter(step=10)
{"a": [a(), a(), a()], "b": [b(), b()]}
