"""Programs of draws: what they reach, that their calls draw where they say, and that they paste."""

import random
from collections import Counter

import numpy as np
import pytest
import torch

from properties.instruments import generators
from properties.instruments.generators import Source
from properties.strategies import draw_sequences, loading, masks
from properties.strategies.draw_sequences import TELLING, Call, Draw, Kind, Own, Program, Rerun
from properties.tests.drawing import drawn, share, smallest


def test_both_sides_of_each_condition_are_reached() -> None:
    reruns = drawn(draw_sequences.same_order()) + drawn(draw_sequences.another_order())
    assert share(reruns[:300], lambda case: case.keeps_the_order) == 1
    assert share(reruns[300:], lambda case: case.keeps_the_order) == 0
    assert share(reruns[:300], lambda case: case.extra) >= 0.2
    assert share(reruns[300:], lambda case: case.extra) >= 0.2
    assert share(reruns[300:], lambda case: not case.extra) >= 0.2
    assert share(drawn(draw_sequences.programs), lambda case: case.draws_elsewhere) == 0
    assert share(drawn(draw_sequences.programs_from_elsewhere), lambda case: case.draws_elsewhere) == 1


def test_pairs_of_seeds_differ_and_lie_on_their_side() -> None:
    within = drawn(draw_sequences.pairs_within_32_bits)
    assert all(one != other and 0 <= min(one, other) <= max(one, other) < 2**32 for one, other in within)
    beyond = drawn(draw_sequences.pairs_beyond_32_bits)
    assert all(one != other and (min(one, other) < 0 or max(one, other) >= 2**32) for one, other in beyond)
    assert share(beyond, lambda pair: pair[0] % 2**32 == pair[1] % 2**32) >= 0.1
    assert share(beyond, lambda pair: pair[0] == -pair[1]) >= 0.1


def test_seeds_lie_at_the_edges() -> None:
    seeds = drawn(draw_sequences.any_seeds)
    for edge in (0, -1, 2**32, 2**64, -(2**63)):
        assert edge in seeds
    assert share(seeds, lambda seed: seed < 0) >= 0.2
    assert share(seeds, lambda seed: 0 <= seed < 2**32) >= 0.2
    assert share(seeds, lambda seed: not -(2**63) <= seed < 2**64) >= 0.1


def test_every_call_is_drawn_and_every_generator_moved() -> None:
    draws = drawn(draw_sequences.of_any_kind, 1000)
    assert {draw.call for draw in draws} == set(Call)
    moved = Counter(draw.moves for draw in draws)
    assert all(moved[source] >= 50 for source in (None, *Source))
    assert share(draws, lambda draw: draw.size < 2) >= 0.05


def test_mixed_programs_draw_from_all_three_and_forget_each() -> None:
    cases = drawn(draw_sequences.forgetful)
    assert all(case.program.moves == set(Source) for case in cases)
    forgotten = Counter(case.forgotten for case in cases)
    assert all(forgotten[source] >= 60 for source in Source)
    assert all({True, False} == set(case.due_to_be_the_same) for case in cases)


def test_interleavings_keep_the_order_of_each_generator() -> None:
    cases = drawn(draw_sequences.interleavings)
    for program, other in cases:
        for source in Source:
            queues = [[draw for draw in each.draws if draw.moves is source] for each in (program, other)]
            assert queues[0] == queues[1]
    assert share(cases, lambda case: case[0] != case[1]) >= 0.4


@pytest.mark.parametrize("call", list(Call))
def test_a_call_that_tells_streams_apart_gives_another_value_each_time(call: Call) -> None:
    draw = Draw(call, TELLING)
    with generators.unseeded():
        random_ = draw.run() != draw.run()
    assert random_ == ((draw.moves is not None and call is not Call.LOADER) or draw.is_from_elsewhere)


def test_no_call_is_so_short_that_what_is_drawn_after_it_may_reject_it_all() -> None:
    for call in Call:
        source = Draw(call).moves
        if source in (Source.NUMPY, Source.PYTHON):
            generators.start_all(0)
            Draw(call, TELLING).run()
            states = {
                Source.NUMPY: np.random.get_state(legacy=False)["state"]["pos"],
                Source.PYTHON: random.getstate()[1][-1],
            }
            assert states[source] >= {Source.NUMPY: 126, Source.PYTHON: 63}[source], call


