# task: Give me the running sums of 5, -2, 7, 10, -4 using the add tool, and compare with itertools.accumulate.
# expects: {"running": [5, 3, 10, 20, 16], "same": true, "max": 20}
from itertools import accumulate

values = [5, -2, 7, 10, -4]
running: list[int] = []
for value in values:
    previous = running[-1] if running else 0
    result = await demoAdd(a=previous, b=value)
    running.append(result["sum"])

{"running": running, "same": running == list(accumulate(values)), "max": max(running)}
