# task: Check the sign-up data from the form and return the errors per field.
# inputs: {"form": {"name": " ", "email": "jane.example.com", "age": "17", "start": "2026-02-30"}}
# expects: {"valid": false, "errors": {"name": "is empty", "email": "is no e-mail address", "age": "must be at least 18", "start": "is no date"}}
import re
from datetime import date
from typing import Any


def validate(data: dict[str, Any]) -> dict[str, str]:
    errors: dict[str, str] = {}
    if not data.get("name", "").strip():
        errors["name"] = "is empty"
    if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[a-z]{2,}", data.get("email", ""), flags=re.IGNORECASE):
        errors["email"] = "is no e-mail address"
    try:
        age = int(data["age"])
    except (KeyError, ValueError):
        errors["age"] = "is no number"
    else:
        if age < 18:
            errors["age"] = "must be at least 18"
    try:
        date.fromisoformat(data["start"])
    except (KeyError, ValueError):
        errors["start"] = "is no date"
    return errors


errors = validate(form)
{"valid": not errors, "errors": errors}
