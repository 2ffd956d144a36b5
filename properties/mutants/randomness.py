"""Worlds in which seeds do less than they are said to do, or more, and generators reach into each other."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
import torch.utils.checkpoint
from jaxtyping import Shaped
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler

from properties.mutants.mutant import mutant, patched

# ── where randomness comes from ──


@mutant(
    "dropout-that-keeps-everything",
    breaks=("randomness.sources", "randomness.seed.three-generators"),
    properties=(
        "test_initialisation_dropout_and_order_are_random",
        "test_every_call_moves_the_generator_that_it_draws_from_and_no_other",
    ),
)
def dropout_that_keeps_everything() -> Iterator[None]:
    """Dropout drops nothing, in training neither."""

    def keeping(x: Shaped[Tensor, "..."], *arguments: Any, **keywords: Any) -> Shaped[Tensor, "..."]:
        return x

    with patched(torch.nn.functional, "dropout", keeping):
        yield


@mutant(
    "loaders-that-shuffle-the-same-way",
    breaks=("randomness.sources",),
    properties=("test_initialisation_dropout_and_order_are_random",),
)
def loaders_that_shuffle_the_same_way() -> Iterator[None]:
    """Every permutation of so many things is the same one."""

    def fixed(count: int, **keywords: Any) -> Shaped[Tensor, "count"]:
        return torch.arange(count).flip(0)

    with patched(torch, "randperm", fixed):
        yield


@mutant(
    "dropout-that-goes-on-in-evaluation",
    breaks=("randomness.sources", "randomness.seed.three-generators"),
    properties=(
        "test_dropout_scales_what_it_keeps_and_keeps_all_in_evaluation",
        "test_what_draws_in_training_draws_nothing_in_evaluation",
        "test_every_call_moves_the_generator_that_it_draws_from_and_no_other",
    ),
)
def dropout_that_goes_on_in_evaluation() -> Iterator[None]:
    """Dropout drops in evaluation what it drops in training."""
    dropout = torch.nn.functional.dropout

    def always(x: Shaped[Tensor, "..."], p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return dropout(x, p, True, inplace)

    with patched(torch.nn.functional, "dropout", always):
        yield


@mutant(
    "dropout-that-scales-in-evaluation",
    breaks=("randomness.sources",),
    properties=("test_dropout_scales_what_it_keeps_and_keeps_all_in_evaluation",),
)
def dropout_that_scales_in_evaluation() -> Iterator[None]:
    """Dropout keeps as it is what it does not drop, and multiplies everything by 1 - p in evaluation."""
    dropout = torch.nn.functional.dropout

    def late(x: Shaped[Tensor, "..."], p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return dropout(x, p, training, inplace) * (1 - p)

    with patched(torch.nn.functional, "dropout", late):
        yield


@mutant(
    "channels-that-lose-elements",
    breaks=("randomness.sources",),
    properties=("test_dropout_scales_what_it_keeps_and_keeps_all_in_evaluation",),
)
def channels_that_lose_elements() -> Iterator[None]:
    """Dropout of whole channels drops elements one by one."""
    functional: Any = torch.nn.functional
    with (
        patched(functional, "dropout1d", functional.dropout),
        patched(functional, "dropout2d", functional.dropout),
        patched(functional, "dropout3d", functional.dropout),
    ):
        yield


@mutant(
    "evaluation-of-the-outermost",
    breaks=("randomness.sources",),
    properties=("test_what_draws_in_training_draws_nothing_in_evaluation",),
)
def evaluation_of_the_outermost() -> Iterator[None]:
    """eval() reaches a module, and none of the modules in it."""

    def alone(module: torch.nn.Module) -> torch.nn.Module:
        module.training = False
        return module

    with patched(torch.nn.Module, "eval", alone):
        yield


@mutant(
    "samplers-that-keep-their-order",
    breaks=("randomness.sources",),
    properties=("test_an_epoch_has_everything_once_in_an_order_of_its_own",),
)
def samplers_that_keep_their_order() -> Iterator[None]:
    """A shuffling loader has the same order in every epoch."""
    iterate: Any = RandomSampler.__iter__

    def again(sampler: Any) -> Any:
        if not hasattr(sampler, "kept"):
            sampler.kept = list(iterate(sampler))
        return iter(sampler.kept)

    with patched(RandomSampler, "__iter__", again):
        yield


@mutant(
    "loaders-that-keep-the-rest",
    breaks=("randomness.sources",),
    properties=("test_an_epoch_has_everything_once_in_an_order_of_its_own",),
)
def loaders_that_keep_the_rest() -> Iterator[None]:
    """A loader that is told to drop its last batch keeps it."""
    make: Any = DataLoader.__init__

    def keeping(loader: DataLoader[Any], *arguments: Any, drop_last: bool = False, **keywords: Any) -> None:
        make(loader, *arguments, **keywords)

    with patched(DataLoader, "__init__", keeping):
        yield


@mutant(
    "orders-with-repetitions",
    breaks=("randomness.sources",),
    properties=("test_an_order_loses_nothing_and_repeats_nothing",),
)
def orders_with_repetitions() -> Iterator[None]:
    """np.random.permutation draws with replacement."""
    with patched(np.random, "permutation", lambda count: np.random.randint(0, count, count)):
        yield


# ── what a seed fixes ──


@mutant(
    "regions-that-draw-anew",
    breaks=("randomness.seed.reproduces",),
    properties=("test_dropout_that_is_run_again_drops_the_same",),
)
def regions_that_draw_anew() -> Iterator[None]:
    """A checkpointed region goes on drawing in its second run."""
    checkpointing: Any = torch.utils.checkpoint
    original = checkpointing.checkpoint

    def anew(*arguments: Any, preserve_rng_state: bool = True, **keywords: Any) -> Any:
        return original(*arguments, preserve_rng_state=False, **keywords)

    with patched(checkpointing, "checkpoint", anew):
        yield


@mutant(
    "states-without-what-is-at-hand",
    breaks=("randomness.seed.reproduces",),
    properties=("test_a_saved_state_fixes_what_follows_too",),
)
def states_without_what_is_at_hand() -> Iterator[None]:
    """Putting a state back forgets the normal number that was at hand, in NumPy and Python."""
    of_numpy, of_python = np.random.set_state, random.setstate
    with (
        patched(np.random, "set_state", lambda state: of_numpy(state[:3])),
        patched(random, "setstate", lambda state: of_python((*state[:2], None))),
    ):
        yield


@mutant(
    "seeds-that-are-ignored",
    breaks=(
        "randomness.sources",
        "randomness.seed.reproduces",
        "randomness.seed.three-generators",
        "randomness.seed.distinct",
        "randomness.seed.covers-all",
    ),
    properties=(
        "test_initialisation_dropout_and_order_are_random",
        "test_a_seed_fixes_what_follows_in_the_same_order",
        "test_each_library_makes_of_a_seed_what_its_rule_says",
        "test_a_program_repeats_where_it_draws_from_the_three_generators_alone",
        "test_a_gpu_repeats_its_own_stream_and_no_cpu_repeats_it",
        "test_the_one_seed_of_torch_reaches_every_gpu",
    ),
)
def seeds_that_are_ignored() -> Iterator[None]:
    """torch.manual_seed, and that of its own generator, leave it where it is."""

    class Deaf:
        def manual_seed(self, seed: int) -> torch.Generator:
            return generator

        def __getattr__(self, name: str) -> Any:
            return getattr(generator, name)

    generator = torch.default_generator
    with patched(torch, "manual_seed", lambda seed: generator), patched(torch, "default_generator", Deaf()):
        yield


@mutant(
    "states-that-are-ignored",
    breaks=("randomness.seed.reproduces",),
    properties=("test_a_saved_state_fixes_what_follows_too",),
)
def states_that_are_ignored() -> Iterator[None]:
    """torch.set_rng_state leaves the generator where it is."""
    with patched(torch, "set_rng_state", lambda state: None):
        yield


@mutant(
    "normal-numbers-with-prefixes",
    breaks=("randomness.seed.reproduces",),
    properties=("test_a_longer_randn_does_not_begin_with_the_shorter_one",),
)
def normal_numbers_with_prefixes() -> Iterator[None]:
    """randn gives the beginning of one long stream, whatever its length."""
    randn = torch.randn

    def beginning(length: int, **keywords: Any) -> Shaped[Tensor, "length"]:
        return randn(128, **keywords)[:length]

    with patched(torch, "randn", beginning):
        yield


@mutant(
    "uniform-numbers-without-prefixes",
    breaks=("randomness.seed.reproduces",),
    properties=("test_a_longer_randn_does_not_begin_with_the_shorter_one",),
)
def uniform_numbers_without_prefixes() -> Iterator[None]:
    """rand fills a tensor from its end."""
    rand = torch.rand

    def backwards(length: int, **keywords: Any) -> Shaped[Tensor, "length"]:
        return rand(length, **keywords).flip(0)

    with patched(torch, "rand", backwards):
        yield


@mutant(
    "normal-numbers-by-the-element",
    breaks=("randomness.seed.reproduces",),
    properties=("test_normal_numbers_depend_on_how_the_tensor_lies",),
)
def normal_numbers_by_the_element() -> Iterator[None]:
    """Normal numbers do not depend on how the tensor lies that they go into."""
    normal = torch.Tensor.normal_

    def anyhow(x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        return x.copy_(normal(torch.empty(x.shape)))

    with patched(torch.Tensor, "normal_", anyhow):
        yield


@mutant(
    "whole-numbers-by-their-width",
    breaks=("randomness.seed.reproduces",),
    properties=("test_whole_numbers_are_the_same_in_every_dtype",),
)
def whole_numbers_by_their_width() -> Iterator[None]:
    """randint takes another number of words for a narrow type."""
    randint = torch.randint

    def narrow(*arguments: Any, dtype: torch.dtype = torch.int64) -> Shaped[Tensor, "..."]:
        if dtype is not torch.int64:
            torch.rand(1)
        return randint(*arguments, dtype=dtype)

    with patched(torch, "randint", narrow):
        yield


@mutant(
    "numpy-seeds-one-off",
    breaks=("randomness.seed.reproduces", "randomness.seed.distinct"),
    properties=(
        "test_a_fresh_process_draws_what_this_one_does",
        "test_each_library_makes_of_a_seed_what_its_rule_says",
    ),
)
def numpy_seeds_one_off() -> Iterator[None]:
    """In this process, np.random.seed takes the next seed."""
    seed = np.random.seed
    with patched(np.random, "seed", lambda value=None: seed(value if value is None else value + 1)):
        yield


# ── three generators ──


@mutant(
    "torch-seeds-numpy-too",
    breaks=("randomness.seed.three-generators",),
    properties=("test_each_of_the_three_generators_needs_its_seed",),
)
def torch_seeds_numpy_too() -> Iterator[None]:
    """torch.manual_seed seeds NumPy's global generator along with its own."""
    manual_seed = torch.manual_seed

    def both(seed: int) -> torch.Generator:
        np.random.seed(seed % 2**32)
        return manual_seed(seed)

    with patched(torch, "manual_seed", both):
        yield


