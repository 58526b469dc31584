"""The page that shows the OpenAPI document: one file, which loads and runs nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files


def _hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _policy(page: str) -> str:
    """Allow the page's own style and script, by their hashes, and requests to its own host."""
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    return (
        f"default-src 'none'; style-src {_hash_of(style)}; script-src {_hash_of(script)}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


PAGE = files("grundlag_bus.gateway").joinpath("page.html").read_text(encoding="utf-8")
POLICY = _policy(PAGE)
