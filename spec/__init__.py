"""The specification: one module a topic, in the document's order, and nothing but claims."""
