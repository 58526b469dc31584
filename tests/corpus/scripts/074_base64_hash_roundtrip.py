# task: Encode the text as base64, send it through echo, decode it again and give me its SHA-256 beginning.
# expects: {"encoded": "R3LDvMOfZSBhdXMgS8O2bG4=", "decoded": "Grüße aus Köln", "same": true, "sha": true}
import base64
import hashlib

text = "Grüße aus Köln"
encoded = base64.b64encode(text.encode("utf-8")).decode("ascii")
back = (await demoEcho(value=encoded))["value"]
decoded = base64.b64decode(back).decode("utf-8")

digest = hashlib.sha256(decoded.encode()).hexdigest()
print("sha256:", digest[:12])
{"encoded": encoded, "decoded": decoded, "same": decoded == text, "sha": len(digest) == 64}
