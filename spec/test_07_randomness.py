"""Randomness: where it comes from, what a seed fixes, and what it does not reach."""

import random

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from properties import statistics
from properties.claims import also, context, costly, holds, holds_when, needs
from properties.evidence import every, when
from properties.instruments import generators
from properties.instruments.generators import Source
from properties.strategies import draw_sequences, loading, masks
from properties.strategies.draw_sequences import SEEDS, Call, Draw, Forgetful, Kind, Own, Program, Rerun
from properties.strategies.loading import Epochs, Loading, of_worker
from properties.strategies.masks import Dropped, Mask, Region
from reference import seeds

# ── where randomness comes from ──


@holds("randomness.sources", false_alarm=1e-15, seeds_count=True)
@costly(cases=50, because="a case takes milliseconds")
@given(
    draw=st.one_of(draw_sequences.initialisations, draw_sequences.dropouts, draw_sequences.orders),
    seed=SEEDS,
)
@example(draw=Draw(Call.DROPOUT), seed=0)
@example(draw=Draw(Call.SHUFFLING_LOADER), seed=0)
def test_initialisation_dropout_and_order_are_random(draw, seed):
    """Randomness enters in parameter initialisation, dropout and data order, among others.

    Each is the same in two runs after one seed. Two runs in a row differ, and of three runs that start unseeded
    not all are the same: torch draws a seed of 64 bits, of which the CPU's generator keeps 32. Two masks or orders
    are taken at a time, because one may start from as few as 31 bits.
    """
    program = Program((draw,))
    starts = [program.unseeded() for _ in range(3)]
    assert len(set(starts)) > 1
    assert (draw.run(),) != starts[-1]
    assert program.after(seed) == program.after(seed)


@also("randomness.sources", seeds_count=True)
@costly(cases=40, because="thousands of numbers each, for the share that is dropped")
@given(mask=masks.masks, seed=SEEDS)
@example(mask=Mask(Dropped.ELEMENT, 0.75), seed=0)
@example(mask=Mask(Dropped.ROW, 0.75, trained=True), seed=0)
def test_dropout_scales_what_it_keeps_and_keeps_all_in_evaluation(mask, seed):
    """In training dropout drops a share of p, of elements or whole channels, and multiplies the rest by 1 / (1 - p).

    In evaluation it gives what it got. The share is within Bernstein's bound.
    """
    layer, x = mask.layer(), mask.data()
    out = generators.after(seed, layer.train(), x)
    kept = (out != 0).reshape(masks.UNITS, -1)
    assert torch.equal(out, x * mask.scale() * (out != 0))
    assert torch.equal(kept.any(1), kept.all(1))
    share = 1 - mask.probability
    likely = statistics.bounded_sum(masks.UNITS, share, share * mask.probability, 1, 1e-18)
    assert int(kept.any(1).sum()) in likely
    assert torch.equal(layer.eval()(x), x)


@also("randomness.sources")
def test_what_draws_in_training_draws_nothing_in_evaluation():
    """In evaluation none of the layers that are random in training moves a generator, however deep it is in a model."""
    names = list(masks.RANDOM_IN_TRAINING)
    with generators.unseeded():
        moved = [masks.moved_by_layer(name, training=True) == {Source.TORCH} for name in names]
        still = [masks.moved_by_layer(name, training=False) == set() for name in names]
    every("layers and functions in training", moved, names, size=11)
    every("layers and functions in evaluation", still, names, size=11)


@also("randomness.sources", seeds_count=True)
@costly(cases=30, because="reads six epochs")
@given(case=loading.epochs, seed=SEEDS)
@example(case=Epochs(33, 8), seed=0)
@example(case=Epochs(33, 8, drop_last=True, own=True), seed=0)
def test_an_epoch_has_everything_once_in_an_order_of_its_own(case, seed):
    """A shuffling loader goes through all samples once an epoch, and after the same seed in the same orders.

    The orders of three epochs are not the same. With drop_last, what does not fill a batch is left out. A generator of
    the loader's own fixes the orders wherever torch's stands.
    """
    epochs = case.read(seed)
    assert case.read(seed) == epochs
    assert not epochs[0] == epochs[1] == epochs[2]
    for batches in epochs:
        assert [len(batch) for batch in batches] == case.lengths
        read = [item for batch in batches for item in batch]
        assert len(set(read)) == len(read) and set(read) <= set(range(case.items))


