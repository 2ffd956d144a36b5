"""Several ways of knowing one number, and what to say where they differ."""

from __future__ import annotations

from collections import Counter


def assert_agree(**witnesses: object) -> None:
    """Raise AssertionError unless all witnesses say the same, naming the one that stands alone if one does."""
    said = {name: str(value) for name, value in witnesses.items()}
    support = Counter(said.values())
    if len(support) < 2:
        return
    told = ", ".join(f"{name} {value}" for name, value in said.items())
    most, votes = support.most_common(1)[0]
    alone = [name for name, value in said.items() if value != most]
    if votes > 1 and len(alone) == 1:
        raise AssertionError(f"{told}: {alone[0]} stands alone")
    raise AssertionError(f"{told}: they differ")
