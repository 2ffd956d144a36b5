"""Bytes of training against published counts, and against arithmetic by hand."""

from __future__ import annotations

import pytest
import sympy

from reference import memory
from reference.memory import BFLOAT16_WITH_MASTER, FLOAT32_ADAMW, Block, Chain, Keeps, Replicas, Temporaries

GIGA = 10**9


def test_float32_adamw_takes_sixteen_bytes_and_a_bfloat16_model_with_a_copy_twenty() -> None:
    assert FLOAT32_ADAMW.total == 16
    assert BFLOAT16_WITH_MASTER.total == 20


def test_sharding_is_what_the_zero_paper_counts() -> None:
    """Figure 1 of Rajbhandari and others, "ZeRO" (2020): 7.5e9 parameters at 16 bytes, on 64 devices."""
    assert memory.replicated_bytes(7.5e9, Replicas.GRADIENTS_IN_BUCKETS) == 120 * GIGA
    assert round(memory.evenly_sharded_bytes(7.5e9, 64) / GIGA, 1) == 1.9


def test_a_block_keeps_what_a_published_count_says_without_dropout() -> None:
    """Korthikanti and others, "Reducing activation recomputation" (2022), count 34 units and 5 of scores, in bytes.

    That is of 16-bit numbers with dropout, whose masks take a byte each: two of a unit and one of the scores, of which
    it also keeps what it lets through. Without them 32 and 2 remain, two bytes each.
    """
    block = Block(batch=2, context=64, width=32, heads=4)
    sixteen_bit_units = (34 - 2) / 2
    scores = (5 - 1 - 2) / 2
    assert memory.block_units(32, 64, heads=4) == sixteen_bit_units + scores * 4 * 64 / 32
    beside = 4 * (4 * 2 * 64) + 64**2
    assert memory.composed_block_saved_bytes(block) == 4 * 24 * block.unit + beside
    assert memory.block_saved_bytes(block) == 4 * 16 * block.unit + 4 * 4 * 2 * 64 + 4 * 4 * 2 * 64


@pytest.mark.parametrize(
    ("name", "settings", "copies"),
    [
        ("SGD", {}, 0),
        ("SGD", {"momentum": 0.9}, 1),
        ("AdamW", {}, 2),
        ("AdamW", {"amsgrad": True}, 3),
        ("AdamW", {"amsgrad": False}, 2),
        ("RMSprop", {}, 1),
        ("RMSprop", {"momentum": 0.9}, 2),
        ("RMSprop", {"momentum": 0.9, "centered": True}, 3),
        ("Muon", {}, 1),
    ],
)
def test_state_is_a_multiple_of_the_parameters(name: str, settings: dict[str, object], copies: int) -> None:
    assert memory.optimizer_state(name, settings, [(3, 4), (5,)]) == copies * 17


def test_adafactor_keeps_rows_and_columns_and_lbfgs_its_pairs() -> None:
    assert memory.adafactor_state((64, 96)) == 160
    assert memory.adafactor_state((5, 64, 96)) == 5 * 160
    assert [memory.adafactor_state(shape) for shape in ((7,), (), (1, 1))] == [7, 1, 2]
    assert memory.optimizer_state("Adafactor", {}, [(64, 96), (7,)]) == 167
    assert memory.optimizer_state("LBFGS", {}, [(3, 4), (5,)], pairs=10) == 22 * 17
    assert memory.optimizer_state("LBFGS", {}, [(3, 4), (5,)]) == 2 * 17


def test_an_unknown_optimizer_is_refused() -> None:
    with pytest.raises(KeyError):
        memory.optimizer_state("Newton", {}, [(3,)])


def test_temporaries_go_by_the_order_of_the_parameters() -> None:
    adam = memory.TEMPORARIES["AdamW"]
    assert memory.one_by_one(adam, [10]) == 20
    assert memory.one_by_one(adam, [10, 100]) == 210
    assert memory.one_by_one(adam, [100, 10]) == 200
    assert memory.one_by_one(Temporaries(((2, 1), (1, 2)), 2), [10, 5]) == 25
    assert memory.one_by_one(adam, []) == 0
    assert memory.at_once_bytes("AdamW", [(10,), (100,)], 4) == 440
    assert memory.one_by_one_bytes("Muon", [(100, 10)], 4) == 8 * 1000 + 400
    assert memory.one_by_one_bytes("Adafactor", [(7,)], 4) == 4 * (7 + 7)
    assert memory.one_by_one_bytes("Adafactor", [(5, 7)], 4) == 4 * (35 + 12 + 1)
    assert memory.one_by_one_bytes("Adafactor", [(2, 5, 7)], 4) == 4 * (70 + 24 + 2)
    assert memory.at_once_bytes("Adafactor", [(7,), (5, 7), (2, 5, 7)], 4) == 4 * (112 + 3)
    assert memory.at_once_bytes("Rprop", [(10, 100), (400,)], 4) == 4 * 1400 + 5 * 1000
    with pytest.raises(ValueError, match="unpack"):
        memory.one_by_one_bytes("Adafactor", [(3,), (3,)], 4)


WIDTHS = (3, 5, 2, 4)
TRAINED = (True, True, True)


