# task: Wait three short times side by side and tell me whether that was faster than one after the other.
# expects: {"all": 3, "enough": true}
import asyncio
import time

started = time.perf_counter()
naps = await asyncio.gather(demoSleep(0.05), demoSleep(0.05), demoSleep(0.05))
elapsed = time.perf_counter() - started
print(f"elapsed {elapsed:.3f} s, slept {sum(n['slept'] for n in naps):.3f} s in total")

{"all": len(naps), "enough": all(n["slept"] > 0 for n in naps)}
