"""The Mersenne Twister MT19937, from its recurrence: 624 words of 32 bits, and how seeds start it.

Source: Matsumoto and Nishimura, "Mersenne Twister: A 623-dimensionally equidistributed uniform pseudo-random number
generator", 1998, and the two ways of starting it that its authors published in 2002.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

WORDS = 624
"""Words of a state."""
_MIDDLE = 397
_WORD = 0xFFFFFFFF


def started_by_a_word(seed: int) -> list[int]:
    """The state that one word of 32 bits starts; ValueError for a seed that is not one."""
    if not 0 <= seed <= _WORD:
        raise ValueError(f"{seed} is no word of 32 bits: a seed lies from 0 to 2**32 - 1")
    state = [seed]
    for index in range(1, WORDS):
        before = state[-1]
        state.append((1812433253 * (before ^ before >> 30) + index) & _WORD)
    return state


def started_by_words(key: Sequence[int]) -> list[int]:
    """The state that a key of one or more words of 32 bits starts; ValueError for an empty key."""
    if not key:
        raise ValueError("an empty key starts no generator: give one word or more")
    state = started_by_a_word(19650218)
    index, place = 1, 0
    for _ in range(max(WORDS, len(key))):
        before = state[index - 1]
        state[index] = ((state[index] ^ (before ^ before >> 30) * 1664525) + key[place] + place) & _WORD
        index, place = index + 1, (place + 1) % len(key)
        if index == WORDS:
            state[0], index = state[-1], 1
    for _ in range(WORDS - 1):
        before = state[index - 1]
        state[index] = ((state[index] ^ (before ^ before >> 30) * 1566083941) - index) & _WORD
        index += 1
        if index == WORDS:
            state[0], index = state[-1], 1
    state[0] = 1 << 31
    return state


def words(state: Sequence[int]) -> Iterator[int]:
    """The words of 32 bits that a generator in ``state`` gives, without end."""
    recent = list(state)
    index = 0
    while True:
        bits = recent[index] & 0x80000000 | recent[(index + 1) % WORDS] & 0x7FFFFFFF
        twisted = recent[(index + _MIDDLE) % WORDS] ^ bits >> 1 ^ (0x9908B0DF if bits & 1 else 0)
        recent[index] = twisted
        index = (index + 1) % WORDS
        yield _tempered(twisted)


def _tempered(word: int) -> int:
    word ^= word >> 11
    word ^= word << 7 & 0x9D2C5680
    word ^= word << 15 & 0xEFC60000
    return word ^ word >> 18
