"""Sandboxes: places where code that nobody trusts runs."""
