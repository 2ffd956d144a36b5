"""What a decoder-only transformer has and costs, in closed form: parameters, and matrix FLOPs forward and backward.

A decoder is a description (``Decoder``) and a count is a function of it. What can be built or counted in more than one
way is a type, and has to be said. Sizes may be SymPy symbols; then a count is the formula.

Only matrix products are counted, by two FLOPs for each weight and token and two for each pair of tokens and channel.
Norms, activations, softmax, rotary positions and biases are elementwise work, in proportion to width and not to its
square; the token and position lookups are none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from reference.linear import linear_parameters, matmul_flops
from reference.planner import AttentionCounted, ParametersCounted

Number = Any
"""A whole number, a fraction or a symbol."""


# ── how a decoder can be built ──


class FeedForward(Enum):
    """The layers between two attentions; the value is how many matrices of width by hidden width they are."""

    PLAIN = 2
    """Up, an activation, down."""
    GATED = 3
    """Gate and up, the activation of one times the other, down."""

    def __repr__(self) -> str:
        return f"FeedForward.{self.name}"


class Projection(Enum):
    """The matrix that makes logits; the value is how many matrices of its own it adds to the parameters."""

    TIED = 0
    """The token embedding, used a second time."""
    UNTIED = 1
    """One of its own."""

    def __repr__(self) -> str:
        return f"Projection.{self.name}"


class Biases(Enum):
    """Whether linear layers add a vector; the value is how many they have. The output projection has none."""

    NONE = 0
    ALL = 1

    def __repr__(self) -> str:
        return f"Biases.{self.name}"


class Norm(Enum):
    """What stands before attention, before the feed-forward layers and at the end; the value counts its vectors."""

    RMS = 1
    """A scale."""
    LAYER = 2
    """A scale and a shift."""

    def __repr__(self) -> str:
        return f"Norm.{self.name}"


class Positions(Enum):
    """How tokens learn their places; the value is how many tables they are looked up in."""

    ROTARY = 0
    LEARNED = 1

    def __repr__(self) -> str:
        return f"Positions.{self.name}"


@dataclass(frozen=True)
class Decoder:
    """The sizes of a decoder. ``heads`` ask, ``key_value_heads`` are asked, each ``head_width`` wide.

    ``places`` is the longest context that it was made for: the rows of a table of learned positions.
    """

    layers: Number
    width: Number
    heads: Number
    key_value_heads: Number
    head_width: Number
    hidden: Number
    vocabulary: Number
    places: Number
    feed_forward: FeedForward = FeedForward.PLAIN
    projection: Projection = Projection.TIED
    biases: Biases = Biases.ALL
    norm: Norm = Norm.LAYER
    positions: Positions = Positions.LEARNED


# ── parameters ──


def attention_weights(decoder: Decoder) -> Number:
    """Weights of one layer's query, key, value and output matrices."""
    asking = decoder.heads * decoder.head_width
    asked = decoder.key_value_heads * decoder.head_width
    return 2 * linear_parameters(decoder.width, asking) + 2 * linear_parameters(decoder.width, asked)


def feed_forward_weights(decoder: Decoder) -> Number:
    """Weights of one layer's feed-forward matrices."""
    return decoder.feed_forward.value * linear_parameters(decoder.width, decoder.hidden)


def block_weights(decoder: Decoder) -> Number:
    """Weights of all layers' matrices."""
    return decoder.layers * (attention_weights(decoder) + feed_forward_weights(decoder))


def projection_weights(decoder: Decoder) -> Number:
    """Weights of the matrix that makes logits, tied or not."""
    return linear_parameters(decoder.width, decoder.vocabulary)


def multiplied_weights(decoder: Decoder) -> Number:
    """Weights that take part in a matrix product for every token: the blocks' and the output projection's."""
    return block_weights(decoder) + projection_weights(decoder)


def block_vectors(decoder: Decoder) -> Number:
    """Numbers of all layers' biases and norms."""
    outputs = (decoder.heads + 2 * decoder.key_value_heads) * decoder.head_width + 2 * decoder.width
    hidden = (decoder.feed_forward.value - 1) * decoder.hidden
    return decoder.layers * (decoder.biases.value * (outputs + hidden) + 2 * decoder.norm.value * decoder.width)


def embedding_parameters(decoder: Decoder) -> Number:
    """Numbers of the tables in which tokens, and learned positions, are looked up."""
    return (decoder.vocabulary + decoder.positions.value * decoder.places) * decoder.width


