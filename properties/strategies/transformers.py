"""Decoders to count: small ones drawn at random, and those that were really trained, at full size.

A model on the meta device has shapes and no numbers, so that 405 billion parameters take no memory and no time.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Any

import numpy as np
import torch
from einops import rearrange, repeat
from hypothesis import strategies as st
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from properties.instruments.flops import Counted, count_flops
from properties.instruments.kernels import import_kernels
from properties.levels import Level, level
from properties.strategies.description import Description
from reference import scalars
from reference.autodiff import Derivative, differentiate
from reference.scalars import Mask, reals
from reference.transformer import Biases, Decoder, FeedForward, Norm, Positions, Projection, parameters

# ── the module ──


class Attention(Enum):
    """How scores, softmax and weighted sums are computed."""

    COMPOSED = "operator by operator, every score kept"
    FUSED = "by torch's scaled_dot_product_attention, which keeps none where it has a kernel"

    def __repr__(self) -> str:
        return f"Attention.{self.name}"


Heads = Float[Tensor, "batch heads tokens channels"]


def composed(query: Heads, key: Heads, value: Heads) -> Heads:
    """Causal attention as the formula has it; heads that share a key each get a copy of it."""
    shared = query.shape[1] // key.shape[1]
    key, value = (repeat(each, "b h t c -> b (h shared) t c", shared=shared) for each in (key, value))
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    weights = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)
    mixed: Tensor = weights @ value
    return mixed


def fused(query: Heads, key: Heads, value: Heads) -> Heads:
    """The same in one call; each query head finds its key head by itself."""
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


@dataclass(frozen=True)
class Rotation:
    """The angle by which each pair of channels is turned at each place, as its cosine and sine."""

    cosine: Float[Tensor, "tokens channels"]
    sine: Float[Tensor, "tokens channels"]

    @classmethod
    def of(cls, tokens: int, channels: int, device: torch.device) -> Rotation:
        """Angles that grow with the place, and more slowly from one pair to the next."""
        half = channels // 2
        speeds = torch.arange(half, device=device, dtype=torch.float32).mul(-math.log(10_000) / half).exp()
        angles = torch.outer(torch.arange(tokens, device=device, dtype=torch.float32), speeds)
        return cls(angles.cos().repeat(1, 2), angles.sin().repeat(1, 2))

    def turn(self, x: Heads) -> Heads:
        """The channels, each pair of which lies half the width apart, turned."""
        first, second = x.chunk(2, dim=-1)
        # Whole tensors at once: half as many operators as turning each half by itself, and as many FLOPs.
        return x * self.cosine + torch.cat((-second, first), dim=-1) * self.sine


class SelfAttention(nn.Module):
    """Query, key and value of each token, what the heads make of them, and its way back to the width."""

    def __init__(self, sizes: Decoder, attention: Attention) -> None:
        super().__init__()
        bias = sizes.biases is Biases.ALL
        own, shared = sizes.heads * sizes.head_width, sizes.key_value_heads * sizes.head_width
        self.query = nn.Linear(sizes.width, own, bias=bias)
        self.key = nn.Linear(sizes.width, shared, bias=bias)
        self.value = nn.Linear(sizes.width, shared, bias=bias)
        self.output = nn.Linear(own, sizes.width, bias=bias)
        self.channels = sizes.head_width
        self.attend = {Attention.COMPOSED: composed, Attention.FUSED: fused}[attention]

    def forward(
        self, x: Float[Tensor, "batch tokens width"], rotation: Rotation | None
    ) -> Float[Tensor, "batch tokens width"]:
        """Every token looks at itself and at those before it."""
        query, key, value = (
            rearrange(layer(x), "b t (h c) -> b h t c", c=self.channels) for layer in (self.query, self.key, self.value)
        )
        if rotation is not None:
            query, key = rotation.turn(query), rotation.turn(key)
        mixed: Tensor = self.output(rearrange(self.attend(query, key, value), "b h t c -> b t (h c)"))
        return mixed


class Plain(nn.Module):
    """Up, GELU, down."""

    def __init__(self, sizes: Decoder) -> None:
        super().__init__()
        bias = sizes.biases is Biases.ALL
        self.up = nn.Linear(sizes.width, sizes.hidden, bias=bias)
        self.down = nn.Linear(sizes.hidden, sizes.width, bias=bias)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """Each token by itself."""
        out: Tensor = self.down(F.gelu(self.up(x), approximate="tanh"))
        return out


class Gated(nn.Module):
    """Gate and up, SiLU of one times the other, down."""

    def __init__(self, sizes: Decoder) -> None:
        super().__init__()
        bias = sizes.biases is Biases.ALL
        self.gate = nn.Linear(sizes.width, sizes.hidden, bias=bias)
        self.up = nn.Linear(sizes.width, sizes.hidden, bias=bias)
        self.down = nn.Linear(sizes.hidden, sizes.width, bias=bias)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """Each token by itself."""
        out: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return out


def _norm(sizes: Decoder) -> nn.Module:
    return nn.LayerNorm(sizes.width) if sizes.norm is Norm.LAYER else nn.RMSNorm(sizes.width)


class Block(nn.Module):
    """Attention and a feed-forward layer, each after a norm, each added to what came in."""

    def __init__(self, sizes: Decoder, attention: Attention) -> None:
        super().__init__()
        self.before_attention = _norm(sizes)
        self.attention = SelfAttention(sizes, attention)
        self.before_feed_forward = _norm(sizes)
        self.feed_forward = {FeedForward.PLAIN: Plain, FeedForward.GATED: Gated}[sizes.feed_forward](sizes)

    def forward(
        self, x: Float[Tensor, "batch tokens width"], rotation: Rotation | None
    ) -> Float[Tensor, "batch tokens width"]:
        """One layer."""
        x = x + self.attention(self.before_attention(x), rotation)
        out: Tensor = x + self.feed_forward(self.before_feed_forward(x))
        return out


class Transformer(nn.Module):
    """A decoder-only language model."""

    def __init__(self, sizes: Decoder, attention: Attention) -> None:
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        self.channels = sizes.head_width
        learned = sizes.positions is Positions.LEARNED
        self.places = nn.Embedding(sizes.places, sizes.width) if learned else None
        self.blocks = nn.ModuleList(Block(sizes, attention) for _ in range(sizes.layers))
        self.last_norm = _norm(sizes)
        self.projection = nn.Linear(sizes.width, sizes.vocabulary, bias=False)
        if sizes.projection is Projection.TIED:
            self.projection.weight = self.tokens.weight

    def forward(self, tokens: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens vocabulary"]:
        """Logits of the token after each."""
        x = self.tokens(tokens)
        if self.places is not None:
            x = x + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        rotation = None
        if self.places is None:
            rotation = Rotation.of(tokens.shape[1], self.channels, tokens.device)
        for block in self.blocks:
            x = block(x, rotation)
        logits: Tensor = self.projection(self.last_norm(x))
        return logits


# ── the same through plain loops ──


def _plain_decoder(model: Model, mask: Mask, table: Any, *matrices: Any) -> Any:
    """Logits [batch * tokens, vocabulary]; every token is the first of the vocabulary."""
    sizes = model.sizes
    x = scalars.embedding(table, [0] * model.tokens)
    a_block = 4 + sizes.feed_forward.value
    for place in range(sizes.layers):
        query, key, value, output, *hidden = matrices[place * a_block : (place + 1) * a_block]
        heads = (
            rearrange(scalars.linear(x, weight), "(b t) (h c) -> b h t c", b=model.batch, c=sizes.head_width)
            for weight in (query, key, value)
        )
        mixed = [scalars.attention(q, k, v, mask) for q, k, v in zip(*heads, strict=True)]
        x = scalars.add(x, scalars.linear(rearrange(np.array(mixed), "b h t c -> (b t) (h c)"), output))
        if sizes.feed_forward is FeedForward.GATED:
            x = scalars.add(x, scalars.swiglu(x, *hidden))
        else:
            inner = scalars.elementwise(scalars.gelu, scalars.linear(x, hidden[0]))
            x = scalars.add(x, scalars.linear(inner, hidden[1]))
    return scalars.linear(x, matrices[-1] if sizes.projection is Projection.UNTIED else table)


# ── descriptions ──


@dataclass(frozen=True, repr=False)
class Model(Description):
    """A decoder, how it computes attention, and what is sent through it."""

    sizes: Decoder
    batch: int = 1
    context: int = 2
    attention: Attention = Attention.COMPOSED

    @property
    def tokens(self) -> int:
        """Tokens of a batch."""
        return self.batch * self.context

    def build(self, device: str = "meta") -> Transformer:
        """The module; on the meta device it has no numbers, elsewhere torch's own initial ones."""
        import_kernels()
        with torch.device(device):
            return Transformer(self.sizes, self.attention)

    def numbers(self, mask: Mask = Mask.FULL) -> Derivative:
        """The matrix products of both passes, through plain loops and the tape.

        Norms, biases, rotary positions and the loss are left out: they contain none. With a causal mask the scores that
        it hides are not computed.
        """
        return differentiate(
            lambda *arrays: _plain_decoder(self, mask, *arrays),
            *(reals(shape, seed) / shape[-1] for seed, shape in enumerate(self._shapes())),
            output_gradient=np.ones((self.batch * self.context, self.sizes.vocabulary)),
        )

    def _shapes(self) -> list[tuple[int, int]]:
        sizes = self.sizes
        own, shared = sizes.heads * sizes.head_width, sizes.key_value_heads * sizes.head_width
        ups = [(sizes.hidden, sizes.width)] * (sizes.feed_forward.value - 1)
        attention = [(own, sizes.width), (shared, sizes.width), (shared, sizes.width), (sizes.width, own)]
        block = [*attention, *ups, (sizes.width, sizes.hidden)]
        table = (sizes.vocabulary, sizes.width)
        return [table, *block * sizes.layers, *[table] * sizes.projection.value]

    def step(self, device: str = "meta") -> Counted:
        """What the forward and the backward pass of one batch cost, its cross-entropy included."""
        return self.step_of(self.build(device), device)

    def step_of(self, module: Transformer, device: str) -> Counted:
        """The same of a module that is there already, without gradients to add to."""
        tokens = torch.zeros(self.batch, self.context, dtype=torch.int64, device=device)
        with count_flops() as counted:
            F.cross_entropy(module(tokens).flatten(0, 1), tokens.flatten()).backward()  # type: ignore[no-untyped-call]
        return counted


