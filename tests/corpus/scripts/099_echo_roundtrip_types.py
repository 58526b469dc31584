# task: Check which JSON types survive the echo tool unchanged.
# expects: {"text": true, "integer": true, "float": true, "true": true, "null": true, "list": true, "object": true, "empty": true, "unicode": true}
import asyncio

samples = {
    "text": "hello",
    "integer": 2**40,
    "float": 0.1,
    "true": True,
    "null": None,
    "list": [1, "two", [3.0]],
    "object": {"a": {"b": {"c": []}}},
    "empty": {},
    "unicode": "日本語 🎉 \u00e9",
}


async def survives(value: object) -> bool:
    result = await demoEcho(value=value)
    return result["value"] == value and type(result["value"]) is type(value)


checks = await asyncio.gather(*[survives(v) for v in samples.values()])
dict(zip(samples.keys(), checks))
