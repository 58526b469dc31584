"""Providers: actions with validated input and output, and what they run beside."""
