"""Chapter 5, transformers: what a decoder's forward and backward pass cost, small and at full size."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.nn import functional as F

from properties.claims import also, approximates, context, costly, holds_when, needs
from properties.evidence import every, observe, when
from properties.instruments.flops import Phase, count_flops
from properties.strategies import transformers
from properties.strategies.transformers import CONTEXTS, PUBLISHED, Attention, HeadGroups, Model, Part
from properties.strategies.workloads import OneBlock
from properties.witnesses import assert_agree
from reference import transformer
from reference.hardware import Arithmetic
from reference.planner import AttentionCounted, ParametersCounted
from reference.scalars import Mask
from reference.transformer import Decoder, FeedForward, Projection

FULL, CAUSAL = AttentionCounted.FULL, AttentionCounted.CAUSAL
TEN_MILLISECONDS = "both passes of a decoder of two layers take 10 ms"
TWO_SECONDS = "a decoder of 70e9 parameters takes two seconds on the meta device, once in a process"

# ── forward ──


@approximates(
    "training.transformer.forward",
    "Attention adds 4 * layers * context * width FLOPs a token (2 with only the causal half counted): relative to the"
    " blocks' parameters an excess of context / (6 * width) for the standard block, relative to all that are multiplied"
    " that times their share. So the rule is good while the context is well below 6 widths, and counts the projection"
    " or not by choice (GPT-2 small's is 45 % of its blocks).",
)
@costly(cases=40, because=TEN_MILLISECONDS)
@given(model=transformers.models())
@example(model=Model(Decoder(2, 16, 4, 4, 4, 64, 32, 16), batch=2, context=8))
@example(model=Model(Decoder(2, 16, 4, 2, 4, 64, 32, 16, FeedForward.GATED, Projection.UNTIED), context=16))
def test_a_decoder_takes_about_two_flops_a_token_and_parameter_forward(model):
    """A decoder-only transformer takes about 2 * tokens * parameters forward, embeddings left out.

    The parameters are the blocks' matrices, with the output projection's or without. Exact is the closed form.
    """
    sizes, seen = model.sizes, model.step("cpu").forward.matrix
    closed_form = transformer.forward_flops(sizes, model.batch, model.context, FULL)
    assert_agree(dispatcher=seen, closed_form=closed_form)
    excess = transformer.attention_excess(sizes, model.context, FULL)
    with_projection, blocks = transformer.multiplied_weights(sizes), transformer.block_weights(sizes)
    left_out = Fraction(with_projection - blocks, with_projection)
    for weights, bound, label in ((with_projection, excess, "with"), (blocks, excess + left_out, "without")):
        rule = transformer.rule_flops(weights, model.tokens)
        label = f"forward, {label} projection"
        observe(rule=rule, exact=seen, bound=bound, unit="FLOP", where=model, label=label, by=transformer.rule_flops)


@also("training.transformer.forward")
@costly(cases=20, because="a decoder through plain loops over single numbers takes 15 ms")
@given(model=transformers.tiny_models())
@example(model=Model(Decoder(2, 3, 4, 2, 2, 4, 4, 16, FeedForward.GATED, Projection.UNTIED), context=3))
@example(model=Model(Decoder(1, 3, 2, 1, 2, 4, 4, 16, FeedForward.PLAIN, Projection.TIED), context=3))
def test_plain_loops_count_what_the_dispatcher_and_the_closed_form_count(model):
    """Forward and backward; with a mask that is not computed at all, as the closed form of the causal half."""
    full, causal = model.numbers(Mask.FULL), model.numbers(Mask.CAUSAL)
    seen, closed = model.step("cpu"), (model.sizes, model.batch, model.context)
    assert_agree(
        dispatcher=(seen.forward.matrix, seen.backward.matrix),
        counting_numbers=(full.forward.matrix, full.backward.matrix),
        closed_form=(transformer.forward_flops(*closed, FULL), transformer.backward_flops(*closed, FULL)),
    )
    assert_agree(
        counting_numbers=(causal.forward.matrix, causal.backward.matrix),
        closed_form=(transformer.forward_flops(*closed, CAUSAL), transformer.backward_flops(*closed, CAUSAL)),
    )


@also("training.transformer.forward")
@costly(cases=30, because="attention through plain loops over single numbers")
@given(groups=transformers.head_groups())
@example(groups=HeadGroups(1, 1, 3, 3, 4, Mask.CAUSAL))
@example(groups=HeadGroups(2, 2, 2, 3, 4, Mask.FULL))
def test_fused_attention_is_what_is_counted(groups):
    """softmax(q k^T / sqrt(width)) v in one function: each query with the keys up to its place where it is causal, each
    key head for as many query heads as share it.
    """
    torch.testing.assert_close(groups.fused(), groups.by_loops(), rtol=1e-13, atol=1e-14)


@also("training.transformer.forward")
@costly(cases=20, because=TEN_MILLISECONDS)
@given(model=transformers.standard_models())
@example(model=Model(Decoder(2, 16, 4, 4, 4, 64, 32, 16), context=8))
def test_attention_exceeds_a_standard_block_by_the_context_over_six_widths(model):
    """Heads that fill the width, and a hidden layer four times it: 12 * width**2 weights a layer."""
    sizes, seen = model.sizes, model.step("cpu").forward.matrix
    blocks = transformer.rule_flops(transformer.block_weights(sizes), model.tokens)
    projection = transformer.rule_flops(transformer.projection_weights(sizes), model.tokens)
    assert Fraction(seen - blocks - projection, blocks) == transformer.standard_block_excess(sizes.width, model.context)


@also("training.transformer.forward")
@costly(cases=1, because=TWO_SECONDS, lowest="default")
def test_decoders_that_were_trained_have_the_parameters_and_the_flops_of_the_closed_form():
    """GPT-2, GPT-3 and Llama-3, built at full size on the meta device; parameters as published, rounded as published.

    The excess over two for each multiplied weight and token grows in proportion to the context; the curve is the
    evidence, and that of both passes over six.
    """
    sizes = transformers.full_sizes()
    every(
        "parameters of trained decoders",
        [transformers.parameters_at_full_size(name) == transformer.parameters(PUBLISHED[name].sizes) for name in sizes],
        sizes,
        size=len(set(sizes)),
    )
    assert all(published.as_published for published in PUBLISHED.values())
    for name, tokens in transformers.full_sizes_and_contexts():
        decoder = PUBLISHED[name].at(tokens)
        seen = transformers.counted_at_full_size(name, tokens).forward.matrix
        assert_agree(dispatcher=seen, closed_form=transformer.forward_flops(decoder, 1, tokens, FULL))
        rule = transformer.rule_flops(transformer.multiplied_weights(decoder), tokens)
        bound = transformer.attention_excess(decoder, tokens, FULL)
        where = {"decoder": name, "context": tokens}
        observe(rule=rule, exact=seen, bound=bound, unit="FLOP", where=where, label="forward at full size")
    for name, tokens in product(transformers.ALWAYS, CONTEXTS):
        shortest, excess = (
            transformer.attention_excess(PUBLISHED[name].sizes, each, FULL) for each in (CONTEXTS[0], tokens)
        )
        assert excess == shortest * tokens / CONTEXTS[0]
        observe(rule=1, exact=1 + excess, where={"decoder": name, "context": tokens}, label="forward, over the rule")


@also("training.transformer.forward")
@given(name=st.sampled_from(tuple(PUBLISHED)), tokens=st.integers(1, CONTEXTS[-1]))
@example(name="Llama-3 70B", tokens=8192)
@example(name="Llama-3 70B", tokens=131072)
def test_the_causal_half_has_half_the_excess_and_half_a_token_more(name, tokens):
    """Counting what a causal mask leaves, (context + 1) / 2 of the context's keys."""
    decoder = PUBLISHED[name].sizes
    full, causal = (transformer.attention_excess(decoder, tokens, counted) for counted in (FULL, CAUSAL))
    assert causal == full * Fraction(tokens + 1, 2 * tokens)


