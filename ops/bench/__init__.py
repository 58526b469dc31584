"""Benchmarks of a call over the bus, beside what people would use instead."""
