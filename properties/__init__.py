"""How a claim is checked and shown: the claim layer, strategies, instruments, mutants and the report."""
