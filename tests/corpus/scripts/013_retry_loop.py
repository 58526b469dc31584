# task: Call the failing tool with up to three attempts and a growing pause; tell me how many attempts were made and how it ended.
# expects: {"attempts": 3, "ok": false, "lastError": "busy: Try again later"}
MAX_ATTEMPTS = 3

attempts = 0
last_error = None
ok = False
delay = 0.01

while attempts < MAX_ATTEMPTS:
    attempts += 1
    try:
        await demoFail(code="busy", message="Try again later", retryable=True)
        ok = True
        break
    except RuntimeError as e:
        last_error = str(e)
        print(f"attempt {attempts} failed: {e}")
        await demoSleep(seconds=delay)
        delay *= 2

{"attempts": attempts, "ok": ok, "lastError": last_error}
