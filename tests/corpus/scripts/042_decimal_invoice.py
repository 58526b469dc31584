# task: Compute the invoice: net, 19% VAT and gross with correct rounding.
# expects: {"net": "347.93", "vat": "66.11", "gross": "414.04", "lines": ["3 x 19.99 = 59.97", "1 x 250.00 = 250.00", "12 x 3.1633 = 37.96"]}
from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")
VAT = Decimal("0.19")
items = [(3, "19.99"), (1, "250.00"), (12, "3.1633")]


def money(value: Decimal) -> Decimal:
    return value.quantize(CENT, rounding=ROUND_HALF_UP)


lines = []
net = Decimal("0")
for quantity, price in items:
    amount = money(quantity * Decimal(price))
    net += amount
    lines.append(f"{quantity} x {price} = {amount}")

vat = money(net * VAT)
{"net": str(net), "vat": str(vat), "gross": str(net + vat), "lines": lines}
