"""What torch's own FLOP counter says of a program. It is silent where it knows no formula."""

from __future__ import annotations

from collections.abc import Callable

from torch.utils.flop_counter import FlopCounterMode

from properties.instruments.kernels import import_kernels


def counted_by_torch(program: Callable[[], object]) -> int:
    """FLOPs that ``FlopCounterMode`` counts while ``program`` runs."""
    import_kernels()
    with FlopCounterMode(display=False) as mode:
        program()
    return int(mode.get_total_flops())
