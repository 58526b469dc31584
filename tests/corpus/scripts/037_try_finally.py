# task: Run three steps of which the second fails; always clean up, and tell me the order of what happened.
# expects: {"log": ["open", "step 1", "failed: step_two_broken: The second step is broken", "close"], "ok": false}
log: list[str] = []


async def work() -> bool:
    log.append("open")
    try:
        await demoEcho("one")
        log.append("step 1")
        await demoFail("step_two_broken", "The second step is broken")
        log.append("step 2")
        return True
    except RuntimeError as e:
        log.append(f"failed: {e}")
        return False
    finally:
        log.append("close")


ok = await work()
{"log": log, "ok": ok}
