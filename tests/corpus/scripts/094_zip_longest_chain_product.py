# task: Combine sizes and colours into all variants, pair them with the stock list (missing stock is 0) and list the first four.
# expects: {"variants": ["S-red: 3", "S-blue: 1", "M-red: 0", "M-blue: 0"], "flat": [1, 2, 3, 4]}
from itertools import chain, product, zip_longest

variants = ["-".join(v) for v in product(["S", "M"], ["red", "blue"])]
stock = [3, 1]
labelled = [f"{variant}: {count}" for variant, count in zip_longest(variants, stock, fillvalue=0)]
{"variants": labelled[:4], "flat": list(chain.from_iterable([[1, 2], [3], [4]]))}
