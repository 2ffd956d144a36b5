"""How a claim is checked and shown: the claim layer, strategies, instruments, mutants and the report."""

import os
import sys

# Hypothesis loads whatever plugins it finds installed when it is first imported. One that manages torch's generator too
# would read it after ours has seeded it, and put the seeded state back for good.
os.environ.setdefault("HYPOTHESIS_NO_PLUGINS", "1")
if sys.platform == "darwin":
    # Apple's library for matrices has threads that torch.set_num_threads does not count, and reads this when it starts.
    os.environ.setdefault("VECLIB_MAXIMUM_THREADS", "1")
