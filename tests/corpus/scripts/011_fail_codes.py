# task: Try the failing tool with the codes out_of_stock, not_found and too_late and report code and message of each.
# expects: [{"code": "out_of_stock", "message": "No chairs left"}, {"code": "not_found", "message": "No such order"}, {"code": "too_late", "message": "The deadline was yesterday"}]
cases = {
    "out_of_stock": "No chairs left",
    "not_found": "No such order",
    "too_late": "The deadline was yesterday",
}

report = []
for code, message in cases.items():
    try:
        await demoFail(code=code, message=message)
    except RuntimeError as error:
        got_code, _, got_message = str(error).partition(": ")
        report.append({"code": got_code, "message": got_message})
    else:
        report.append({"code": None, "message": "did not fail"})

report
