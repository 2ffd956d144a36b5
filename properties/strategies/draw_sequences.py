"""Programs that draw: calls of torch, NumPy and Python's random, each with the generator that it moves."""

from __future__ import annotations

import random
import secrets
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from torch import nn
from torch.utils.data import DataLoader, random_split

from properties.instruments.generators import (
    Source,
    after,
    put_back,
    start,
    start_all,
    start_from_entropy,
    states,
)
from properties.strategies.description import Description
from properties.strategies.draws import any_of, between

TELLING = 64
"""From this size on, two draws of a call coincide with a probability below 2**-60.

Each takes 63 words of the generator too, and each of NumPy's twice as many, so that what is drawn after it cannot miss
it: a shuffle rejects every second word and NumPy's normal numbers four words in one try of five, and had a draw taken
just those that would have been rejected, all would come out as without it.
"""
REPEATS = 2
"""How often a call draws that may start from no more than 31 bits each time.

A shuffling loader seeds a generator of its own with one number, of which a CPU generator keeps 32 bits, and a build of
torch with MKL makes each dropout mask from 31 bits.
"""

Value = tuple[Any, ...]


class Call(Enum):
    """What draws, or might be thought to."""

    RAND = "torch.rand"
    RANDN = "torch.randn"
    RAND_DOUBLE = "torch.rand in float64"
    RANDN_DOUBLE = "torch.randn in float64"
    RANDINT = "torch.randint"
    RANDPERM = "torch.randperm"
    BERNOULLI = "torch.bernoulli"
    MULTINOMIAL = "torch.multinomial"
    EXPONENTIAL = "Tensor.exponential_"
    DROPOUT = "dropout"
    LINEAR = "nn.Linear's initialisation"
    EMBEDDING = "nn.Embedding's initialisation"
    CONVOLUTION = "nn.Conv1d's initialisation"
    SHUFFLING_LOADER = "a pass over a DataLoader that shuffles"
    SPLIT = "random_split"
    NUMPY_RANDOM = "np.random.random"
    NUMPY_NORMAL = "np.random.standard_normal"
    NUMPY_INTEGERS = "np.random.randint"
    NUMPY_PERMUTATION = "np.random.permutation"
    NUMPY_BYTES = "np.random.bytes"
    PYTHON_RANDOM = "random.random"
    PYTHON_BITS = "random.getrandbits"
    PYTHON_SHUFFLE = "random.shuffle"
    PYTHON_SAMPLE = "random.sample"
    PYTHON_GAUSS = "random.gauss"

    LOADER = "a pass over a DataLoader that does not shuffle"
    DROPOUT_NEVER = "dropout with probability 0"
    DROPOUT_ALWAYS = "dropout with probability 1"
    DROPOUT_IN_EVALUATION = "dropout in evaluation"
    LAYER_NORM = "nn.LayerNorm's initialisation"
    LINEAR_ON_META = "nn.Linear's initialisation on the meta device"
    UNINITIALISED = "torch.empty"
    FORKED = "torch.rand within fork_rng"
    PUT_BACK = "a draw from each generator whose state is put back after it"
    NEW_LOADER = "a DataLoader that is made and not read"
    LOADER_WITH_ITS_OWN = "a pass over a shuffling DataLoader with a generator"
    SEEDED_TORCH = "torch.rand from a seeded torch.Generator"
    SEEDED_NUMPY = "a seeded np.random.default_rng"
    SEEDED_PYTHON = "a seeded random.Random"

    OWN_TORCH = "torch.rand from a torch.Generator after its seed()"
    OWN_NUMPY = "np.random.default_rng without a seed"
    OWN_PYTHON = "random.Random without a seed"
    SYSTEM = "random.SystemRandom"
    SECRETS = "secrets.token_bytes"
    UUID = "uuid.uuid4"

    def __repr__(self) -> str:
        return f"Call.{self.name}"


class _Drawing(NamedTuple):
    """How a call is made with a size, and from which size on it moves a generator."""

    run: Callable[[int], Any]
    least: int = 1