_FORMS = tuple(itertools.product(FeedForward, Projection, Biases, Norm, Positions))


@st.composite
def _decoders(draw: st.DrawFn, heads: int, width: int, hidden: int, vocabulary: int) -> Decoder:
    groups = draw(st.integers(1, heads))
    feed_forward, projection, biases, norm, positions = draw(st.sampled_from(_FORMS))
    return Decoder(
        layers=draw(st.integers(1, 2)),
        width=draw(st.integers(1, width)),
        heads=groups * draw(st.integers(1, heads)),
        key_value_heads=groups,
        head_width=2 * draw(st.integers(1, 2)),
        hidden=draw(st.integers(1, hidden)),
        vocabulary=draw(st.integers(1, vocabulary)),
        places=16,
        feed_forward=feed_forward,
        projection=projection,
        biases=biases,
        norm=norm,
        positions=positions,
    )


@st.composite
def models(draw: st.DrawFn, attention: Attention = Attention.COMPOSED) -> Model:
    """Decoders of one or two layers, with heads that share keys or not and every form of layer; up to 16 tokens.

    Where attention is fused they share none: not every release has a kernel for that.
    """
    sizes = draw(_decoders(3, 24, 48, 40))
    if attention is Attention.FUSED:
        sizes = replace(sizes, key_value_heads=sizes.heads)
    return Model(sizes, draw(st.integers(1, 2)), draw(st.integers(1, 16)), attention)


