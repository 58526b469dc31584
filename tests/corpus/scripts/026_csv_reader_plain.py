# task: Sum the amounts of this semicolon-separated list per category.
# expects: {"Food": "23.40", "Travel": "119.90"}
import csv
from collections import defaultdict
from decimal import Decimal

lines = [
    "date;category;amount",
    "2026-09-01;Food;12,50",
    "2026-09-02;Travel;119,90",
    '2026-09-03;"Food";"10,90"',
]

rows = list(csv.reader(lines, delimiter=";"))
header, *body = rows
totals: defaultdict[str, Decimal] = defaultdict(Decimal)
for _date, category, amount in body:
    totals[category] += Decimal(amount.replace(",", "."))

{name: f"{value:.2f}" for name, value in sorted(totals.items())}