@also("randomness.sources", seeds_count=True)
@given(draw=draw_sequences.orders_of_each_library, seed=SEEDS)
@example(draw=Draw(Call.NUMPY_PERMUTATION), seed=0)
@example(draw=Draw(Call.SPLIT), seed=0)
def test_an_order_loses_nothing_and_repeats_nothing(draw, seed):
    """A permutation, a shuffle or a split of torch, NumPy or Python has each thing once."""
    order = draw_sequences.flat(generators.after(seed, draw.run))
    assert sorted(order) == list(range(len(order))) and len(order) >= draw.size


# ── what a seed fixes ──


@holds_when(
    "randomness.seed.reproduces",
    "On one machine, one version and one device, with the same calls of each generator in the same order. A draw more,"
    " two that change places, another device or another precision give other numbers; in float64 most of all, while"
    " whole numbers are the same in every dtype. A draw of a word or two can go unnoticed: a shuffle may reject just"
    " these.",
    false_alarm=1e-15,
    seeds_count=True,
)
@given(case=st.one_of(draw_sequences.same_order(), draw_sequences.another_order()), seed=SEEDS)
@example(case=Rerun(Program((Draw(Call.RANDN),)), (), Program((Draw(Call.RANDN),))), seed=0)
@example(case=Rerun(Program((Draw(Call.RAND),)), (Draw(Call.NUMPY_BYTES),), Program((Draw(Call.RAND),))), seed=0)
@example(case=Rerun(Program((Draw(Call.RAND),)), (Draw(Call.RAND, 1),), Program((Draw(Call.RAND),))), seed=0)
@example(case=Rerun(Program((Draw(Call.RAND),)), (), Program((Draw(Call.RAND_DOUBLE),))), seed=0)
def test_a_seed_fixes_what_follows_in_the_same_order(case, seed):
    """Fixing a seed improves reproducibility.

    Programs of draws from all three generators give the same values after the same seed, and other values after
    one draw more, of so many words that nothing after it would have rejected them all. A draw from a generator that
    the program does not use changes nothing.
    """
    assert (case.first(seed) == case.second(seed)) == when(case.keeps_the_order)


@also("randomness.seed.reproduces", seeds_count=True)
@given(before=draw_sequences.odd_programs, program=draw_sequences.programs)
@example(
    before=Program((Draw(Call.RANDN, 1), Draw(Call.NUMPY_NORMAL, 1), Draw(Call.PYTHON_GAUSS, 1))),
    program=Program((Draw(Call.RANDN, 1), Draw(Call.NUMPY_NORMAL), Draw(Call.PYTHON_GAUSS))),
)
def test_a_saved_state_fixes_what_follows_too(before, program):
    """From an unseeded start, putting the three states back gives the same values again.

    The normal number that each generator has at hand, where they are made in pairs, is part of its state.
    """
    with generators.unseeded():
        before.run()
        states = generators.states()
        first = program.run()
        generators.put_back(states)
        assert program.run() == first


@also("randomness.seed.reproduces", seeds_count=True)
@costly(cases=40, because="a forward pass, a second one and a backward pass")
@given(region=masks.regions, seed=SEEDS)
@example(region=Region(2), seed=0)
@example(region=Region(2, between=3, reentrant=True), seed=0)
@example(region=Region(2, keeps_state=False), seed=0)
def test_dropout_that_is_run_again_drops_the_same(region, seed):
    """A checkpointed region draws in its second run what it drew in its first, whatever was drawn in between.

    So the gradient is that of the outputs, and the backward pass leaves the generators where they are. It does not with
    preserve_rng_state=False: other masks, and other draws after it.
    """
    out, gradient, still = region.passes(seed)
    assert torch.equal(out, region.plainly(seed))
    assert torch.equal(out, gradient) == still == region.keeps_state


