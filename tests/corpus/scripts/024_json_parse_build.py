# task: Parse the JSON order list, total it per customer, send the totals through echo and return them as pretty JSON text.
# expects: {"text": "{\n  \"Ada\": 17.5,\n  \"Bob\": 4.0\n}", "customers": ["Ada", "Bob"]}
import json

raw = '[{"customer": "Ada", "amount": 12.5}, {"customer": "Bob", "amount": 4.0}, {"customer": "Ada", "amount": 5}]'
orders = json.loads(raw)

totals: dict[str, float] = {}
for order in orders:
    totals[order["customer"]] = totals.get(order["customer"], 0) + order["amount"]

echoed = await demoEcho(totals)
text = json.dumps(echoed["value"], indent=2, sort_keys=True)
{"text": text, "customers": sorted(echoed["value"])}