@st.composite
def tiny_models(draw: st.DrawFn) -> Model:
    """The same, small enough for the loops."""
    return Model(draw(_decoders(2, 3, 4, 4)), 1, draw(st.integers(1, 2)))


@st.composite
def standard_models(draw: st.DrawFn) -> Model:
    """Decoders whose heads fill the width and whose hidden layer is four times it, as in GPT."""
    heads, channels = draw(st.integers(1, 3)), 2 * draw(st.integers(1, 4))
    width = heads * channels
    sizes = Decoder(draw(st.integers(1, 2)), width, heads, heads, channels, 4 * width, draw(st.integers(1, 40)), 16)
    return Model(sizes, 1, draw(st.integers(1, 16)))


# ── attention alone ──


@dataclass(frozen=True, repr=False)
class HeadGroups(Description):
    """Attention of so many groups of ``shared`` heads each, for normal numbers in float64."""

    groups: int
    shared: int
    queries: int
    keys: int
    width: int
    mask: Mask = Mask.FULL

    def _arrays(self) -> tuple[Any, Any, Any]:
        heads = self.groups * self.shared
        shapes = ((heads, self.queries), (self.groups, self.keys), (self.groups, self.keys))
        query, key, value = (reals((*shape, self.width), seed) for seed, shape in enumerate(shapes))
        return query, key, value

    def fused(self) -> Float[Tensor, "heads queries width"]:
        """By torch's one function for all of it."""
        query, key, value = (torch.from_numpy(each)[None] for each in self._arrays())
        causal = self.mask is Mask.CAUSAL
        out = F.scaled_dot_product_attention(query, key, value, is_causal=causal, enable_gqa=self.shared > 1)
        return out[0]

    def by_loops(self) -> Float[Tensor, "heads queries width"]:
        """By plain loops, in which a hidden key does not occur."""
        return torch.from_numpy(scalars.values(scalars.attention(*self._arrays(), self.mask)))