@also("randomness.seed.reproduces")
def test_a_longer_randn_does_not_begin_with_the_shorter_one():
    """After one seed, rand of any length begins with every shorter one, but randn only for some pairs of lengths.

    From 16 elements up normal numbers are made in blocks of 16, and where the last block is not full the last 16
    elements are drawn anew: randn(15) is no beginning of randn(16), nor randn(16) of randn(17).
    """
    lengths = range(65)
    uniform = [torch.rand(length, generator=torch.Generator().manual_seed(0)) for length in lengths]
    normal = [torch.randn(length, generator=torch.Generator().manual_seed(0)) for length in lengths]
    pairs = [(short, long) for long in lengths for short in lengths if short <= long]
    kept = [torch.equal(normal[long][:short], normal[short]) for short, long in pairs]
    due = [seeds.keeps_normal_prefix(short, long) for short, long in pairs]
    every("pairs of lengths up to 64, randn", np.equal(kept, due), pairs, size=65 * 66 // 2)
    kept = [torch.equal(uniform[long][:short], uniform[short]) for short, long in pairs]
    every("pairs of lengths up to 64, rand", kept, pairs, size=65 * 66 // 2)


@also("randomness.seed.reproduces", seeds_count=True)
@given(seed=SEEDS, length=st.one_of(st.integers(2, 15), st.integers(16, 100)))
@example(seed=0, length=15)
@example(seed=0, length=16)
def test_normal_numbers_depend_on_how_the_tensor_lies(seed, length):
    """A column that is filled with normal numbers gets others than a vector, from 16 elements on."""
    vector = generators.after(seed, torch.Tensor.normal_, torch.empty(length))
    column = generators.after(seed, torch.Tensor.normal_, torch.empty(length, 2)[:, 0])
    assert torch.equal(vector, column) == (length < seeds.BLOCK)


@also("randomness.seed.reproduces", seeds_count=True)
@given(seed=SEEDS, size=st.integers(2, 100), dtype=st.sampled_from([torch.uint8, torch.int16, torch.int32]))
@example(seed=0, size=16, dtype=torch.int32)
def test_whole_numbers_are_the_same_in_every_dtype(seed, size, dtype):
    """randint and randperm give the same numbers in any integer dtype; rand in float64 takes twice the words.

    So a draw in float64 gives other numbers and shifts all that follow, while one in float16 or bfloat16 leaves
    the generator where one in float32 does.
    """
    for draw, arguments in ((torch.randint, (100, (size,))), (torch.randperm, (size,))):
        narrow = generators.after(seed, draw, *arguments, dtype=dtype)
        assert torch.equal(narrow.long(), generators.after(seed, draw, *arguments))
    states = {
        of: generators.torch_state_after(seed, torch.rand, size, dtype=of)
        for of in (torch.float32, torch.float16, torch.bfloat16, torch.float64)
    }
    assert states[torch.float32] == states[torch.float16] == states[torch.bfloat16] != states[torch.float64]
    assert states[torch.float64] == generators.torch_state_after(seed, torch.rand, 2 * size)


@also("randomness.seed.reproduces", seeds_count=True)
@costly(cases=1, because="starts a process that imports torch", lowest="default")
@given(seed=SEEDS)
def test_a_fresh_process_draws_what_this_one_does(seed):
    """A process of its own gives the same numbers after the same seed, from all three generators."""
    there = generators.in_a_fresh_process(seed)
    assert there["numbers"] == [list(generators.numbers_after(source, seed, 64)) for source in Source]
    assert there["normal"] == generators.after(seed, torch.randn, 64).tolist()
    assert there["own"] == torch.Generator().initial_seed()


@also("randomness.seed.reproduces", seeds_count=True)
@needs("cuda")
@given(seed=SEEDS, size=st.integers(64, 4096))
def test_a_gpu_repeats_its_own_stream_and_no_cpu_repeats_it(seed, size):
    """One seed gives the same numbers on a GPU each time, and others than on the CPU."""
    first = generators.after_torchs_seed(seed, torch.randn, size, device="cuda")
    assert torch.equal(first, generators.after_torchs_seed(seed, torch.randn, size, device="cuda"))
    assert not torch.equal(first.cpu(), generators.after_torchs_seed(seed, torch.randn, size))


# ── three generators ──


@holds("randomness.seed.three-generators", false_alarm=1e-15, seeds_count=True)
@costly(cases=50, because="a case takes milliseconds")
@given(case=draw_sequences.forgetful, seed=SEEDS)
@example(
    case=Forgetful(Program((Draw(Call.DROPOUT), Draw(Call.NUMPY_RANDOM), Draw(Call.PYTHON_BITS))), Source.NUMPY), seed=0
)
def test_each_of_the_three_generators_needs_its_seed(case, seed):
    """Set torch.manual_seed, np.random.seed and random.seed together.

    Each seeds its own generator and leaves the other two where they are. In a program that draws from all three,
    the draws from the one that is not seeded again differ, and those alone.
    """
    assert case.same_again(seed) == case.due_to_be_the_same
    for source in Source:
        assert generators.moved_by(generators.start, source, seed) <= {source}


@also("randomness.seed.three-generators", seeds_count=True)
@given(draw=draw_sequences.of_any_kind, seed=st.one_of(st.none(), SEEDS))
@example(draw=Draw(Call.LOADER, 4), seed=None)
@example(draw=Draw(Call.DROPOUT), seed=0)
@example(draw=Draw(Call.NUMPY_RANDOM), seed=0)
@example(draw=Draw(Call.RANDPERM, 1), seed=0)
@example(draw=Draw(Call.DROPOUT_ALWAYS), seed=None)
@example(draw=Draw(Call.LOADER_WITH_ITS_OWN), seed=None)
@example(draw=Draw(Call.DROPOUT_IN_EVALUATION), seed=None)
@example(draw=Draw(Call.FORKED), seed=0)
@example(draw=Draw(Call.PUT_BACK, 1), seed=0)
def test_every_call_moves_the_generator_that_it_draws_from_and_no_other(draw, seed):
    """From seeded and unseeded states, the states after a call differ just where its library says.

    A pass over a DataLoader draws from torch's generator even if it neither shuffles nor has workers, unless it is
    given a generator. Dropout of nothing or of everything, a permutation of one thing, an initialisation on the
    meta device and draws of no elements move none, nor does what is drawn within fork_rng or before a state is put
    back.
    """
    with generators.unseeded():
        if seed is not None:
            generators.after(seed, draw.run)
        assert generators.moved_by(draw.run) == ({draw.moves} - {None})


@also("randomness.seed.three-generators")
def test_no_call_that_is_known_moves_another_generator_than_its_own():
    """The same of every call, with sizes of nothing, of one and of two things, and with a large one."""
    draws = [Draw(call, size) for call in Call for size in (0, 1, 2, 64)]
    with generators.unseeded():
        moved = [generators.moved_by(draw.run) == ({draw.moves} - {None}) for draw in draws]
    every("calls and sizes", moved, draws, size=4 * len(Call))


@also("randomness.seed.three-generators", seeds_count=True)
@given(programs=draw_sequences.interleavings, seed=SEEDS)
@example(programs=draw_sequences.EVERY_CALL, seed=0)
def test_generators_may_take_turns_in_any_order(programs, seed):
    """What one generator gives does not depend on when the other two are asked."""
    one, other = programs
    assert one.apart(seed) == other.apart(seed)


@also("randomness.seed.three-generators", seeds_count=True)
@given(seed=SEEDS, bits=st.integers(1, 24), size=st.integers(1, 64))
@example(seed=0, bits=8, size=64)
def test_numpy_and_torch_draw_the_same_whole_numbers_after_the_same_seed(seed, bits, size):
    """randint below a power of two gives the very same numbers in NumPy and torch after one seed.

    Both start the same Mersenne Twister and keep the lowest bits of its words. So two streams that look
    independent are copies of each other; different seeds for the two keep them apart.
    """
    of_torch = generators.after(seed, torch.randint, 0, 2**bits, (size,)).tolist()
    assert of_torch == generators.after(seed, np.random.randint, 0, 2**bits, size).tolist()
    assert of_torch == list(seeds.low_bits(seeds.torch_words(seed), size, bits))


@also("randomness.seed.three-generators", seeds_count=True)
@costly(cases=40, because="starts four generators in plain Python")
@given(seed=SEEDS, size=st.integers(1, 64))
@example(seed=0, size=64)
def test_uniform_numbers_are_words_over_a_power_of_two(seed, size):
    """rand of torch, NumPy and Python is a whole number over a power of two, and so never one.

    torch takes the lowest 24 bits of a word, in float64 the lowest 53 of two; the others the upper 27 and 26 of two.
    """
    assert generators.after(seed, torch.rand, size).tolist() == seeds.float32_uniform(seed, size)
    assert generators.after(seed, torch.rand, size, dtype=torch.float64).tolist() == seeds.float64_uniform(seed, size)
    assert generators.after(seed, np.random.random, size).tolist() == seeds.numpy_uniform(seed, size)
    assert generators.after(seed, lambda: [random.random() for _ in range(size)]) == seeds.python_uniform(seed, size)


@also("randomness.seed.three-generators", seeds_count=True)
@needs("cuda")
@given(seed=SEEDS, size=st.integers(64, 4096))
def test_the_one_seed_of_torch_reaches_every_gpu(seed, size):
    """torch.manual_seed seeds the generators of all CUDA devices too, and NumPy's and Python's seeds do not."""
    for device in range(torch.cuda.device_count()):
        first = generators.after_torchs_seed(seed, torch.rand, size, device=f"cuda:{device}")
        assert torch.equal(generators.after_torchs_seed(seed, torch.rand, size, device=f"cuda:{device}"), first)
        generators.start(Source.NUMPY, seed)
        generators.start(Source.PYTHON, seed)
        assert not torch.equal(torch.rand(size, device=f"cuda:{device}"), first)


# ── which seeds are different ──


@holds_when(
    "randomness.seed.distinct",
    "Within 32 bits, from 0 up. torch's CPU generator takes s and s + 2**32 for one seed, Python's random takes n and"
    " -n for one, and NumPy refuses what is negative or does not fit.",
    false_alarm=1e-30,
    seeds_count=True,
)
@costly(cases=50, because="a case takes milliseconds")
@given(pair=st.one_of(draw_sequences.pairs_within_32_bits, draw_sequences.pairs_beyond_32_bits))
@example(pair=(0, 1))
@example(pair=(0, 2**32 - 1))
@example(pair=(0, 2**32))
@example(pair=(1, -1))
def test_different_seeds_give_different_streams(pair):
    """Different seeds give different streams.

    In all three libraries: of eight numbers with 16 bits each, at least one differs.
    """
    assert generators.tells_apart(*pair) == when(0 <= min(pair) and max(pair) < 2**32)


@also("randomness.seed.distinct", seeds_count=True)
@given(source=st.sampled_from(list(Source)), seed=draw_sequences.any_seeds)
@example(source=Source.TORCH, seed=2**64)
@example(source=Source.TORCH, seed=-(2**63) - 1)
@example(source=Source.TORCH, seed=-1)
@example(source=Source.NUMPY, seed=-1)
@example(source=Source.NUMPY, seed=2**32)
@example(source=Source.PYTHON, seed=-(2**96))
def test_each_library_makes_of_a_seed_what_its_rule_says(source, seed):
    """torch keeps the lowest 32 bits, Python the magnitude, and NumPy refuses all but 0 to 2**32 - 1.

    torch refuses what is below -2**63 or above 2**64 - 1. The numbers that follow are those of a Mersenne Twister
    that the reference starts by these rules.
    """
    assert generators.numbers_or_none(source, seed) == seeds.numbers(source.value, seed, count=8, bits=16)


@also("randomness.seed.distinct", seeds_count=True)
@costly(cases=50, because="makes a dozen generators")
@given(kind=st.sampled_from(list(Kind)), pair=draw_sequences.pairs_within_32_bits)
@example(kind=Kind.NUMPY, pair=(0, 1))
@example(kind=Kind.TORCH, pair=(0, 2**32 - 1))
def test_generators_of_ones_own_tell_seeds_apart_too(kind, pair):
    """A generator of one's own gives the same numbers after the same seed, and others after another."""
    one, other = (Own(kind, seed) for seed in pair)
    assert one.numbers() == one.numbers() != other.numbers()


@also("randomness.seed.distinct", seeds_count=True)
@costly(cases=30, because="makes a dozen generators")
@given(seed=SEEDS, high=st.integers(1, 2**64), count=st.integers(2, 6))
@example(seed=0, high=1, count=2)
def test_what_a_seed_sequence_spawns_is_different_and_comes_again(seed, high, count):
    """NumPy's SeedSequence takes seeds of any length, and its children differ from it and from each other.

    The same seed spawns the same children, and the next ones that are asked for are others.
    """
    family = draw_sequences.spawned(seed, count)
    assert draw_sequences.spawned(seed, count) == family
    assert len({*family, *draw_sequences.spawned(seed + high * 2**32, count)}) == 2 * len(family) == 4 * count + 2


@also("randomness.seed.distinct", seeds_count=True)
@needs("cuda")
@given(seed=SEEDS, high=st.integers(1, 2**31 - 1))
def test_a_gpu_tells_seeds_of_64_bits_apart(seed, high):
    """A CUDA generator gives another stream for s + 2**32, where a CPU's gives the same."""
    other = seed + high * 2**32
    for device in ("cpu", "cuda"):
        one, two = (generators.after_torchs_seed(each, torch.rand, 64, device=device) for each in (seed, other))
        assert torch.equal(one, two) == (device == "cpu")


# ── what no seed reaches ──


@holds_when(
    "randomness.seed.covers-all",
    "Not for np.random.default_rng() or an own torch.Generator or random.Random (an unseeded torch.Generator has the"
    " same seed in every process), not for what asks the system, not for the order of a set of strings, and not for"
    " nondeterministic GPU kernels. DataLoader workers follow torch's seed, with random and NumPy's global generator;"
    " but a generator stored on the dataset repeats in every worker and, without persistent workers, in every epoch.",
    false_alarm=1e-15,
    seeds_count=True,
)
@given(program=st.one_of(draw_sequences.programs, draw_sequences.programs_from_elsewhere), seed=SEEDS)
@example(program=Program((Draw(Call.RANDN), Draw(Call.NUMPY_RANDOM))), seed=0)
@example(program=Program((Draw(Call.RANDN), Draw(Call.OWN_NUMPY))), seed=0)
@example(program=Program((Draw(Call.UUID),)), seed=0)
def test_a_program_repeats_where_it_draws_from_the_three_generators_alone(program, seed):
    """With those three set in one place, randomness is under control.

    A program that also asks a generator of its own, started by the system, or the system itself never repeats.
    """
    assert (program.after(seed) == program.after(seed)) == when(not program.draws_elsewhere)


@also("randomness.seed.covers-all", seeds_count=True)
@given(seed=SEEDS, size=st.integers(1, 64))
def test_an_unseeded_torch_generator_always_starts_the_same(seed, size):
    """torch.Generator() has one and the same seed whatever torch.manual_seed said, and so the same numbers."""
    torch.manual_seed(seed)
    assert torch.initial_seed() == seed
    generator = torch.Generator()
    assert generator.initial_seed() == draw_sequences.UNSEEDED
    first = torch.rand(size, generator=generator)
    assert torch.equal(torch.rand(size, generator=torch.Generator()), first)
    assert torch.equal(torch.rand(size, generator=torch.Generator().manual_seed(draw_sequences.UNSEEDED)), first)


@also("randomness.seed.covers-all", seeds_count=True)
@given(own=draw_sequences.generators_of_ones_own, seed=SEEDS)
def test_generators_of_ones_own_stay_where_they_are(own, seed):
    """Seeding the three does not take a generator back that was made before: it goes on where it was."""
    generator, due = own.build(), own.number(own.build())
    generators.start_all(seed)
    assert own.number(generator) == due


@also("randomness.seed.covers-all", seeds_count=True)
@needs("linux")
@costly(cases=1, because="starts two or four worker processes twice", lowest="default")
@given(case=loading.loadings)
@example(case=Loading(0))
def test_workers_follow_the_seed_of_torch_and_differ_from_each_other(case):
    """After one torch.manual_seed, what workers draw from torch, NumPy and random repeats, and is all different.

    Whatever states NumPy and Python's random are in: both are seeded in each worker from torch's, and so is what a
    worker_init_fn seeds with torch.initial_seed(). The shuffled order repeats too. What default_rng() gives without a
    seed does not.
    """
    first, second = case.epochs(), case.epochs()
    drawn = [[item[:6] for epoch in run for item in epoch] for run in (first, second)]
    assert drawn[0] == drawn[1]
    values = [value for epoch in first for item in epoch for value in item.follows_the_seed]
    values += [item.entropy for run in (first, second) for epoch in run for item in epoch]
    assert len(set(values)) == len(values)


@also("randomness.seed.covers-all", seeds_count=True)
@needs("linux")
@costly(cases=1, because="starts two or four worker processes", lowest="default")
@given(case=loading.loadings)
@example(case=Loading(0))
@example(case=Loading(0, persistent=True))
def test_generators_stored_on_the_data_set_repeat_in_every_worker(case):
    """A copy of a stored generator goes with each worker, so that all of them draw the same from it.

    Each epoch's workers get new copies from where the data set's own generators still stand, and repeat the epoch
    before; persistent ones go on.
    """
    epochs = case.epochs()
    drawn = [[item.drawn_from_stored for item in of_worker(epoch, worker)] for epoch in epochs for worker in (0, 1)]
    assert drawn[0] == drawn[1]
    assert drawn[2] == drawn[3]
    assert (drawn[0] == drawn[2]) == (not case.persistent)
    assert drawn[0][0] == case.inherited_numbers()


@also("randomness.seed.covers-all")
@costly(cases=1, because="starts two processes", lowest="default")
def test_the_hash_of_a_string_is_another_in_every_process():
    """Strings hash to other numbers in every process, and sets of them come in another order, whatever is seeded.

    Unless the environment variable PYTHONHASHSEED is set before Python starts.
    """
    assert generators.hash_in_a_fresh_process("token") != generators.hash_in_a_fresh_process("token")


@also("randomness.seed.covers-all", seeds_count=True)
@given(
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64, torch.uint8]),
    shape=st.lists(st.integers(0, 8), max_size=3).map(tuple),
)
@example(dtype=torch.float32, shape=(64,))
@example(dtype=torch.int32, shape=(64,))
def test_deterministic_algorithms_fill_memory_that_nobody_has_written(dtype, shape):
    """torch.empty under deterministic algorithms is all NaN, or all the largest integer.

    So a result that becomes repeatable under them may have been read from memory that was never written, which no
    seed reaches. The filling has a switch of its own.
    """
    with generators.deterministic_algorithms(fills=True):
        x = torch.empty(shape, dtype=dtype)
        assert (x.isnan() if dtype.is_floating_point else x == torch.iinfo(dtype).max).all()


@also("randomness.seed.covers-all")
def test_the_filling_of_unwritten_memory_has_a_switch_of_its_own():
    """With the switch off, deterministic algorithms leave memory from the system as it comes, and that is not NaN."""
    with generators.deterministic_algorithms(fills=False):
        assert not torch.empty(2**24)[:: 2**20].isnan().any()


@also("randomness.seed.covers-all", seeds_count=True)
@needs("cuda")
@costly(cases=10, because="adds up a million numbers on the device ten times")
@given(seed=SEEDS, rows=st.integers(1, 64))
def test_deterministic_algorithms_repeat_sums_on_a_gpu(seed, rows):
    """index_add_ and scatter_add_ on a GPU give the same bits each time under deterministic algorithms.

    Without them their order of summation is free. A difference may or may not show, so that none is asked for.
    """
    with generators.deterministic_algorithms(fills=True):
        assert len(generators.sums_on_cuda(seed, rows, repeats=5)) == 1


context(
    "randomness.determinism.debugging",
    "Determinism helps in debugging.",
    source="the document, section 7",
)