def _listed(x: Any) -> Value:
    values = x.tolist()
    return tuple(values) if isinstance(values, list) else (values,)


def flat(value: Any) -> list[Any]:
    """What is in tuples of tuples, in its order."""
    return [each for part in value for each in flat(part)] if isinstance(value, (tuple, list)) else [value]


def _parameters(module: nn.Module) -> Value:
    return tuple(value for each in module.parameters() for value in each.detach().flatten().tolist())


def _loaded(size: int, **options: Any) -> Value:
    return tuple(DataLoader(range(size), batch_size=max(size, 1), collate_fn=tuple, **options))  # type: ignore[arg-type]


def _split(size: int) -> Value:
    items: Any = range(size + 2)
    return tuple(tuple(part.indices) for part in random_split(items, [1, size + 1]))


def _mask(size: int, probability: float) -> Value:
    return _listed(nn.functional.dropout(torch.ones(size), probability))


def _shuffled(size: int) -> Value:
    items = list(range(size))
    random.shuffle(items)
    return tuple(items)


def _seeded_by_entropy() -> torch.Generator:
    generator = torch.Generator()
    generator.seed()
    return generator


def _forked(size: int) -> Value:
    with torch.random.fork_rng(devices=[]):
        return _listed(torch.rand(size))


def _put_back(size: int) -> Value:
    before = states()
    values = *_listed(torch.randn(size)), *_listed(np.random.standard_normal(size)), random.gauss(0.0, 1.0)
    put_back(before)
    return values


def _repeated(call: Callable[[int], Any]) -> Callable[[int], Value]:
    return lambda size: tuple(call(size) for _ in range(REPEATS))


