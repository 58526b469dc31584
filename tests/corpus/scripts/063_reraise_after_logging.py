# task: Run the failing call; note the failure and pass on anything that is not "busy".
# expects-failure: forbidden
HANDLED = {"busy", "timeout"}


async def guarded(code: str) -> str:
    try:
        await demoFail(code=code, message="The call was turned down")
    except RuntimeError as error:
        name = str(error).split(":")[0]
        print("failure:", name)
        if name in HANDLED:
            return f"ignored {name}"
        raise
    return "fine"


async def main() -> list[str]:
    results = []
    for code in ("busy", "timeout", "forbidden"):
        results.append(await guarded(code))
    return results


await main()
