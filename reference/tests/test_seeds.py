"""The Mersenne Twister and the meaning of seeds, against NumPy's and Python's own generators."""

import random
from itertools import islice

import numpy as np
import pytest

from reference.mersenne_twister import WORDS, started_by_a_word, started_by_words, words
from reference.seeds import (
    SeedRefused,
    float32_uniform,
    float64_uniform,
    keeps_normal_prefix,
    low_bits,
    numbers,
    numpy_start,
    numpy_uniform,
    numpy_words,
    python_start,
    python_uniform,
    python_words,
    torch_start,
    torch_words,
)

SEEDS = [0, 1, 2, 5489, 2**31 - 1, 2**31, 2**32 - 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_one_word_starts_what_numpy_starts(seed: int) -> None:
    _, keys, *_ = np.random.RandomState(seed).get_state(legacy=True)
    assert started_by_a_word(seed) == np.asarray(keys).tolist()
    drawn = np.random.RandomState(seed).randint(0, 2**32, 2 * WORDS, dtype=np.uint32).tolist()
    assert list(islice(numpy_words(seed), 2 * WORDS)) == drawn


@pytest.mark.parametrize("seed", [*SEEDS, 2**32, 2**64 + 7, -1, -(2**40)])
def test_a_key_starts_what_python_starts(seed: int) -> None:
    generator = random.Random(seed)
    assert started_by_words(python_start(seed)) == list(generator.getstate()[1][:WORDS])
    assert list(islice(python_words(seed), 1000)) == [generator.getrandbits(32) for _ in range(1000)]


def test_a_key_longer_than_a_state_starts_what_python_starts() -> None:
    seed = 2 ** (32 * 700) + 1
    assert started_by_words(python_start(seed)) == list(random.Random(seed).getstate()[1][:WORDS])


def test_the_words_of_the_published_example() -> None:
    # The example that came with the published program: a key of four words, and the first five numbers.
    key = (0x123, 0x234, 0x345, 0x456)
    assert list(islice(words(started_by_words(key)), 5)) == [
        1067595299,
        955945823,
        477289528,
        4107218783,
        4228976476,
    ]


def test_what_is_refused() -> None:
    assert torch_start(-(2**63)) == 0
    assert torch_start(2**64 - 1) == torch_start(-1) == 2**32 - 1
    for seed in (-(2**63) - 1, 2**64):
        with pytest.raises(SeedRefused, match="torch"):
            torch_start(seed)
    for seed in (-1, 2**32):
        with pytest.raises(SeedRefused, match="NumPy"):
            numpy_start(seed)
    with pytest.raises(ValueError, match="32 bits"):
        started_by_a_word(2**32)
    with pytest.raises(ValueError, match="empty key"):
        started_by_words(())


def test_keys_have_as_many_words_as_they_need() -> None:
    assert python_start(0) == (0,)
    assert python_start(-(2**32)) == (0, 1)
    assert python_start(2**32 - 1) == (2**32 - 1,)


def test_low_bits_are_those_of_each_word() -> None:
    assert low_bits(iter([0x12345678, 0xFFFFFFFF]), 2, 8) == (0x78, 0xFF)


def test_numbers_of_a_library_or_none() -> None:
    generator = random.Random(7)
    assert numbers("Python", 7, 3, 16) == tuple(generator.getrandbits(32) & 0xFFFF for _ in range(3))
    assert numbers("NumPy", 7, 3, 16) == tuple(np.random.RandomState(7).randint(0, 2**16, 3).tolist())
    assert numbers("torch", 7 - 2**32, 3, 16) == numbers("NumPy", 7, 3, 16)
    assert numbers("NumPy", -1, 3, 16) is numbers("torch", 2**64, 3, 16) is None


def test_prefixes_by_hand() -> None:
    kept = [(0, 40), (7, 15), (16, 32), (16, 40), (24, 24), (32, 48)]
    assert all(keeps_normal_prefix(short, long) for short, long in kept)
    lost = [(15, 16), (16, 17), (16, 31), (20, 40), (32, 40), (7, 16)]
    assert not any(keeps_normal_prefix(short, long) for short, long in lost)
    with pytest.raises(ValueError, match="shorter"):
        keeps_normal_prefix(3, 2)


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 1])
def test_uniform_numbers_are_numpys_and_pythons(seed: int) -> None:
    assert numpy_uniform(seed, 700) == np.random.RandomState(seed).random_sample(700).tolist()
    generator = random.Random(seed)
    assert python_uniform(seed, 700) == [generator.random() for _ in range(700)]


def test_torchs_uniform_numbers_are_bits_of_the_words_over_their_power_of_two() -> None:
    words = list(islice(torch_words(5), 8))
    assert [each * 2**24 for each in float32_uniform(5, 8)] == [word % 2**24 for word in words]
    pairs = [word % 2**21 * 2**32 + other for word, other in zip(words[::2], words[1::2], strict=True)]
    assert [each * 2**53 for each in float64_uniform(5, 4)] == pairs