def head_groups() -> st.SearchStrategy[HeadGroups]:
    """Up to two groups of up to two heads, with up to four queries, keys and channels."""
    few, some = st.integers(1, 2), st.integers(1, 4)
    return st.builds(HeadGroups, few, few, some, some, some, st.sampled_from(Mask))


# ── decoders that were trained ──

_GPT_2 = (
    "https://github.com/openai/gpt-2, whose checkpoints' parameters are counted at https://github.com/keras-team/keras-hub"
    " (keras_hub/src/models/gpt2/gpt2_presets.py)"
)
_GPT_3 = "https://arxiv.org/abs/2005.14165, table 2.1, as quoted at https://ppmzhang2.github.io/nlp/gpt/model.html"
_LLAMA_3 = (
    "https://arxiv.org/abs/2407.21783, table 3; parameters of the checkpoints at https://huggingface.co/meta-llama"
    " (Meta-Llama-3-8B, Meta-Llama-3-70B, Llama-3.1-405B)"
)


@dataclass(frozen=True)
class Published:
    """A decoder that was trained: sizes, context, parameters as published and what they are rounded to, and where."""

    sizes: Decoder
    context: int
    parameters: int
    to_the_nearest: int
    source: str

    @property
    def as_published(self) -> bool:
        """Whether the closed form gives the published number of parameters, rounded like that."""
        rounded = round(parameters(self.sizes) / self.to_the_nearest) * self.to_the_nearest
        return bool(rounded == self.parameters)

    def at(self, context: int) -> Decoder:
        """The sizes; a table of learned positions is long enough for a context."""
        if self.sizes.positions is Positions.ROTARY:
            return self.sizes
        return replace(self.sizes, places=max(self.sizes.places, context))


