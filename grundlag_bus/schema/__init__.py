"""The wire contract: what crosses the seam, how it is written, checked and described."""
