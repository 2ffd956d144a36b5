"""The closed forms that predict, printed as mathematics by the very functions: given symbols, each returns its formula.

``FORMULAS`` says which claims show which. A claim also shows a formula whose function its evidence names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from properties.report.record import ClaimRecord
from reference import initialisation, linear, memory, planner, transformer
from reference.planner import AttentionCounted, ParametersCounted, Peak, Recomputation, Sparsity
from reference.transformer import Decoder, FeedForward

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True)
class Formula:
    """A function of ``reference/`` and the claims that it predicts.

    ``given`` are the arguments that are no symbols. Where a function takes a description, ``applied`` is it with the
    description made of symbols.
    """

    function: Callable[..., Any]
    claims: tuple[str, ...]
    given: tuple[tuple[str, Any], ...] = ()
    applied: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        """``linear.matmul_flops``: the module and the function."""
        return f"{self.function.__module__.removeprefix('reference.')}.{self.function.__qualname__}"

    @property
    def symbols(self) -> tuple[str, ...]:
        """The arguments that are symbols, in order."""
        names = inspect.signature(self.applied or self.function).parameters
        return tuple(name for name in names if name not in dict(self.given))

    def of(self, **arguments: Any) -> Any:
        """What the function makes of numbers, or of symbols."""
        return (self.applied or self.function)(**arguments, **dict(self.given))

    def mathml(self) -> str:
        """The formula as presentation MathML: its name, its arguments and what they make."""
        import sympy

        # SymPy puts factors in the order of their names, and makes indices of underscores and digits: the letters that
        # stand for the arguments meanwhile keep the order in which the function takes them.
        letters = dict(zip("abcdefghijklmnop", self.symbols, strict=False))
        symbols = {name: sympy.Symbol(letter, positive=True) for letter, name in letters.items()}
        printed = sympy.mathml(sympy.sympify(self.of(**symbols)), printer="presentation", mul_symbol="dot").replace(
            "&#xB7;", "·"
        )
        for letter, name in letters.items():
            printed = printed.replace(f"<mi>{letter}</mi>", f"<mi>{name}</mi>")
        comma = '<mo separator="true">,</mo>'
        arguments = comma.join(f"<mi>{name}</mi>" for name in self.symbols)
        head = f"<mi>{self.function.__name__}</mi><mo>(</mo>{arguments}<mo>)</mo>"
        return f'<math display="block" lang="en"><mrow>{head}<mo>=</mo>{printed}</mrow></math>'


def of(function: Callable[..., Any], *claims: str, **given: Any) -> Formula:
    """A formula of a function whose arguments are the symbols, but for those given."""
    return Formula(function, claims, tuple(given.items()))


def applied(function: Callable[..., Any], form: Callable[..., Any], *claims: str) -> Formula:
    """A formula of a function that takes descriptions, as ``form`` makes them of symbols."""
    return Formula(function, claims, applied=form)


def _block(layers: Any, width: Any) -> Decoder:
    """A standard decoder: its heads fill the width, and its hidden layer is four times as wide."""
    return Decoder(layers, width, 1, 1, width, 4 * width, 0, 0, FeedForward.PLAIN)


def _peak(flops_per_second: Any) -> Peak:
    return Peak(flops_per_second, Sparsity.DENSE)


FORMULAS: tuple[Formula, ...] = (
    # ── operations ──
    of(linear.inner_product_flops, "flops.matmul.inner-product"),
    of(linear.least_inner_product_flops, "flops.matmul.inner-product"),
    of(linear.inner_product_excess, "flops.matmul.inner-product"),
    of(linear.row_flops, "flops.matmul.one-row"),
    of(linear.matmul_flops, "flops.matmul.two-b-d-k", "training.backward.second-layer"),
    of(linear.least_matmul_flops, "flops.matmul.two-b-d-k"),
    of(linear.elementwise_flops, "flops.elementwise.linear", "flops.elementwise.any-op"),
    of(linear.softmax_flops, "flops.elementwise.any-op"),
    of(linear.layer_norm_flops, "flops.elementwise.any-op"),
    of(linear.rms_norm_flops, "flops.elementwise.any-op"),
    of(linear.mean_square_error_flops, "training.backward.loss-gradient-elementwise"),
    of(linear.cross_entropy_flops, "training.backward.loss-gradient-elementwise"),
    # ── training ──
    of(linear.linear_forward_flops, "training.forward.two-per-weight"),
    of(linear.weight_gradient_flops, "training.backward.weight-gradient-cost"),
    of(linear.input_gradient_flops, "training.backward.input-gradient-cost"),
    of(linear.two_layer_forward_flops, "training.mlp.forward", "training.mlp.reading-of-the-product"),
    of(linear.two_layer_backward_flops, "training.backward.first-layer"),
    of(
        linear.two_layer_backward_without_input_gradient_flops,
        "training.backward.first-layer",
        "training.backward.without-input-gradient",
    ),
    of(linear.backward_over_forward, "training.backward.input-gradient-negligible"),
    of(planner.forward_flops, "training.example.forward"),
    of(planner.backward_flops, "training.example.backward"),
    applied(
        planner.training_work,
        lambda parameters, tokens: planner.training_work(parameters, tokens, Recomputation.NONE).model_flops,
        "training.example.total",
        "training.total.six-times",
    ),
    applied(
        planner.flops_per_day,
        lambda peak, devices, mfu: planner.flops_per_day(peak=_peak(peak), devices=devices, mfu=mfu),
        "training.example.flops-per-day",
    ),
    applied(
        planner.training_days,
        lambda parameters, tokens, peak, devices, mfu: planner.training_days(
            planner.training_work(parameters, tokens, Recomputation.NONE), peak=_peak(peak), devices=devices, mfu=mfu
        ),
        "training.example.144-days",
    ),
    applied(
        planner.mfu,
        lambda model_flops, seconds, peak, devices: planner.mfu(
            planner.Work(model_flops), seconds=seconds, peak=_peak(peak), devices=devices
        ),
        "mfu.definition",
    ),
    # ── transformers ──
    applied(
        transformer.block_weights,
        lambda layers, width: transformer.block_weights(_block(layers, width)),
        "training.transformer.forward",
    ),
    applied(
        transformer.attention_flops,
        lambda layers, width, batch, context: transformer.attention_flops(
            _block(layers, width), batch, context, AttentionCounted.FULL
        ),
        "training.transformer.forward",
    ),
    of(transformer.rule_flops, "training.transformer.forward"),
    of(transformer.standard_block_excess, "training.transformer.forward", "training.transformer.total"),
    of(transformer.causal_standard_block_excess, "training.transformer.forward", "training.transformer.total"),
    applied(
        planner.training_flops_per_token,
        lambda weights, layers, width, context: planner.training_flops_per_token(
            planner.Parameters(weights, 0),
            planner.Attention(layers, width, context),
            ParametersCounted.BLOCKS,
            AttentionCounted.FULL,
        ),
        "training.transformer.total",
        "training.example.real-architecture",
    ),
    # ── initialisation ──
    of(initialisation.product_variance, "initialisation.randn.product-variance"),
    of(
        initialisation.output_variance,
        "initialisation.randn.output-variance",
        "initialisation.randn.std-proportional",
    ),
    of(initialisation.lecun_variance, "initialisation.variance-inverse-to-input", "initialisation.xavier.unit-output"),
    of(initialisation.xavier_variance, "initialisation.xavier.name", "initialisation.xavier.trains-stably"),
    of(initialisation.kaiming_variance, "initialisation.kaiming.through-relu"),
    # ── memory ──
    of(memory.rule_of_thumb, "memory.activations.whole-model", "memory.activations.one-layer"),
    of(memory.block_units, "memory.activations.whole-model"),
    of(memory.rows_to_exceed, "memory.activations.can-exceed-parameters"),
    applied(
        memory.evenly_sharded_bytes,
        lambda parameters, devices: memory.evenly_sharded_bytes(parameters, devices),
        "memory.example.40e9",
        "memory.adamw.sixteen-bytes",
    ),
)


@cache
def _by_claim() -> Mapping[str, tuple[Formula, ...]]:
    found: dict[str, list[Formula]] = {}
    for formula in FORMULAS:
        for claim in formula.claims:
            found.setdefault(claim, []).append(formula)
    return {claim: tuple(formulas) for claim, formulas in found.items()}


@cache
def _by_function() -> Mapping[str, Formula]:
    """Each formula by its function's bare name, which is all that evidence records; no name that two modules have."""
    modules = (initialisation, linear, memory, planner, transformer)
    found = {formula.function.__qualname__: formula for formula in FORMULAS}
    return {
        name: formula
        for name, formula in found.items()
        if all(getattr(each, name, formula.function) is formula.function for each in modules)
    }


def formulas_of(claim: ClaimRecord) -> list[Formula]:
    """The formulas to show at a claim: those of ``FORMULAS``, then those that its evidence names."""
    named = dict.fromkeys(row["by"] for row in claim["evidence"] if row["by"] is not None)
    found = [*_by_claim().get(claim["id"], ()), *(_by_function()[name] for name in named if name in _by_function())]
    return list(dict.fromkeys(found))


@cache
def printed(formula: Formula) -> Markup | None:
    """The formula's MathML; None where SymPy is missing."""
    from markupsafe import Markup

    return Markup(formula.mathml()) if find_spec("sympy") is not None else None