@pytest.mark.parametrize(
    ("chain", "a_row"),
    [
        (Chain(WIDTHS, Keeps.NOTHING, TRAINED, closed=False), 3 + 5 + 2),
        (Chain(WIDTHS, Keeps.NOTHING, (False, True, False), closed=True), 5),
        (Chain(WIDTHS, Keeps.OUTPUT, TRAINED, closed=False), 3 + 5 + 2),
        (Chain(WIDTHS, Keeps.OUTPUT, TRAINED, closed=True), 3 + 5 + 2 + 4),
        (Chain(WIDTHS, Keeps.OUTPUT, (True, False, False), closed=True), 3 + 5 + 2 + 4),
        (Chain(WIDTHS, Keeps.OUTPUT, (False, False, True), closed=False), 2),
        (Chain(WIDTHS, Keeps.INPUT, TRAINED, closed=False), 3 + 5 + 5 + 2 + 2),
        (Chain(WIDTHS, Keeps.INPUT, (False, True, False), closed=True), 5 + 2 + 4),
        (Chain(WIDTHS, Keeps.MASK, TRAINED, closed=True), 3 + 5 + 5 + 2 + 2 + 4),
        (Chain(WIDTHS, Keeps.OUTPUT, (False, False, False), closed=True), 0),
    ],
)
def test_a_chain_keeps_what_its_gradients_need(chain: Chain, a_row: int) -> None:
    assert memory.chain_saved(chain, rows=1) == a_row
    assert memory.chain_saved(chain, rows=7) == 7 * a_row


@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 5])
def test_equal_layers_keep_whole_tensors_within_the_stated_error(keeps: Keeps, closed: bool, layers: int) -> None:
    chain = Chain((3,) * (layers + 1), keeps, (True,) * layers, closed)
    exact = memory.tensors_saved(layers, keeps, closed)
    assert memory.chain_saved(chain, rows=2) == 2 * 3 * exact
    assert abs(layers - exact) <= memory.chain_error(layers, keeps) * exact
    if closed:
        assert abs(layers - exact) == memory.chain_error(layers, keeps) * exact


def test_a_chain_by_phase_keeps_what_a_chain_keeps_and_ends_at_sixteen_bytes_a_parameter() -> None:
    widths, rows = (3, 5, 2, 4), 7
    by_phase = memory.chain_by_phase(widths, rows, on_top=9)
    chain = Chain(widths, Keeps.OUTPUT, (True,) * 3, closed=False)
    for_the_loss = 4 * rows * widths[-1]
    kept = by_phase["after forward", "saved for backward"] + by_phase["after forward", "inputs"]
    assert kept - for_the_loss == 4 * memory.chain_saved(chain, rows)
    parameters, tensors = 4 * 5 + 6 * 2 + 3 * 4, 6
    ended = [nbytes for (phase, kind), nbytes in by_phase.items() if phase == "after the step" and kind != "inputs"]
    assert sum(ended) == 16 * parameters + 4 * tensors
    inside = sum(nbytes for (phase, _), nbytes in by_phase.items() if phase == "inside the step")
    assert inside - sum(ended) == 9 + 4 * rows * widths[0]


def test_rows_are_dealt_out_in_chunks() -> None:
    """The shares that torch.chunk makes: as even as rounding up allows, the last ones smaller or none."""
    assert [memory.own_rows(7, 3, rank) for rank in range(3)] == [3, 3, 1]
    assert [memory.own_rows(5, 4, rank) for rank in range(4)] == [2, 2, 1, 0]
    assert [memory.own_rows(1, 2, rank) for rank in range(2)] == [1, 0]
    assert all(sum(memory.own_rows(n, d, rank) for rank in range(d)) == n for n in range(20) for d in range(1, 9))


def test_uneven_rows_are_padded_in_weights_and_gradients_only() -> None:
    shapes = [(31, 16), (31,)]
    first, second = (memory.sharded_bytes(shapes, 2, rank) for rank in range(2))
    assert first == 16 * (16 * 16 + 16)
    assert second == 8 * (16 * 16 + 16) + 8 * (15 * 16 + 15)
    assert memory.sharded_bytes([(32, 16)], 2, 1) == memory.evenly_sharded_bytes(32 * 16, 2)


def test_checkpointing_keeps_a_segments_first_input() -> None:
    assert [memory.checkpointed_saved(2, 3, 6, segment) for segment in (1, 2, 4, 6, 9)] == [36, 18, 12, 6, 6]


def test_closed_forms_print_themselves() -> None:
    rows, width, layers, context, heads = sympy.symbols("B D L C H")
    assert memory.rule_of_thumb(rows, width, layers) == rows * width * layers
    assert memory.block_units(width, context, heads) == 16 + heads * context / width
    assert memory.evenly_sharded_bytes(sympy.Symbol("N"), sympy.Symbol("P")) == 16 * sympy.Symbol("N") / sympy.Symbol(
        "P"
    )


def test_blocks_of_a_card_are_whole_multiples_of_512_bytes() -> None:
    assert [memory.block_bytes(nbytes) for nbytes in (0, 1, 512, 513)] == [0, 512, 512, 1024]