_TORCH: dict[Call, _Drawing] = {
    Call.RAND: _Drawing(lambda size: _listed(torch.rand(size))),
    Call.RANDN: _Drawing(lambda size: _listed(torch.randn(size))),
    Call.RAND_DOUBLE: _Drawing(lambda size: _listed(torch.rand(size, dtype=torch.float64))),
    Call.RANDN_DOUBLE: _Drawing(lambda size: _listed(torch.randn(size, dtype=torch.float64))),
    Call.RANDINT: _Drawing(lambda size: _listed(torch.randint(2**40, (size,)))),
    Call.RANDPERM: _Drawing(lambda size: _listed(torch.randperm(size)), least=2),
    Call.BERNOULLI: _Drawing(lambda size: _listed(torch.bernoulli(torch.full((size,), 0.5)))),
    Call.MULTINOMIAL: _Drawing(
        lambda size: _listed(torch.multinomial(torch.ones(16), max(size, 1), replacement=True)), 0
    ),
    Call.EXPONENTIAL: _Drawing(_repeated(lambda size: _listed(torch.empty(size).exponential_()))),
    Call.DROPOUT: _Drawing(_repeated(lambda size: _mask(size, 0.5))),
    Call.LINEAR: _Drawing(lambda size: _parameters(nn.Linear(size + 1, 1)), least=0),
    Call.EMBEDDING: _Drawing(lambda size: _parameters(nn.Embedding(size + 1, 1)), least=0),
    Call.CONVOLUTION: _Drawing(lambda size: _parameters(nn.Conv1d(1, 1, size + 1)), least=0),
    Call.SHUFFLING_LOADER: _Drawing(_repeated(lambda size: _loaded(size + 1, shuffle=True)), least=0),
    Call.SPLIT: _Drawing(_split, least=0),
    Call.LOADER: _Drawing(_loaded, least=0),
}
_NUMPY: dict[Call, _Drawing] = {
    Call.NUMPY_RANDOM: _Drawing(lambda size: _listed(np.random.random(size))),
    Call.NUMPY_NORMAL: _Drawing(lambda size: _listed(np.random.standard_normal(size))),
    Call.NUMPY_INTEGERS: _Drawing(lambda size: _listed(np.random.randint(0, 2**40, size, np.int64))),
    Call.NUMPY_PERMUTATION: _Drawing(lambda size: _listed(np.random.permutation(2 * size))),
    Call.NUMPY_BYTES: _Drawing(lambda size: tuple(np.random.bytes(8 * size)), least=0),
}
_PYTHON: dict[Call, _Drawing] = {
    Call.PYTHON_RANDOM: _Drawing(lambda size: tuple(random.random() for _ in range(size))),
    Call.PYTHON_BITS: _Drawing(lambda size: (random.getrandbits(32 * size),) if size else ()),
    Call.PYTHON_SHUFFLE: _Drawing(_shuffled, least=2),
    Call.PYTHON_SAMPLE: _Drawing(lambda size: tuple(random.sample(range(2**31), size))),
    Call.PYTHON_GAUSS: _Drawing(lambda size: tuple(random.gauss(0.0, 1.0) for _ in range(size))),
}
_NOTHING: dict[Call, _Drawing] = {
    Call.DROPOUT_NEVER: _Drawing(lambda size: _mask(size, 0.0)),
    Call.DROPOUT_ALWAYS: _Drawing(lambda size: _mask(size, 1.0)),
    Call.DROPOUT_IN_EVALUATION: _Drawing(lambda size: _listed(nn.Dropout(0.5).eval()(torch.ones(size)))),
    Call.LAYER_NORM: _Drawing(lambda size: _parameters(nn.LayerNorm(size + 1))),
    Call.LINEAR_ON_META: _Drawing(lambda size: tuple(nn.Linear(size + 1, 1, device="meta").weight.shape)),
    Call.FORKED: _Drawing(_forked),
    Call.PUT_BACK: _Drawing(_put_back),
    Call.UNINITIALISED: _Drawing(lambda size: tuple(torch.empty(size).shape)),
    Call.NEW_LOADER: _Drawing(lambda size: (len(DataLoader(range(size + 1), shuffle=True)),)),  # type: ignore[arg-type]
    Call.LOADER_WITH_ITS_OWN: _Drawing(lambda size: _loaded(size + 1, shuffle=True, generator=torch.Generator())),
    Call.SEEDED_TORCH: _Drawing(lambda size: _listed(torch.rand(size, generator=torch.Generator().manual_seed(0)))),
    Call.SEEDED_NUMPY: _Drawing(lambda size: _listed(np.random.default_rng(0).random(size))),
    Call.SEEDED_PYTHON: _Drawing(lambda size: tuple(random.Random(0).sample(range(2**40), size))),
}
_ELSEWHERE: dict[Call, _Drawing] = {
    Call.OWN_TORCH: _Drawing(_repeated(lambda size: _listed(torch.rand(size, generator=_seeded_by_entropy())))),
    Call.OWN_NUMPY: _Drawing(lambda size: _listed(np.random.default_rng().random(size))),
    Call.OWN_PYTHON: _Drawing(lambda size: tuple(random.Random().sample(range(2**40), size))),
    Call.SYSTEM: _Drawing(lambda size: tuple(random.SystemRandom().sample(range(2**40), size))),
    Call.SECRETS: _Drawing(lambda size: tuple(secrets.token_bytes(size))),
    Call.UUID: _Drawing(lambda size: tuple(uuid.uuid4().int for _ in range(size))),
}
_TABLES: dict[Source | None, dict[Call, _Drawing]] = {
    Source.TORCH: _TORCH,
    Source.NUMPY: _NUMPY,
    Source.PYTHON: _PYTHON,
}
_DRAWINGS = _TORCH | _NUMPY | _PYTHON | _NOTHING | _ELSEWHERE
_SOURCES = {call: origin for origin, table in _TABLES.items() for call in table}
_IN_DOUBLE = {Call.RAND: Call.RAND_DOUBLE, Call.RANDN: Call.RANDN_DOUBLE}


