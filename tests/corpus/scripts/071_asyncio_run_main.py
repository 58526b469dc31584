# task: Add 20 and 22 and echo the answer as a sentence.
# expects: "The answer is 42."
import asyncio


async def main() -> str:
    answer = await demoAdd(a=20, b=22)
    sentence = f"The answer is {answer['sum']}."
    return (await demoEcho(value=sentence))["value"]


asyncio.run(main())
