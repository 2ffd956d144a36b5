"""Worlds in which claims are false: each a context manager that changes torch, NumPy, a library or the environment."""
