# task: Send a nested structure through the echo tool and check that it comes back the same.
# expects: {"same": true, "city": "Köln", "tags": 3, "deep": [1, [2, [3, null]]]}
payload = {
    "name": "Größe",
    "address": {"city": "Köln", "zip": "50667"},
    "tags": ["a", "b", "c"],
    "flags": {"active": True, "archived": False, "note": None},
    "numbers": [1, 2.5, -3, 0],
    "deep": [1, [2, [3, None]]],
}

echoed = (await demoEcho(value=payload))["value"]

{
    "same": echoed == payload,
    "city": echoed["address"]["city"],
    "tags": len(echoed["tags"]),
    "deep": echoed["deep"],
}