@mutant(
    "loaders-that-tidy-up",
    breaks=("randomness.seed.three-generators",),
    properties=("test_every_call_moves_the_generator_that_it_draws_from_and_no_other",),
)
def loaders_that_tidy_up() -> Iterator[None]:
    """A pass over a DataLoader leaves torch's generator as it was."""
    iterate = DataLoader.__iter__

    def tidy(loader: DataLoader[Any]) -> Any:
        before = torch.get_rng_state()
        try:
            return iter(list(iterate(loader)))
        finally:
            torch.set_rng_state(before)

    with patched(DataLoader, "__iter__", tidy):
        yield


@mutant(
    "numpy-asks-python",
    breaks=("randomness.seed.three-generators",),
    properties=(
        "test_generators_may_take_turns_in_any_order",
        "test_every_call_moves_the_generator_that_it_draws_from_and_no_other",
    ),
)
def numpy_asks_python() -> Iterator[None]:
    """np.random.random draws from Python's generator."""

    def borrowed(size: int) -> Shaped[np.ndarray, "size"]:
        return np.array([random.random() for _ in range(size)])

    with patched(np.random, "random", borrowed):
        yield


@mutant(
    "numpy-with-an-engine-of-its-own",
    breaks=("randomness.seed.three-generators",),
    properties=("test_numpy_and_torch_draw_the_same_whole_numbers_after_the_same_seed",),
)
def numpy_with_an_engine_of_its_own() -> Iterator[None]:
    """np.random.randint draws from a PCG64 that starts where the state of the Mersenne Twister says."""

    def other(low: int, high: int, size: int) -> Shaped[np.ndarray, "size"]:
        _, keys, *_ = np.random.get_state(legacy=True)
        return np.random.default_rng(np.asarray(keys)).integers(low, high, size)

    with patched(np.random, "randint", other):
        yield