def _gpt(layers: int, width: int, heads: int, places: int) -> Decoder:
    return Decoder(layers, width, heads, heads, width // heads, 4 * width, 50257, places)


def _llama(layers: int, width: int, heads: int, hidden: int) -> Decoder:
    return Decoder(
        *(layers, width, heads, 8, 128, hidden, 128256, 8192),
        feed_forward=FeedForward.GATED,
        projection=Projection.UNTIED,
        biases=Biases.NONE,
        norm=Norm.RMS,
        positions=Positions.ROTARY,
    )


PUBLISHED: dict[str, Published] = {
    "GPT-2 small": Published(_gpt(12, 768, 12, 1024), 1024, 124_439_808, 1, _GPT_2),
    "GPT-2 medium": Published(_gpt(24, 1024, 16, 1024), 1024, 354_823_168, 1, _GPT_2),
    "GPT-2 large": Published(_gpt(36, 1280, 20, 1024), 1024, 774_030_080, 1, _GPT_2),
    "GPT-2 XL": Published(_gpt(48, 1600, 25, 1024), 1024, 1_557_611_200, 1, _GPT_2),
    "GPT-3 175B": Published(_gpt(96, 12288, 96, 2048), 2048, 175_000_000_000, 1_000_000_000, _GPT_3),
    "Llama-3 8B": Published(_llama(32, 4096, 32, 14336), 8192, 8_030_261_248, 1, _LLAMA_3),
    "Llama-3 70B": Published(_llama(80, 8192, 64, 28672), 8192, 70_553_706_496, 1, _LLAMA_3),
    "Llama-3 405B": Published(_llama(126, 16384, 128, 53248), 8192, 405_853_388_800, 1, _LLAMA_3),
}
CONTEXTS = tuple(1024 << power for power in range(8))
"""From 1,024 to 131,072."""
ALWAYS = ("GPT-2 small", "Llama-3 8B", "Llama-3 70B")
"""Decoders that are built at the default level too."""


class Part(Enum):
    """What of a decoder is as large as its vocabulary, or its longest context; the value is its place in the module."""

    TOKENS = "tokens"
    PLACES = "places"
    PROJECTION = "projection"

    def __repr__(self) -> str:
        return f"Part.{self.name}"


@st.composite
def models_with_tables(draw: st.DrawFn) -> Model:
    """Decoders of one layer that look up tokens and positions."""
    model = draw(models())
    return replace(model, sizes=replace(model.sizes, layers=1, positions=Positions.LEARNED))


def full_sizes() -> tuple[str, ...]:
    """The decoders that this level builds: three, and all of them from the thorough level on."""
    return tuple(PUBLISHED) if level() in (Level.THOROUGH, Level.EXHAUSTIVE) else ALWAYS


def full_sizes_and_contexts() -> tuple[tuple[str, int], ...]:
    """Each of them with the context it was trained at, and from the thorough level on with every context."""
    trained = {(name, PUBLISHED[name].context) for name in full_sizes()}
    if level() in (Level.THOROUGH, Level.EXHAUSTIVE):
        trained |= {(name, context) for name in full_sizes() for context in CONTEXTS}
    return tuple(sorted(trained, key=lambda pair: (list(PUBLISHED).index(pair[0]), pair[1])))


@cache
def _at_full_size(decoder: Decoder) -> Transformer:
    return Model(decoder).build()


@cache
def counted_at_full_size(name: str, context: int) -> Counted:
    """What a forward and a backward pass over one sequence cost, counted on the meta device, once in a process."""
    decoder = PUBLISHED[name].at(context)
    module = _at_full_size(decoder)
    module.zero_grad()
    return Model(decoder, 1, context).step_of(module, "meta")


def kept_at_full_size(name: str) -> list[Shaped[Tensor, "..."]]:
    """What training keeps on the meta device after a step of AdamW: parameters, gradients, the optimizer's state."""
    parameters = list(_at_full_size(PUBLISHED[name].sizes).parameters())
    for each in parameters:
        each.grad = torch.empty_like(each)
    optimizer = torch.optim.AdamW(parameters, foreach=True)
    optimizer.step()
    state = [tensor for of_one in optimizer.state.values() for tensor in of_one.values()]
    return [*parameters, *(each.grad for each in parameters if each.grad is not None), *state]


@cache
def parameters_at_full_size(name: str) -> int:
    """The parameters of the module itself, a shared one once."""
    return sum(each.numel() for each in _at_full_size(PUBLISHED[name].sizes).parameters())
