"""What the paper measured, as data, and the tools that run it."""
