"""What a seed means to each library's global generator: the start it picks, or a refusal.

All three are Mersenne Twisters. They differ in which seeds they take and in what becomes of a seed on the way to the
state.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from reference.mersenne_twister import started_by_a_word, started_by_words, words

BLOCK = 16
"""Elements that torch's normal distribution makes at a time on a CPU, once there are so many."""


class SeedRefused(ValueError):
    """A seed that a library does not take; the message says which it takes."""


def torch_start(seed: int) -> int:
    """The word that starts torch's CPU generator: the lowest 32 bits of a seed.

    Taken are -2**63 to 2**64 - 1, a negative one as its two's complement in 64 bits.
    """
    if not -(2**63) <= seed < 2**64:
        raise SeedRefused(f"{seed} is no seed for torch: it takes -2**63 to 2**64 - 1")
    return seed % 2**32


def numpy_start(seed: int) -> int:
    """The word that starts NumPy's global generator: the seed itself, which has to be one."""
    if not 0 <= seed < 2**32:
        raise SeedRefused(f"{seed} is no seed for NumPy's global generator: it takes 0 to 2**32 - 1")
    return seed


def python_start(seed: int) -> tuple[int, ...]:
    """The key that starts Python's generator: the magnitude of a seed in words of 32 bits, the lowest first.

    Any integer is taken, however long. Its sign is lost.
    """
    magnitude = abs(seed)
    length = max(1, -(-magnitude.bit_length() // 32))
    return tuple(magnitude >> 32 * place & 0xFFFFFFFF for place in range(length))


def torch_words(seed: int) -> Iterator[int]:
    """The words that torch's CPU generator gives after a seed; SeedRefused for one that it does not take."""
    return words(started_by_a_word(torch_start(seed)))


def numpy_words(seed: int) -> Iterator[int]:
    """The words that NumPy's global generator gives after a seed; SeedRefused for one that it does not take."""
    return words(started_by_a_word(numpy_start(seed)))


def python_words(seed: int) -> Iterator[int]:
    """The words that Python's generator gives after a seed."""
    return words(started_by_words(python_start(seed)))


def low_bits(source: Iterator[int], count: int, bits: int) -> tuple[int, ...]:
    """The lowest ``bits`` bits of each of the next ``count`` words."""
    return tuple(word & (1 << bits) - 1 for word in islice(source, count))


def float32_uniform(seed: int, count: int) -> list[float]:
    """torch's uniform float32 numbers after a seed: the lowest 24 bits of a word each, over 2**24."""
    return [bits / 2**24 for bits in low_bits(torch_words(seed), count, 24)]


def float64_uniform(seed: int, count: int) -> list[float]:
    """The same in float64: of two words, the first the upper, the lowest 53 bits over 2**53."""
    source = torch_words(seed)
    return [((next(source) << 32 | next(source)) & (1 << 53) - 1) / 2**53 for _ in range(count)]


def numpy_uniform(seed: int, count: int) -> list[float]:
    """NumPy's uniform numbers after a seed, as ``upper_bits`` makes them."""
    return upper_bits(numpy_words(seed), count)


def python_uniform(seed: int, count: int) -> list[float]:
    """Python's uniform numbers after a seed, as ``upper_bits`` makes them."""
    return upper_bits(python_words(seed), count)


def upper_bits(source: Iterator[int], count: int) -> list[float]:
    """Numbers of 53 bits over 2**53: the upper 27 bits of one word, then the upper 26 of the next."""
    return [((next(source) >> 5 << 26) + (next(source) >> 6)) / 2**53 for _ in range(count)]


STREAMS = {"torch": torch_words, "NumPy": numpy_words, "Python": python_words}
"""The words after a seed, by the library that has the generator."""


def numbers(library: str, seed: int, count: int, bits: int) -> tuple[int, ...] | None:
    """The lowest ``bits`` bits of the first ``count`` words after a seed, or None where the library refuses it."""
    try:
        return low_bits(STREAMS[library](seed), count, bits)
    except SeedRefused:
        return None


def keeps_normal_prefix(short: int, long: int) -> bool:
    """Whether torch.randn(short) is the beginning of torch.randn(long), on a CPU and after the same seed.

    Below a block elements are made one pair after another. From a block on, uniform numbers for all are drawn first and
    turned into normal ones block by block; where the last block is not full, the last 16 elements are drawn anew. So a
    prefix is kept where neither tensor has a last block of its own within it. ValueError where ``short`` is the longer.
    """
    if not 0 <= short <= long:
        raise ValueError(f"{short} elements are no beginning of {long}: give the shorter length first")
    if short in (0, long):
        return True
    if long < BLOCK:
        return True
    return short % BLOCK == 0 and short <= long - BLOCK
