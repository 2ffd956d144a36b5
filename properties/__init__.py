"""How a claim is checked and shown: the claim layer, strategies, instruments, mutants and the report."""

import os

# Hypothesis loads whatever plugins it finds installed when it is first imported. One that manages torch's generator too
# would read it after ours has seeded it, and put the seeded state back for good.
os.environ.setdefault("HYPOTHESIS_NO_PLUGINS", "1")