def parameters(decoder: Decoder) -> Number:
    """All parameters; a tied matrix once."""
    return (
        embedding_parameters(decoder)
        + block_weights(decoder)
        + block_vectors(decoder)
        + decoder.norm.value * decoder.width
        + decoder.projection.value * projection_weights(decoder)
    )


# ── FLOPs ──


def scores_flops(decoder: Decoder, batch: Number, context: Number) -> Number:
    """FLOPs of all layers' scores, of every query with every key; the weighted sums take as many."""
    return decoder.layers * batch * decoder.heads * matmul_flops(context, decoder.head_width, context)


def attention_flops(decoder: Decoder, batch: Number, context: Number, counted: AttentionCounted) -> Number:
    """FLOPs between tokens, forward: scores and weighted sums, by the convention ``counted``.

    A causal mask leaves context * (context + 1) / 2 of the context**2 pairs.
    """
    channels = decoder.layers * decoder.heads * decoder.head_width
    return (
        batch
        * channels
        * {
            AttentionCounted.NONE: 0,
            AttentionCounted.CAUSAL: 2 * context * (context + 1),
            AttentionCounted.FULL: 4 * context * context,
        }[counted]
    )


def forward_flops(decoder: Decoder, batch: Number, context: Number, counted: AttentionCounted) -> Number:
    """Matrix FLOPs of the forward pass over ``batch`` sequences of ``context`` tokens."""
    weights = 2 * batch * context * multiplied_weights(decoder)
    return weights + attention_flops(decoder, batch, context, counted)


def backward_flops(decoder: Decoder, batch: Number, context: Number, counted: AttentionCounted) -> Number:
    """Matrix FLOPs of the backward pass: both operands of every product need a gradient, which is twice the forward.

    What fused attention computes again is not among them: see ``scores_again_flops``.
    """
    return 2 * forward_flops(decoder, batch, context, counted)


def scores_again_flops(decoder: Decoder, batch: Number, context: Number) -> Number:
    """Matrix FLOPs that fused attention adds to the backward pass, since it has not kept the scores."""
    return scores_flops(decoder, batch, context)


# ── the rule of thumb ──


def rule_flops(weights: Number, tokens: Number) -> Number:
    """Forward FLOPs by the rule of thumb: two for each weight and token."""
    return 2 * tokens * weights


def attention_excess(decoder: Decoder, context: Number, counted: AttentionCounted) -> Number:
    """Attention's FLOPs as a share of those of the multiplied weights, the same forward and backward."""
    flops = attention_flops(decoder, 1, context, counted)
    return Fraction(1) * flops / rule_flops(multiplied_weights(decoder), context)


def standard_block_excess(width: Number, context: Number) -> Number:
    """The same as a share of the blocks' own weights, where heads fill the width and the hidden layer is four times it.

    All pairs are counted. Such a block has 12 * width**2 weights.
    """
    return Fraction(1) * context / (6 * width)


def causal_standard_block_excess(width: Number, context: Number) -> Number:
    """The same with the pairs that a causal mask leaves."""
    return Fraction(1) * (context + 1) / (12 * width)


def counted_parameters(decoder: Decoder, which: ParametersCounted) -> Number:
    """How many parameters a rule is applied to; the blocks' are their matrices'."""
    return {
        ParametersCounted.ALL: parameters,
        ParametersCounted.MULTIPLIED: multiplied_weights,
        ParametersCounted.BLOCKS: block_weights,
    }[which](decoder)


def rule_error(decoder: Decoder, context: Number, which: ParametersCounted, counted: AttentionCounted) -> Number:
    """By how much the rule of thumb is above (or below) the exact count, as a share of it; for 2ND and 6ND alike."""
    rule = rule_flops(counted_parameters(decoder, which), context)
    return Fraction(1) * rule / forward_flops(decoder, 1, context, counted) - 1


def rule_bound(decoder: Decoder, context: Number, which: ParametersCounted, counted: AttentionCounted) -> Number:
    """What the size of that error is at most: the larger of attention's excess and the share of parameters counted too
    many; where too few are counted, both together.
    """
    multiplied = multiplied_weights(decoder)
    too_many = Fraction(1) * (counted_parameters(decoder, which) - multiplied) / multiplied
    return max(attention_excess(decoder, context, counted), too_many) + max(-too_many, 0)
