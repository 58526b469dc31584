# task: Apply the discount to a copy of the order and show that the original is unchanged.
# expects: {"original": [10.0, 20.0], "discounted": [9.0, 18.0], "saved": 3.0}
import copy

order = {"id": 1, "lines": [{"sku": "a", "price": 10.0}, {"sku": "b", "price": 20.0}]}


def discount(source: dict, percent: float) -> dict:
    result = copy.deepcopy(source)
    for line in result["lines"]:
        line["price"] = round(line["price"] * (1 - percent / 100), 2)
    return result


discounted = discount(order, 10)
original_prices = [line["price"] for line in order["lines"]]
new_prices = [line["price"] for line in discounted["lines"]]
{
    "original": original_prices,
    "discounted": new_prices,
    "saved": round(sum(original_prices) - sum(new_prices), 2),
}
