"""The checker of annotations that jaxtyping applies to our own tensor-taking functions in `make test`."""

from typing import Any

from beartype import BeartypeConf, FrozenDict, beartype
from hypothesis.strategies import DrawFn

checked = beartype(
    conf=BeartypeConf(
        is_pep484_tower=True,  # an int is a float, as mypy has it
        is_random=False,  # drawing which item of a list to check would use the generator that strategies may not
        hint_overrides=FrozenDict({DrawFn: Any}),  # a protocol of Hypothesis's, which cannot be checked at run time
    )
)
