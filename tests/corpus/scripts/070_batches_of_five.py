# task: Echo 23 items, but no more than five calls at a time, and check the order.
# expects: {"batches": 5, "inOrder": true, "sum": 253}
import asyncio
from itertools import islice

items = list(range(23))


async def echo(n: int) -> int:
    return (await demoEcho(value=n))["value"]


def chunks(seq: list[int], size: int) -> list[list[int]]:
    it = iter(seq)
    out: list[list[int]] = []
    while chunk := list(islice(it, size)):
        out.append(chunk)
    return out


results: list[int] = []
batches = chunks(items, 5)
for batch in batches:
    results.extend(await asyncio.gather(*map(echo, batch)))

{"batches": len(batches), "inOrder": results == items, "sum": sum(results)}
