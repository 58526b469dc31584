"""The same work, done by different means."""
