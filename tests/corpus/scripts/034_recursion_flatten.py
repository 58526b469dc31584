# task: Echo a deeply nested list, flatten it recursively and add up all numbers.
# expects: {"flat": [1, 2, 3, 4, 5, 6], "sum": 21, "depth": 4}
nested = [1, [2, [3, [4]], 5], 6]
value = (await demoEcho(value=nested))["value"]


def flatten(item):
    if isinstance(item, list):
        return [x for sub in item for x in flatten(sub)]
    return [item]


def depth(item) -> int:
    if not isinstance(item, list):
        return 0
    return 1 + max((depth(sub) for sub in item), default=0)


flat = flatten(value)
{"flat": flat, "sum": sum(flat), "depth": depth(value)}