@mutant(
    "uniform-numbers-from-the-other-end",
    breaks=("randomness.seed.three-generators",),
    properties=("test_uniform_numbers_are_words_over_a_power_of_two",),
)
def uniform_numbers_from_the_other_end() -> Iterator[None]:
    """torch.rand is above zero and reaches one."""
    rand = torch.rand

    def reaching(*arguments: Any, **keywords: Any) -> Shaped[Tensor, "..."]:
        return 1 - rand(*arguments, **keywords)

    with patched(torch, "rand", reaching):
        yield


@mutant(
    "forks-that-go-on",
    breaks=("randomness.seed.three-generators",),
    properties=("test_every_call_moves_the_generator_that_it_draws_from_and_no_other",),
)
def forks_that_go_on() -> Iterator[None]:
    """What is drawn within torch.random.fork_rng is drawn from the generator outside it."""
    with patched(torch.random, "fork_rng", lambda *arguments, **keywords: nullcontext()):
        yield


# ── which seeds are different ──


@mutant(
    "seeds-in-pairs",
    breaks=("randomness.seed.distinct",),
    properties=("test_different_seeds_give_different_streams", "test_each_library_makes_of_a_seed_what_its_rule_says"),
)
def seeds_in_pairs() -> Iterator[None]:
    """torch.manual_seed loses the lowest bit of a seed."""
    manual_seed = torch.manual_seed
    with patched(torch, "manual_seed", lambda seed: manual_seed(seed & ~1)):
        yield


