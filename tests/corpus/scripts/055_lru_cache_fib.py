# task: The 50th Fibonacci number, and how many digits it has.
# expects: {"fib": 12586269025, "digits": 11}
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


value = fib(50)
{"fib": value, "digits": len(str(value))}
