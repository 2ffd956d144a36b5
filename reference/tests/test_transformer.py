"""The closed forms of decoders against published parameter counts, textbook cases, and as mathematics."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import sympy

from reference import transformer
from reference.planner import AttentionCounted, ParametersCounted
from reference.transformer import Biases, Decoder, FeedForward, Norm, Positions, Projection

FULL, CAUSAL, NONE = AttentionCounted.FULL, AttentionCounted.CAUSAL, AttentionCounted.NONE
GPT_2 = Decoder(12, 768, 12, 12, 64, 3072, 50257, 1024)
LLAMA_3_70B = Decoder(
    *(80, 8192, 64, 8, 128, 28672, 128256, 8192),
    feed_forward=FeedForward.GATED,
    projection=Projection.UNTIED,
    biases=Biases.NONE,
    norm=Norm.RMS,
    positions=Positions.ROTARY,
)


@pytest.mark.parametrize(
    ("decoder", "published"),
    [
        (GPT_2, 124_439_808),
        (Decoder(24, 1024, 16, 16, 64, 4096, 50257, 1024), 354_823_168),
        (Decoder(36, 1280, 20, 20, 64, 5120, 50257, 1024), 774_030_080),
        (Decoder(48, 1600, 25, 25, 64, 6400, 50257, 1024), 1_557_611_200),
        (replace(LLAMA_3_70B, layers=32, width=4096, heads=32, hidden=14336), 8_030_261_248),
        (LLAMA_3_70B, 70_553_706_496),
        (replace(LLAMA_3_70B, layers=126, width=16384, heads=128, hidden=53248), 405_853_388_800),
    ],
)
def test_a_published_decoder_has_its_published_parameters(decoder: Decoder, published: int) -> None:
    assert transformer.parameters(decoder) == published


def test_gpt_3_has_175_billion_parameters_to_the_billion() -> None:
    assert round(transformer.parameters(Decoder(96, 12288, 96, 96, 128, 49152, 50257, 2048)) / 1e9) == 175


def test_a_decoder_of_ones_has_the_parameters_that_can_be_counted_by_hand() -> None:
    ones = Decoder(1, 1, 1, 1, 1, 1, 1, 1)
    # token and place, q k v o, up and down, a bias each, three norms of a scale and a shift
    assert transformer.parameters(ones) == 2 + 4 + 2 + 6 + 6
    bare = replace(ones, biases=Biases.NONE, norm=Norm.RMS, positions=Positions.ROTARY)
    assert transformer.parameters(bare) == 1 + 4 + 2 + 3
    gated = replace(bare, feed_forward=FeedForward.GATED, projection=Projection.UNTIED)
    assert transformer.parameters(gated) == 1 + 4 + 3 + 3 + 1


def test_sharing_keys_takes_their_matrices_off_and_no_scores() -> None:
    shared = replace(GPT_2, key_value_heads=3)
    assert transformer.attention_weights(GPT_2) - transformer.attention_weights(shared) == 2 * 768 * 9 * 64
    assert transformer.attention_flops(GPT_2, 2, 9, FULL) == transformer.attention_flops(shared, 2, 9, FULL)


@pytest.mark.parametrize("context", [1, 2, 1024])
def test_causal_attention_is_the_pairs_that_can_be_counted_one_by_one(context: int) -> None:
    pairs = sum(place + 1 for place in range(context))
    each = 4 * 12 * 768
    assert transformer.attention_flops(GPT_2, 1, context, CAUSAL) == each * pairs
    assert transformer.attention_flops(GPT_2, 1, context, FULL) == each * context**2
    assert transformer.attention_flops(GPT_2, 1, context, NONE) == 0


def test_scores_are_half_of_attention() -> None:
    assert 2 * transformer.scores_flops(GPT_2, 3, 10) == transformer.attention_flops(GPT_2, 3, 10, FULL)
    assert transformer.scores_again_flops(GPT_2, 3, 10) == transformer.scores_flops(GPT_2, 3, 10)


def test_backward_is_twice_forward_and_both_are_linear_in_the_batch() -> None:
    one, three = (transformer.forward_flops(GPT_2, batch, 64, FULL) for batch in (1, 3))
    assert three == 3 * one
    assert transformer.backward_flops(GPT_2, 3, 64, FULL) == 2 * three


def test_the_excess_is_what_the_exact_count_has_above_the_rule() -> None:
    for counted in (FULL, CAUSAL, NONE):
        rule = transformer.rule_flops(transformer.multiplied_weights(LLAMA_3_70B), 8192)
        exact = transformer.forward_flops(LLAMA_3_70B, 1, 8192, counted)
        assert Fraction(exact - rule, rule) == transformer.attention_excess(LLAMA_3_70B, 8192, counted)


def test_a_standard_block_has_an_excess_of_the_context_over_six_widths() -> None:
    blocks = transformer.rule_flops(transformer.block_weights(GPT_2), 1024)
    for counted, form in (
        (FULL, transformer.standard_block_excess),
        (CAUSAL, transformer.causal_standard_block_excess),
    ):
        attention = transformer.attention_flops(GPT_2, 1, 1024, counted)
        assert Fraction(attention, blocks) == form(768, 1024)


def test_the_projection_of_gpt_2_small_is_45_percent_of_its_blocks() -> None:
    assert round(100 * transformer.projection_weights(GPT_2) / transformer.block_weights(GPT_2)) == 45


@pytest.mark.parametrize("which", ParametersCounted)
@pytest.mark.parametrize("counted", [FULL, CAUSAL])
@pytest.mark.parametrize("decoder", [GPT_2, LLAMA_3_70B, replace(GPT_2, projection=Projection.UNTIED)])
def test_the_error_of_the_rule_is_within_its_bound(
    decoder: Decoder, which: ParametersCounted, counted: AttentionCounted
) -> None:
    for context in (1, 1024, 131072):
        error = transformer.rule_error(decoder, context, which, counted)
        assert abs(error) <= transformer.rule_bound(decoder, context, which, counted)


@pytest.mark.parametrize(
    ("which", "context", "error", "bound"),
    [
        (ParametersCounted.MULTIPLIED, 2, Fraction(28, 44) - 1, Fraction(4, 7)),
        (ParametersCounted.ALL, 2, Fraction(40, 44) - 1, Fraction(4, 7)),
        (ParametersCounted.ALL, 1, Fraction(20, 18) - 1, Fraction(3, 7)),
        (ParametersCounted.BLOCKS, 2, Fraction(24, 44) - 1, Fraction(4, 7) + Fraction(1, 7)),
    ],
)
def test_error_and_bound_of_a_decoder_of_ones_are_those_found_by_hand(
    which: ParametersCounted, context: int, error: Fraction, bound: Fraction
) -> None:
    """It has 10 parameters, 6 of them in its block and 7 of them multiplied, and attention takes 4 a pair."""
    ones = Decoder(1, 1, 1, 1, 1, 1, 1, 1, biases=Biases.NONE, norm=Norm.RMS, positions=Positions.ROTARY)
    assert transformer.rule_error(ones, context, which, FULL) == error
    assert transformer.rule_bound(ones, context, which, FULL) == bound


def test_symbols_give_the_formula() -> None:
    layers, width, heads, channels, hidden, vocabulary, batch, context = sympy.symbols("L D H d F V B T", positive=True)
    decoder = Decoder(layers, width, heads, heads, channels, hidden, vocabulary, context)
    flops = transformer.forward_flops(decoder, batch, context, CAUSAL)
    weights = layers * (4 * width * heads * channels + 2 * width * hidden) + width * vocabulary
    expected = 2 * batch * context * weights + 2 * batch * layers * heads * channels * context * (context + 1)
    assert sympy.simplify(flops - expected) == 0
    values = {layers: 12, width: 768, heads: 12, channels: 64, hidden: 3072, vocabulary: 50257, batch: 2, context: 64}
    assert flops.subs(values) == transformer.forward_flops(GPT_2, 2, 64, CAUSAL)
    assert transformer.standard_block_excess(width, context) == context / (6 * width)
