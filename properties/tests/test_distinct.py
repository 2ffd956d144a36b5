"""Cases are told apart by value, and never by identity."""

from __future__ import annotations

import functools
import math
import struct
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction

import numpy as np
import pytest
import torch

from properties.distinct import IdentityError, fingerprint
from properties.strategies.description import Description


class Colour(Enum):
    RED = 1


class Number(IntEnum):
    ONE = 1


@dataclass(frozen=True)
class Pair:
    left: object
    right: object = 0


@dataclass(frozen=True)
class OtherPair:
    left: object
    right: object = 0


@dataclass(frozen=True)
class Draw(Description):
    size: int
    seed: int


@dataclass
class Mutable:
    left: int


@dataclass(frozen=True, eq=False)
class ByIdentity:
    left: int


@dataclass(frozen=True)
class Nothing:
    pass


def key(value: object) -> object:
    return fingerprint({"value": value}, seeds_count=False)


PAYLOAD = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
DIFFERENT = [
    (0.0, -0.0),
    (1, True),
    (0, False),
    (1, 1.0),
    (1, "1"),
    (1, Number.ONE),
    (1.0, np.float64(1.0)),
    (np.float32(0.0), np.float32(-0.0)),
    (np.float32(1), np.float64(1)),
    (1, np.int64(1)),
    (0j, -0j),
    ((1, 2), [1, 2]),
    ((1,), (True,)),
    ((0.0,), (-0.0,)),
    ({1}, frozenset({1})),
    (None, "None"),
    (b"1", "1"),
    (math.nan, PAYLOAD),
    (Fraction(1), 1),
    (Decimal("0.0"), Decimal("-0.0")),
    (torch.float16, torch.bfloat16),
    (torch.device("cpu"), torch.device("meta")),
    (slice(0, 2), slice(0, 2, 1)),
    (Pair(1), OtherPair(1)),
    (Pair(0.0), Pair(-0.0)),
    (Pair(Pair(True)), Pair(Pair(1))),
    ({"a": 1}, {"a": True}),
    (torch.add, torch.mul),
    (int, bool),
    (struct.pack("<d", 1.0), 1.0),
]


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_values_that_differ_are_two_cases(left: object, right: object) -> None:
    assert key(left) != key(right)


SAME = [
    (math.nan, float("nan")),
    (np.float32("nan"), np.float32("nan")),
    (Pair(1, (2, "x")), Pair(1, (2, "x"))),
    (slice(1, 2), slice(1, 2)),
    (torch.Size([2, 3]), torch.Size([2, 3])),
    ({3, 1, 2}, {1, 2, 3}),
    (Colour.RED, Colour.RED),
    (Nothing(), Nothing()),
    (math.inf, math.inf),
]


@pytest.mark.parametrize(("left", "right"), SAME)
def test_equal_values_are_one_case(left: object, right: object) -> None:
    assert key(left) == key(right)
    assert len({key(left), key(right)}) == 1


def fresh() -> object:
    return lambda: None


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(2),
        np.zeros(2),
        object(),
        Mutable(1),
        ByIdentity(1),
        Pair(torch.zeros(2)),
        (1, [torch.zeros(1)]),
        {"a": object()},
        fresh(),
        torch.zeros(2).sum,
        functools.partial(int),
        iter([]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_only_identity_tells_apart_is_refused(value: object) -> None:
    with pytest.raises(IdentityError, match="frozen description"):
        key(value)


def test_seeds_make_no_case_distinct_unless_randomness_is_the_claim() -> None:
    first, second = {"n": 1, "seed": 2, "draw": Draw(3, 4)}, {"n": 1, "seed": 9, "draw": Draw(3, 9)}
    assert fingerprint(first, seeds_count=False) == fingerprint(second, seeds_count=False)
    assert fingerprint(first, seeds_count=True) != fingerprint(second, seeds_count=True)
    assert fingerprint(first, seeds_count=False) != fingerprint({**first, "draw": Draw(5, 4)}, seeds_count=False)
