"""The oracles with one number, operator, comparison or sign changed at a time, and what notices."""