@also("training.transformer.forward")
@given(
    batch=st.integers(1, 2),
    heads=st.integers(1, 12),
    tokens=st.integers(1, 64),
    channels=st.integers(1, 64),
    causal=st.booleans(),
)
@example(batch=1, heads=12, tokens=64, channels=64, causal=False)
@example(batch=1, heads=12, tokens=64, channels=64, causal=True)
def test_fused_attention_on_a_cpu_is_counted(batch, heads, tokens, channels, causal):
    """Two products forward, four backward, and one that is done again, whether or not a mask hides half of them."""
    query = torch.ones(batch, heads, tokens, channels, requires_grad=True)
    with count_flops() as counted:
        F.scaled_dot_product_attention(query, query, query, is_causal=causal).sum().backward()
    flops = 2 * batch * heads * tokens * tokens * channels
    seen = (counted.forward.matrix, counted.backward.matrix, counted.recomputed.matrix)
    assert seen == (2 * flops, 4 * flops, flops)


# ── backward ──


@approximates(
    "training.transformer.backward",
    "Twice the forward count exactly for composed attention. A fused kernel computes the scores again: 5 products to"
    " the forward's 2, so that the ratio is above 2 by the predicted amount.",
)
@costly(cases=40, because=TEN_MILLISECONDS)
@given(model=transformers.models())
@example(model=Model(Decoder(2, 16, 4, 4, 4, 64, 32, 16), batch=2, context=8))
@example(model=Model(Decoder(2, 16, 4, 2, 4, 64, 32, 16, FeedForward.GATED, Projection.UNTIED), context=16))
def test_a_decoder_takes_about_four_flops_a_token_and_parameter_backward(model):
    """and about 4 * tokens * parameters backward."""
    seen = model.step("cpu")
    assert seen.backward.matrix == 2 * seen.forward.matrix
    closed_form = transformer.backward_flops(model.sizes, model.batch, model.context, FULL)
    assert_agree(dispatcher=seen.backward.matrix, closed_form=closed_form)
    rule = 2 * transformer.rule_flops(transformer.multiplied_weights(model.sizes), model.tokens)
    bound = transformer.attention_excess(model.sizes, model.context, FULL)
    exact, by = seen.backward.matrix, transformer.rule_flops
    observe(rule=rule, exact=exact, bound=bound, unit="FLOP", where=model, label="backward", by=by)


