# task: Give me a neat text table of the three prices with a total line.
# expects: "Item       |    Price\n-----------+---------\nCoffee     |     3.20\nSandwich   |    11.95\nConsulting | 1,250.00\n-----------+---------\nTotal      | 1,265.15"
rows = [("Coffee", 3.2), ("Sandwich", 11.95), ("Consulting", 1250.0)]

width = max(len(name) for name, _ in rows)
total = sum(price for _, price in rows)
amount_width = len(f"{total:,.2f}")

rule = f"{'-' * (width + 1)}+{'-' * (amount_width + 1)}"
lines = [f"{'Item':<{width}} | {'Price':>{amount_width}}", rule]
lines += [f"{name:<{width}} | {price:>{amount_width},.2f}" for name, price in rows]
lines += [rule, f"{'Total':<{width}} | {total:>{amount_width},.2f}"]

table = "\n".join(lines)
print(table)
table