@dataclass(frozen=True, repr=False)
class Draw(Description):
    """One call with a size: a number of elements, or of whatever the call is about."""

    call: Call
    size: int = TELLING

    def run(self) -> Value:
        """What the call gives, as plain numbers."""
        value: Value = _DRAWINGS[self.call].run(self.size)
        return value

    @property
    def moves(self) -> Source | None:
        """The global generator that the call moves, or None where it moves none."""
        return _SOURCES.get(self.call) if self.size >= _DRAWINGS[self.call].least else None

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether it draws from a generator that no seed of the three reaches."""
        return self.call in _ELSEWHERE


@dataclass(frozen=True, repr=False)
class Program(Description):
    """Draws, one after another."""

    draws: tuple[Draw, ...]

    def run(self) -> tuple[Value, ...]:
        """What each draw gives."""
        return tuple(draw.run() for draw in self.draws)

    def after(self, seed: int) -> tuple[Value, ...]:
        """What each draw gives once the three generators are seeded."""
        start_all(seed)
        return self.run()

    def unseeded(self) -> tuple[Value, ...]:
        """What each draw gives where the three generators start from what the system gives them."""
        start_from_entropy()
        return self.run()

    @property
    def moves(self) -> frozenset[Source]:
        """The global generators that it moves."""
        return frozenset(draw.moves for draw in self.draws if draw.moves is not None)

    @property
    def draws_elsewhere(self) -> bool:
        """Whether a generator is among its sources that no seed of the three reaches."""
        return any(draw.is_from_elsewhere for draw in self.draws)

    @property
    def turns(self) -> tuple[Source | None, ...]:
        """The generators, in the order in which they are asked."""
        return tuple(draw.moves for draw in self.draws)

    def with_turns(self, turns: Iterable[Source | None]) -> Program:
        """A program in which each generator is asked for the same draws in the same order, at other ``turns``."""
        queues = {turn: [draw for draw in self.draws if draw.moves is turn] for turn in set(self.turns)}
        return Program(tuple(queues[turn].pop(0) for turn in turns))

    def apart(self, seed: int) -> dict[Source | None, list[Value]]:
        """The values after a seed, apart for each generator."""
        values = after(seed, self.run)
        return {turn: [value for value, its in zip(values, self.turns, strict=True) if its is turn] for turn in Source}

    def history(self, place: int) -> tuple[Draw, ...]:
        """All that was drawn from the generator of the draw at ``place``, up to this draw and with it."""
        origin = self.draws[place].moves
        return tuple(draw for draw in self.draws[: place + 1] if draw.moves is origin)


@dataclass(frozen=True, repr=False)
class Rerun(Description):
    """A program, and what is run after the same seed in its place: ``extra`` first, and then ``again``."""

    program: Program
    extra: tuple[Draw, ...]
    again: Program

    @property
    def keeps_the_order(self) -> bool:
        """Whether each generator is asked for the same things in the same order, up to every draw of the program."""
        whole = Program((*self.extra, *self.again.draws))
        return len(self.program.draws) == len(self.again.draws) and all(
            self.program.history(place) == whole.history(place + len(self.extra))
            for place in range(len(self.program.draws))
        )

    def first(self, seed: int) -> tuple[Value, ...]:
        """The program's values after a seed."""
        return self.program.after(seed)

    def second(self, seed: int) -> tuple[Value, ...]:
        """The values of what is run in its place, after the same seed and without those of ``extra``."""
        return Program((*self.extra, *self.again.draws)).after(seed)[len(self.extra) :]


@dataclass(frozen=True, repr=False)
class Forgetful(Description):
    """A program that draws from all three generators, and the one that is not seeded again."""

    program: Program
    forgotten: Source

    def same_again(self, seed: int) -> tuple[bool, ...]:
        """Run it twice, the second time with one generator not seeded anew: which values are the same?"""
        first = self.program.after(seed)
        for origin in Source:
            if origin is not self.forgotten:
                start(origin, seed)
        return tuple(before == now for before, now in zip(first, self.program.run(), strict=True))

    @property
    def due_to_be_the_same(self) -> tuple[bool, ...]:
        """For each draw, whether it draws from a generator that is seeded again."""
        return tuple(draw.moves is not self.forgotten for draw in self.program.draws)


