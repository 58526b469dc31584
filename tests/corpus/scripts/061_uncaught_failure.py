# task: Call the failing tool with code out_of_stock and let the error through.
# expects-failure: out_of_stock
print("about to fail")
await demoFail(code="out_of_stock", message="Nothing left in the warehouse")