@mutant(
    "seeds-of-32-bits",
    breaks=("randomness.seed.distinct",),
    properties=("test_a_gpu_tells_seeds_of_64_bits_apart",),
)
def seeds_of_32_bits() -> Iterator[None]:
    """torch.manual_seed keeps the lowest 32 bits of a seed, for a GPU too."""
    manual_seed = torch.manual_seed
    with patched(torch, "manual_seed", lambda seed: manual_seed(seed % 2**32)):
        yield


@mutant(
    "numpy-takes-any-seed",
    breaks=("randomness.seed.distinct",),
    properties=("test_different_seeds_give_different_streams", "test_each_library_makes_of_a_seed_what_its_rule_says"),
)
def numpy_takes_any_seed() -> Iterator[None]:
    """np.random.seed makes something of any whole number, the sign included."""
    seed = np.random.seed

    def lenient(value: int | None = None) -> None:
        seed(value if value is None or 0 <= value < 2**32 else [value >> 32 & 0xFFFFFFFF, value & 0xFFFFFFFF])

    with patched(np.random, "seed", lenient):
        yield


@mutant(
    "default-rng-that-is-deaf",
    breaks=("randomness.seed.distinct",),
    properties=(
        "test_generators_of_ones_own_tell_seeds_apart_too",
        "test_what_a_seed_sequence_spawns_is_different_and_comes_again",
    ),
)
def default_rng_that_is_deaf() -> Iterator[None]:
    """np.random.default_rng starts in the same place whatever seed it is given."""
    default_rng = np.random.default_rng
    with patched(np.random, "default_rng", lambda seed=None: default_rng(0)):
        yield


@mutant(
    "draws-that-are-none",
    breaks=("randomness.seed.three-generators",),
    properties=("test_no_call_that_is_known_moves_another_generator_than_its_own",),
)
def draws_that_are_none() -> Iterator[None]:
    """torch.bernoulli rounds."""
    with patched(torch, "bernoulli", torch.round):
        yield


# ── what no seed reaches ──


@mutant(
    "default-rng-with-a-default-seed",
    breaks=("randomness.seed.covers-all",),
    properties=("test_a_program_repeats_where_it_draws_from_the_three_generators_alone",),
)
def default_rng_with_a_default_seed() -> Iterator[None]:
    """np.random.default_rng() is seeded with zero."""
    default_rng = np.random.default_rng
    with patched(np.random, "default_rng", lambda seed=0: default_rng(seed)):
        yield


@mutant(
    "generators-from-the-system",
    breaks=("randomness.seed.covers-all", "randomness.seed.reproduces"),
    properties=(
        "test_an_unseeded_torch_generator_always_starts_the_same",
        "test_a_fresh_process_draws_what_this_one_does",
    ),
)
def generators_from_the_system() -> Iterator[None]:
    """A torch.Generator that nobody seeds starts from what the system gives it."""
    generator = torch.Generator

    def surprising(device: str = "cpu") -> torch.Generator:
        made = generator(device)
        made.seed()
        return made

    with patched(torch, "Generator", surprising):
        yield