class Kind(Enum):
    """A generator of one's own."""

    TORCH = "torch.Generator"
    NUMPY = "np.random.default_rng"
    NUMPY_LEGACY = "np.random.RandomState"
    PYTHON = "random.Random"

    def __repr__(self) -> str:
        return f"Kind.{self.name}"


@dataclass(frozen=True, repr=False)
class Own(Description):
    """A generator of one's own, seeded, from which a few numbers were drawn already."""

    kind: Kind
    seed: int
    drawn: int = 0

    def build(self) -> Any:
        """The generator, where it stands."""
        makers: dict[Kind, Callable[[int], Any]] = {
            Kind.TORCH: lambda seed: torch.Generator().manual_seed(seed),
            Kind.NUMPY: np.random.default_rng,
            Kind.NUMPY_LEGACY: np.random.RandomState,
            Kind.PYTHON: random.Random,
        }
        generator = makers[self.kind](self.seed)
        for _ in range(self.drawn):
            self.number(generator)
        return generator

    def numbers(self) -> list[float]:
        """The next four numbers from where it stands."""
        generator = self.build()
        return [self.number(generator) for _ in range(4)]

    def number(self, generator: Any) -> float:
        """The next number of such a generator."""
        if self.kind is Kind.TORCH:
            return torch.rand((), generator=generator, dtype=torch.float64).item()
        return float(generator.random())


def spawned(seed: int, count: int) -> list[tuple[int, ...]]:
    """The first words of a SeedSequence, of the children that it spawns, and of as many more."""
    parent = np.random.SeedSequence(seed)
    family = [parent, *parent.spawn(count), *parent.spawn(count)]
    return [tuple(np.random.default_rng(each).integers(2**63, size=2).tolist()) for each in family]


UNSEEDED = 67280421310721
"""The seed of a torch.Generator that nobody has seeded: the number that torch's default is written down as."""
SEEDS = between(0, 2**32 - 1)
EDGES = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**96 + 5)
any_seeds = st.one_of(
    any_of(EDGES),
    any_of(EDGES).map(lambda edge: -edge),
    SEEDS,
    between(-(2**33), 2**33),
    between(-(2**63), 2**64 - 1),
    st.one_of(between(2**64, 2**96), between(-(2**96), -(2**63) - 1)),
)
"""Seeds of every length and both signs, at the edges of what each library takes and beyond."""
_beyond = st.one_of(between(2**32, 2**65), between(-(2**65), -1))
pairs_within_32_bits = st.tuples(SEEDS, between(1, 2**32 - 1)).map(lambda pair: (pair[0], (pair[0] + pair[1]) % 2**32))
"""Two different seeds from 0 to 2**32 - 1."""
pairs_beyond_32_bits = st.one_of(
    st.tuples(SEEDS, _beyond),
    st.tuples(SEEDS, between(1, 2**31)).map(lambda pair: (pair[0], pair[0] + pair[1] * 2**32)),
    between(1, 2**32 - 1).map(lambda seed: (seed, -seed)),
)
"""Two different seeds, of which one is negative or longer than 32 bits."""
generators_of_ones_own = st.builds(Own, any_of(tuple(Kind)), SEEDS, between(0, 5))
_sizes = between(TELLING, TELLING + 32)
_telling = {origin: tuple(call for call in table if call is not Call.LOADER) for origin, table in _TABLES.items()}


def draws_of(*calls: Call) -> SearchStrategy[Draw]:
    """Draws of any of these calls, each large enough to tell one stream from another."""
    return st.builds(Draw, any_of(calls), _sizes)