@also("training.transformer.backward")
@costly(cases=40, because=TEN_MILLISECONDS)
@given(model=transformers.models(Attention.FUSED))
@example(model=Model(Decoder(2, 16, 4, 4, 4, 64, 32, 16), 2, 8, Attention.FUSED))
@example(model=Model(Decoder(1, 16, 2, 2, 8, 64, 32, 16, FeedForward.GATED), 1, 16, Attention.FUSED))
def test_fused_attention_adds_the_scores_of_each_layer_to_the_backward_pass(model):
    """The model's own work stays twice the forward; what is done again is told apart."""
    seen = model.step("cpu")
    again = transformer.scores_again_flops(model.sizes, model.batch, model.context)
    assert seen.backward.matrix == 2 * seen.forward.matrix
    assert seen.recomputed.matrix == again
    exact = Fraction(seen.backward.matrix + seen.recomputed.matrix, seen.forward.matrix)
    observe(rule=2, exact=exact, where=model, label="backward over forward, attention fused")


@also("training.transformer.backward")
@costly(cases=1, because=TWO_SECONDS, lowest="default")
def test_decoders_that_were_trained_go_back_with_twice_the_forward():
    """At full size, where attention is composed."""
    pairs = transformers.full_sizes_and_contexts()
    counted = [transformers.counted_at_full_size(*pair) for pair in pairs]
    doubled = [each.backward.matrix == 2 * each.forward.matrix for each in counted]
    every("trained decoders and their contexts", doubled, pairs, size=len(set(pairs)))