def test_descriptions_paste() -> None:
    for case in drawn(draw_sequences.another_order(), 20):
        assert eval(repr(case), vars(draw_sequences)) == case
    assert repr(Draw(Call.RAND, 3)) == "Draw(call=Call.RAND, size=3)"


def test_the_smallest_rerun_in_another_order_has_one_draw() -> None:
    found = smallest(draw_sequences.another_order(), lambda case: True)
    assert isinstance(found, Rerun)
    assert (len(found.program.draws), len(found.extra)) == (1, 1)


def test_histories_are_told_apart_by_generator() -> None:
    one, two, three = Draw(Call.RAND), Draw(Call.NUMPY_BYTES), Draw(Call.RANDN)
    program = Program((one, two, three))
    assert program.history(2) == (one, three)
    assert program.history(1) == (two,)
    assert program.turns == (Source.TORCH, Source.NUMPY, Source.TORCH)


@pytest.mark.parametrize("kind", list(Kind))
def test_own_generators_go_on(kind: Kind) -> None:
    own = Own(kind, 5, drawn=2)
    generator = Own(kind, 5).build()
    assert own.number(own.build()) == [own.number(generator) for _ in range(3)][2]


def test_moved_by_sees_each_generator_and_unseeded_puts_them_back() -> None:
    before = [generators.state(source) for source in Source]
    with generators.unseeded():
        assert generators.moved_by(torch.rand, 1) == {Source.TORCH}
        assert generators.moved_by(np.random.rand) == {Source.NUMPY}
        assert generators.moved_by(random.random) == {Source.PYTHON}
        assert generators.moved_by(int) == frozenset()
        # A normal number in hand is part of the state, although no word was taken for it.
        np.random.standard_normal()
        assert generators.moved_by(np.random.standard_normal) == {Source.NUMPY}
    assert [generators.state(source) for source in Source] == before


def test_refused_seeds_are_none_and_others_are_numbers() -> None:
    with generators.unseeded():
        assert generators.numbers_or_none(Source.NUMPY, -1) is None
        assert generators.numbers_or_none(Source.TORCH, 2**64) is None
        assert generators.numbers_or_none(Source.PYTHON, 2**64) is not None
        assert generators.tells_apart(0, 1)
        assert not generators.tells_apart(0, 2**32)


def test_loadings_persist_and_shuffle_or_not() -> None:
    cases = drawn(loading.loadings)
    for choice in (lambda case: case.persistent, lambda case: case.shuffle):
        assert 0.2 <= share(cases, choice) <= 0.8


def test_epochs_drop_their_rest_and_have_their_own_generator_or_not() -> None:
    cases = drawn(loading.epochs)
    for choice in (lambda case: case.drop_last, lambda case: case.own, lambda case: case.items % case.batch == 0):
        assert 0.05 <= share(cases, choice) <= 0.8
    assert sum(loading.Epochs(33, 8).lengths) == 33
    assert loading.Epochs(33, 8, drop_last=True).lengths == [8] * 4


def test_masks_and_regions_reach_every_kind() -> None:
    assert {case.dropped for case in drawn(masks.masks)} == set(masks.Dropped)
    assert 0.2 <= share(drawn(masks.masks), lambda case: case.trained) <= 0.8
    assert 0.2 <= share(drawn(masks.regions), lambda case: case.keeps_state) <= 0.9
    assert masks.Mask(masks.Dropped.ROW, 0.5).data().shape == (16, masks.UNITS // 16, 3)


def test_odd_programs_leave_a_normal_number_at_hand() -> None:
    for program in drawn(draw_sequences.odd_programs, 20):
        with generators.unseeded():
            program.run()
            assert np.random.get_state(legacy=False)["has_gauss"] == 1
            assert random.getstate()[2] is not None


def test_what_is_spawned_is_a_parent_and_two_litters() -> None:
    assert len(draw_sequences.spawned(5, 3)) == 7
    first = np.random.default_rng(np.random.SeedSequence(5).spawn(1)[0]).integers(2**63, size=2).tolist()
    assert draw_sequences.spawned(5, 3)[1] == tuple(first)
    assert Own(Kind.PYTHON, 5).numbers() == [random.Random(5).random(), *Own(Kind.PYTHON, 5, drawn=1).numbers()[:3]]