telling = draws_of(*(call for calls in _telling.values() for call in calls))
"""Draws whose value follows the generator's state: two states give two values."""
from_elsewhere = draws_of(*_ELSEWHERE)
that_move_nothing = st.one_of(draws_of(*_NOTHING), st.builds(Draw, any_of((Call.RAND, Call.PYTHON_BITS)), st.just(0)))
initialisations = draws_of(Call.LINEAR, Call.EMBEDDING, Call.CONVOLUTION)
dropouts = draws_of(Call.DROPOUT)
orders = draws_of(Call.SHUFFLING_LOADER, Call.RANDPERM, Call.SPLIT)
orders_of_each_library = draws_of(Call.RANDPERM, Call.SPLIT, Call.NUMPY_PERMUTATION, Call.PYTHON_SHUFFLE)
of_any_kind = st.one_of(
    telling,
    that_move_nothing,
    st.builds(Draw, any_of(tuple(_DRAWINGS)), between(0, 20)),
    st.builds(Draw, any_of(tuple(_TORCH | _NUMPY | _PYTHON)), any_of((0, 1, 2))),
)
"""Draws of every call, those of nothing, of one thing and of two among them."""
# Always as many draws, of which some are left out: lists that Hypothesis draws are often thrown away half-way.
programs = st.builds(lambda length, *draws: Program(draws[:length]), between(1, 4), telling, telling, telling, telling)
programs_from_elsewhere = st.builds(
    lambda before, after, elsewhere, *draws: Program((*draws[:before], elsewhere, *draws[2 : 2 + after])),
    between(0, 2),
    between(0, 2),
    from_elsewhere,
    telling,
    telling,
    telling,
    telling,
)


odd_programs = st.builds(
    lambda *draws: Program(draws),
    *(st.builds(Draw, st.just(call), any_of((1, 3, 5))) for call in (Call.RANDN, Call.NUMPY_NORMAL, Call.PYTHON_GAUSS)),
)
"""Odd numbers of normal numbers from each generator, which make them in pairs: the next one is at hand already."""
mixed_programs = (
    st.tuples(between(3, 5), *(draws_of(*calls) for calls in _telling.values()), telling, telling)
    .flatmap(lambda drawn: st.permutations(drawn[1 : 1 + drawn[0]]))
    .map(lambda draws: Program(tuple(draws)))
)
"""Programs that draw from all three generators, in any order."""
forgetful = st.builds(Forgetful, mixed_programs, any_of(tuple(Source)))
interleavings = mixed_programs.flatmap(
    lambda program: st.tuples(st.just(program), st.permutations(program.turns).map(program.with_turns))
)
"""A mixed program, and one with the same draws from each generator that take turns in another way."""
_of_every_call = Program(tuple(Draw(call, 4) for calls in _telling.values() for call in calls))
EVERY_CALL = _of_every_call, _of_every_call.with_turns(reversed(_of_every_call.turns))
"""The interleaving of every call: torch's, NumPy's and Python's draws, and these in the order Python, NumPy, torch."""


@st.composite
def same_order(draw: st.DrawFn) -> Rerun:
    """Reruns that ask each generator of the program for the same things in the same order."""
    program = draw(programs)
    idle = [call for origin, calls in _telling.items() if origin not in program.moves for call in calls]
    extra = draw(st.one_of(that_move_nothing, *([draws_of(*idle)] if idle else [])))
    return Rerun(program, (extra,)[: draw(between(0, 1))], program)


@st.composite
def another_order(draw: st.DrawFn) -> Rerun:
    """Reruns with one draw too many before, with two draws exchanged, or with one draw in float64."""
    program = draw(programs)
    kind = draw(between(0, 2))
    if kind == 1:
        one, other = draw(any_of(((Call.RAND, Call.RANDN), (Call.NUMPY_RANDOM, Call.NUMPY_BYTES))))
        pair = (Draw(one, draw(_sizes)), Draw(other, draw(_sizes)))
        return Rerun(Program((*pair, *program.draws)), (), Program((*reversed(pair), *program.draws)))
    if kind == 2:
        call = draw(any_of((Call.RAND, Call.RANDN)))
        size = draw(_sizes)
        tail = program.draws
        return Rerun(Program((Draw(call, size), *tail)), (), Program((Draw(_IN_DOUBLE[call], size), *tail)))
    extra = Draw(draw(any_of(tuple(call for origin in program.moves for call in _telling[origin]))), draw(_sizes))
    return Rerun(program, (extra,), program)