@mutant(
    "seeds-that-are-not-remembered",
    breaks=("randomness.seed.covers-all",),
    properties=(
        "test_an_unseeded_torch_generator_always_starts_the_same",
        "test_workers_follow_the_seed_of_torch_and_differ_from_each_other",
    ),
)
def seeds_that_are_not_remembered() -> Iterator[None]:
    """torch.initial_seed() is one and the same number, in a worker too."""
    with patched(torch, "initial_seed", lambda: 5):
        yield


@mutant(
    "one-generator-for-all",
    breaks=("randomness.seed.covers-all",),
    properties=("test_generators_of_ones_own_stay_where_they_are",),
)
def one_generator_for_all() -> Iterator[None]:
    """torch.Generator() hands out the global generator."""
    with patched(torch, "Generator", lambda device="cpu": torch.default_generator):
        yield


@mutant(
    "workers-that-inherit-numpy",
    breaks=("randomness.seed.covers-all",),
    properties=("test_workers_follow_the_seed_of_torch_and_differ_from_each_other",),
)
def workers_that_inherit_numpy() -> Iterator[None]:
    """A worker starts with the NumPy state of the process that forked it."""
    import torch.utils.data._utils.worker as worker

    with patched(worker, "HAS_NUMPY", False):
        yield


@mutant(
    "workers-that-start-nothing",
    breaks=("randomness.seed.covers-all",),
    properties=("test_workers_follow_the_seed_of_torch_and_differ_from_each_other",),
)
def workers_that_start_nothing() -> Iterator[None]:
    """A worker does not call its worker_init_fn."""
    make: Any = DataLoader.__init__

    def without(loader: DataLoader[Any], *arguments: Any, worker_init_fn: Any = None, **keywords: Any) -> None:
        make(loader, *arguments, **keywords)

    with patched(DataLoader, "__init__", without):
        yield


@mutant(
    "workers-that-seed-the-data-set",
    breaks=("randomness.seed.covers-all",),
    properties=("test_generators_stored_on_the_data_set_repeat_in_every_worker",),
)
def workers_that_seed_the_data_set() -> Iterator[None]:
    """A worker seeds a random.Random that it finds on the data set with a seed of its own."""
    make: Any = DataLoader.__init__

    def initialised(loader: DataLoader[Any], *arguments: Any, worker_init_fn: Any = None, **keywords: Any) -> None:
        def seeding(place: int) -> None:
            info = torch.utils.data.get_worker_info()
            data: Any = info.dataset if info is not None else None
            if isinstance(getattr(data, "python", None), random.Random):
                data.python.seed(place)
            if worker_init_fn is not None:
                worker_init_fn(place)

        make(loader, *arguments, worker_init_fn=seeding, **keywords)

    with patched(DataLoader, "__init__", initialised):
        yield


@mutant(
    "strings-that-hash-the-same",
    breaks=("randomness.seed.covers-all",),
    properties=("test_the_hash_of_a_string_is_another_in_every_process",),
)
def strings_that_hash_the_same() -> Iterator[None]:
    """Strings hash to the same number in every process."""
    run: Any = subprocess.run

    def fixed(*arguments: Any, env: dict[str, str] | None = None, **keywords: Any) -> Any:
        return run(*arguments, env=(env or {}) | {"PYTHONHASHSEED": "0"}, **keywords)

    with patched(subprocess, "run", fixed):
        yield


@mutant(
    "memory-that-comes-as-zeros",
    breaks=("randomness.seed.covers-all",),
    properties=("test_deterministic_algorithms_fill_memory_that_nobody_has_written",),
)
def memory_that_comes_as_zeros() -> Iterator[None]:
    """torch.empty gives zeros."""
    with patched(torch, "empty", torch.zeros):
        yield


@mutant(
    "memory-that-is-always-filled",
    breaks=("randomness.seed.covers-all",),
    properties=("test_the_filling_of_unwritten_memory_has_a_switch_of_its_own",),
)
def memory_that_is_always_filled() -> Iterator[None]:
    """torch.empty gives NaN whatever the switch says."""

    def filled(*shape: Any, **keywords: Any) -> Shaped[Tensor, "..."]:
        return torch.full(shape, torch.nan, **keywords)

    with patched(torch, "empty", filled):
        yield


@mutant(
    "determinism-that-is-not-asked-for",
    breaks=("randomness.seed.covers-all",),
    properties=("test_deterministic_algorithms_repeat_sums_on_a_gpu",),
)
def determinism_that_is_not_asked_for() -> Iterator[None]:
    """The switch to deterministic algorithms does nothing."""
    with patched(torch, "set_deterministic_debug_mode", lambda mode: None):
        yield