@also("training.transformer.backward")
@needs("cuda")
def test_the_fused_attention_of_a_gpu_adds_the_scores_to_the_backward_pass_too():
    """By the operators of its kernels, in bfloat16: as on a processor, one product more than composed attention has."""
    block = OneBlock(1, 256, 256, 4, Attention.FUSED, Arithmetic.BF16, "cuda")
    step = block.passes().both()
    with count_flops() as seen:
        step.run(step.prepare())
    assert seen.recomputed.matrix == transformer.scores_again_flops(block.sizes, block.batch, block.context)
    assert seen.model.matrix == 3 * block.forward_flops


# ── both passes ──


@approximates(
    "training.transformer.total",
    "With the same excess as the forward; as rule over exact it lies between -40 % and +23 % for GPT-2 small (its"
    " projection untied) and within 15 % at 70B, by which parameters and how much of attention are counted: the rule is"
    " for wide models.",
)
@costly(cases=1, because=TWO_SECONDS, lowest="default")
def test_training_decoders_takes_about_six_flops_a_token_and_parameter():
    """and about 6 * tokens * parameters in all."""
    for name, tokens in transformers.full_sizes_and_contexts():
        decoder, seen = PUBLISHED[name].at(tokens), transformers.counted_at_full_size(name, tokens).model.matrix
        assert_agree(dispatcher=seen, closed_form=3 * transformer.forward_flops(decoder, 1, tokens, FULL))
        where = {"decoder": name, "context": tokens}
        for which in ParametersCounted:
            rule = 3 * transformer.rule_flops(transformer.counted_parameters(decoder, which), tokens)
            bound = transformer.rule_bound(decoder, tokens, which, FULL)
            label, by = f"6ND, {which.name.lower()}", transformer.rule_flops
            observe(rule=rule, exact=seen, bound=bound, unit="FLOP", where=where, label=label, by=by)


@also("training.transformer.total")
def test_the_rule_is_far_off_for_a_small_decoder_and_near_for_a_wide_one():
    """GPT-2 small with a projection of its own, at 1,024 tokens, and Llama-3 70B at 8,192, to the percent."""
    small = replace(PUBLISHED["GPT-2 small"].sizes, projection=Projection.UNTIED)
    conventions = list(product(ParametersCounted, (FULL, CAUSAL)))
    off = [round(100 * transformer.rule_error(small, 1024, *each)) for each in conventions]
    every("a small decoder", [-40 <= percent <= 23 for percent in off], conventions, size=6)
    assert (min(off), max(off)) == (-40, 23)
    wide = [transformer.rule_error(PUBLISHED["Llama-3 70B"].sizes, 8192, *each) for each in conventions]
    every("a wide decoder", [abs(error) <= Fraction(15, 100) for error in wide], conventions, size=6)


# ── what is left out ──


@holds_when(
    "training.transformer.embedding-excluded",
    "it is the input lookup of tokens and positions, which takes no FLOPs; the output projection does (2 * width *"
    " vocabulary a token), also when tied to the embedding.",
)
@costly(cases=40, because=TEN_MILLISECONDS)
@given(model=transformers.models_with_tables(), part=st.sampled_from(Part))
@example(model=Model(Decoder(1, 8, 2, 2, 4, 8, 50, 16), batch=2, context=6), part=Part.TOKENS)
@example(model=Model(Decoder(1, 8, 2, 2, 4, 8, 50, 16), batch=2, context=6), part=Part.PLACES)
@example(model=Model(Decoder(1, 8, 2, 2, 4, 8, 50, 16), batch=2, context=6), part=Part.PROJECTION)
@example(
    model=Model(Decoder(1, 8, 2, 2, 4, 8, 50, 16, projection=Projection.UNTIED), batch=2, context=6),
    part=Part.PROJECTION,
)
def test_a_lookup_takes_no_flops_and_the_projection_does(model, part):
    """The embedding part, tokenisation and position encoding, is left out of the count."""
    seen = model.step("cpu").in_module(f"Transformer.{part.value}", Phase.FORWARD).matrix
    projection = 2 * model.tokens * transformer.projection_weights(model.sizes)
    assert seen == (projection if part is Part.PROJECTION else 0)
    assert (seen == 0) == when(part is not Part.PROJECTION)


context(
    "training.transformer.derivation",
    "A blog derives the transformer's count in detail.",
    source="the document, section 5",
)
