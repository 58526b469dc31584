"""Scripts that call tools: what is told to their author, what is checked, and where they run."""
