# task: Interpret my command list ("add 3 4", "echo hello world", "countdown 2", nonsense) with the tools.
# expects: [{"op": "add", "result": 7}, {"op": "echo", "result": "hello world"}, {"op": "countdown", "result": 2}, {"op": "unknown", "result": "jump high"}]
commands = ["add 3 4", "echo hello world", "countdown 2", "jump high"]


async def run(command: str) -> dict:
    match command.split():
        case ["add", a, b]:
            return {"op": "add", "result": (await demoAdd(a=int(a), b=int(b)))["sum"]}
        case ["echo", *words]:
            return {"op": "echo", "result": (await demoEcho(value=" ".join(words)))["value"]}
        case ["countdown", n] if n.isdigit():
            steps = (await demoCountdown(start=int(n)))["steps"]
            return {"op": "countdown", "result": max(steps)}
        case _:
            return {"op": "unknown", "result": command}


[await run(c) for c in commands]
