"""The base of everything here that sees operators at torch's dispatcher."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode under which nothing is compiled.

    torch would shield its calls from the compiler, which imports the compiler, for a second, and then takes longer
    than most calls do.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
