# task: How does 1000 euros grow at 3.5% over five years? A table as text, and the final amount.
# expects: {"final": "1187.69", "rows": ["2027: 1,035.00", "2028: 1,071.22", "2029: 1,108.72", "2030: 1,147.52", "2031: 1,187.69"]}
from decimal import Decimal, getcontext

getcontext().prec = 28
amount = Decimal("1000")
rate = Decimal("0.035")
rows = []
for year in range(2027, 2032):
    amount *= 1 + rate
    rows.append(f"{year}: {amount:,.2f}")
{"final": str(amount.quantize(Decimal("0.01"))), "rows": rows}
