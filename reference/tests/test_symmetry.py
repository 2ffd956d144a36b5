"""Networks with equal neurons: against the tape, AdamW by its equations, NumPy's rank, scipy's isotonic fit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float64, Shaped
from scipy.optimize import isotonic_regression

from reference import optimizers, scalars, symmetry
from reference.autodiff import differentiate
from reference.symmetry import Activation, Layer, Network, Randomness, Seen, Weights

Array = Shaped[np.ndarray, "..."]
FUNCTIONS: dict[Activation, Callable[[Any], Any]] = {
    Activation.IDENTITY: lambda x: x,
    Activation.RELU: scalars.relu,
    Activation.TANH: scalars.tanh,
    Activation.SIGMOID: scalars.sigmoid,
}
activations = pytest.mark.parametrize("activation", Activation)


def network(widths: tuple[int, ...], activation: Activation, seed: int = 0) -> tuple[Network, Array, Array]:
    drawn = np.random.default_rng(seed)
    pairs = itertools.pairwise(widths)
    layers = tuple(Layer(drawn.standard_normal(pair), drawn.standard_normal(pair[1])) for pair in pairs)
    return (
        Network(layers, activation),
        drawn.standard_normal((3, widths[0])),
        drawn.standard_normal((3, widths[-1])),
    )


def test_the_product_is_numpys() -> None:
    drawn = np.random.default_rng(0)
    left, right = drawn.standard_normal((3, 5)), drawn.standard_normal((5, 4))
    assert np.allclose(symmetry.product(left, right), left @ right)
    whole = drawn.integers(-9, 10, (3, 5)), drawn.integers(-9, 10, (5, 4))
    assert np.array_equal(symmetry.product(*whole), whole[0] @ whole[1])


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 9), st.integers(2, 5))
def test_equal_columns_have_equal_products_to_the_last_bit(seed: int, rows: int, inner: int, columns: int) -> None:
    drawn = np.random.default_rng(seed)
    left, right = drawn.standard_normal((rows, inner)), drawn.standard_normal((inner, 1)).repeat(columns, axis=1)
    assert symmetry.equal_columns(symmetry.product(left, right))


def test_equal_means_equal_to_the_last_bit() -> None:
    assert symmetry.equal_columns(np.array([[1.0, 1.0], [2.0, 2.0]]))
    assert not symmetry.equal_columns(np.array([[1.0, 1.0 + 2**-52]]))


@activations
@pytest.mark.parametrize("widths", [(2, 1), (2, 3, 1), (3, 2, 4, 2)])
def test_the_gradients_are_those_of_the_tape(activation: Activation, widths: tuple[int, ...]) -> None:
    net, x, targets = network(widths, activation)

    def half_squares(*parameters: Array) -> Any:
        h: Any = x.astype(object)
        pairs = list(zip(parameters[::2], parameters[1::2], strict=True))
        for place, (weight, bias) in enumerate(pairs):
            h = scalars.add(scalars.matmul(h, weight), bias)
            h = h if place == len(pairs) - 1 else scalars.elementwise(FUNCTIONS[activation], h)
        return scalars.summed([scalars.square(error) / 2 for error in (h - targets).flat])

    assert half_squares(*net.parameters()) == pytest.approx(((net.output(x) - targets) ** 2).sum() / 2)
    expected = differentiate(half_squares, *net.parameters()).gradients
    for seen, gradient in zip(net.gradients(x, targets), expected, strict=True):
        assert gradient is not None and np.allclose(seen, gradient)


def test_masked_numbers_pass_nothing_on() -> None:
    net, x, targets = network((2, 3, 1), Activation.TANH)
    mask = np.array([[1, 0, 1]] * 3)
    into, into_bias, out, _ = net.gradients(x, targets, [mask])
    assert not into[:, 1].any() and not into_bias[1] and not out[1].any()
    assert into[:, 0].all() and out[0].all()


@pytest.mark.parametrize("activation", symmetry.EXACT)
def test_fractions_stay_fractions(activation: Activation) -> None:
    net, x, targets = network((2, 2, 1), activation)
    exact = np.vectorize(Fraction, otypes=[object])
    net = net.with_parameters([exact(each) for each in net.parameters()])
    trained = next(symmetry.training(net, exact(x), exact(targets), "momentum"))
    assert all(isinstance(value, (Fraction, int)) for each in trained.parameters() for value in each.flat)


def test_adam_is_adamw_without_decay() -> None:
    net, x, targets = network((1, 2, 1), Activation.TANH)
    settings_ = optimizers.Settings(learning_rate=0.01, weight_decay=0.0)
    states = [optimizers.State(float(value)) for each in net.parameters() for value in each.flat]
    trained = symmetry.training(net, x, targets, "Adam")
    for _ in range(5):
        gradient = np.concatenate([each.ravel() for each in net.gradients(x, targets)]).clip(-4, 4)
        states = [optimizers.step(state, float(g), settings_) for state, g in zip(states, gradient, strict=True)]
        net = next(trained)
        seen = np.concatenate([each.ravel() for each in net.parameters()])
        assert np.allclose(seen, [state.weight for state in states], rtol=1e-9)


@pytest.mark.parametrize(
    ("optimizer", "gradient", "kept", "move"),
    [
        ("SGD", 32.0, (), 2.0),
        ("momentum", 4.0, (16.0,), (12 + 4) / 32),
        ("Adagrad", 3e-10, (16e-20,), 0.05 * 3e-10 / (5e-10 + 1e-10)),
        ("RMSprop", 5e-8, (0.75e-16 / 0.99,), 0.01 * 5e-8 / (1e-8 + 1e-8)),
        ("Adam", 1e-8, (0.0, 0.0), 0.01 / 2),
    ],
)
def test_an_optimizer_moves_a_weight_as_by_hand(
    optimizer: str, gradient: float, kept: tuple[float, ...], move: float
) -> None:
    state = tuple(np.full(1, each) for each in kept)
    chosen = symmetry.OPTIMIZERS[optimizer]
    seen, left = chosen.move(np.full(1, gradient), state, 1)
    assert seen == pytest.approx(move, rel=1e-9)
    assert len(left) == len(kept) == chosen.kept


def test_a_gradient_is_clipped_to_four() -> None:
    net, x, targets = network((1, 1), Activation.IDENTITY)
    for far, moved in ((1e6, 1 / 4), (-1e6, -1 / 4)):
        trained = next(symmetry.training(net, x, np.full_like(targets, far), "SGD"))
        assert trained.layers[0].bias - net.layers[0].bias == pytest.approx(moved)


def test_a_kink_has_no_slope() -> None:
    assert Activation.RELU.slope(np.zeros(1), np.zeros(1)) == 0


def test_dropout_leaves_out_a_number_or_doubles_it_and_noise_is_of_a_hundredth(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x, targets = network((2, 40, 1), Activation.TANH)
    masks: list[Array] = []

    def nothing(self: Network, x: Array, targets: Array, given: list[Array]) -> list[Array]:
        masks.extend(given)
        return [0 * each for each in self.parameters()]

    monkeypatch.setattr(Network, "gradients", nothing)
    next(symmetry.training(net, x, targets, "SGD", Randomness.DROPOUT))
    assert set(masks[0].flat) == {0, 2}
    noisy = next(symmetry.training(net, x, targets, "SGD", Randomness.NOISE))
    moves = np.concatenate([(a - b).ravel() for a, b in zip(noisy.parameters(), net.parameters(), strict=True)])
    assert 16 * moves.std() == pytest.approx(0.01, rel=0.25)


@pytest.mark.parametrize("optimizer", symmetry.OPTIMIZERS)
def test_every_optimizer_lowers_the_error(optimizer: str) -> None:
    net, x, targets = network((2, 4, 1), Activation.TANH)
    before = ((net.output(x) - targets) ** 2).mean()
    trained = next(itertools.islice(symmetry.training(net, x, targets, optimizer), 99, None))
    assert ((trained.output(x) - targets) ** 2).mean() < before


@pytest.mark.parametrize("randomness", Randomness)
def test_randomness_parts_equal_neurons_and_its_absence_does_not(randomness: Randomness) -> None:
    net, x, targets = network((2, 3, 1), Activation.TANH)
    into, out = net.layers
    into.weight[:], into.bias[:], out.weight[:] = into.weight[:, :1], into.bias[:1], out.weight[:1]
    trained = next(itertools.islice(symmetry.training(net, x, targets, "SGD", randomness), 4, None))
    assert symmetry.equal_columns(trained.layers[0].weight) == (randomness is Randomness.NONE)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 4), st.integers(0, 4))
def test_the_exact_rank_is_numpys_for_small_whole_numbers(seed: int, rows: int, columns: int, inner: int) -> None:
    drawn = np.random.default_rng(seed)
    matrix = drawn.integers(-3, 4, (rows, inner)) @ drawn.integers(-3, 4, (inner, columns))
    assert symmetry.exact_rank(matrix) == np.linalg.matrix_rank(matrix)


def test_the_exact_rank_has_no_tolerance() -> None:
    assert symmetry.exact_rank(np.array([[1.0, 1.0], [1.0, 1.0 + 2**-52]])) == 2
    assert symmetry.exact_rank(np.array([[0.1, 0.1], [0.3, 0.3]])) == 1


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=8))
def test_the_least_error_of_a_monotone_function_is_scipys(targets: list[int]) -> None:
    errors = []
    for increasing in (True, False):
        fitted = isotonic_regression(targets, increasing=increasing).x
        errors.append(((np.array(targets) - fitted) ** 2).mean())
    assert symmetry.least_monotone_error(targets) == pytest.approx(min(errors), abs=1e-12)


def test_one_neuron_is_off_by_a_sixth_at_one_nought_one() -> None:
    assert symmetry.least_monotone_error([1.0, 0.0, 1.0]) == pytest.approx(1 / 6)
    assert symmetry.least_monotone_error([0.0, 1.0, 3.0]) == 0


# ── how far rounding may part two copies ──

UNIT = 2.0**-24


def held(activation: Activation, x: Array, incoming: Array, bias: float, outgoing: Array, arriving: Array) -> Seen:
    z = x @ incoming + bias
    return Seen(x, z, activation(z), arriving, Weights(abs(incoming), abs(bias), abs(outgoing)))


def gradients_in_order(
    activation: Activation, order: Array, x: Array, incoming: Array, bias: Any, outgoing: Array, arriving: Array
) -> tuple[Float64[np.ndarray, "rows"], Float64[np.ndarray, "inputs"], Float64[np.ndarray, "outputs"]]:
    """A neuron's outputs and gradients in float32, every sum in the given order."""

    def summed(terms: Array) -> Array:
        total = np.zeros(terms.shape[1:], dtype=np.float32)
        for term in terms[np.argsort(order[: len(terms)])]:
            total = total + term
        return total

    x, incoming, outgoing, arriving = (each.astype(np.float32) for each in (x, incoming, outgoing, arriving))
    z = summed((x * incoming).T) + np.float32(bias)
    h = activation(z).astype(np.float32)
    through = summed((arriving * outgoing).T)
    into = through * activation.slope(z, h).astype(np.float32)
    return h.astype(float), summed(x * into[:, None]).astype(float), summed(arriving * h[:, None]).astype(float)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 20),
    st.integers(1, 20),
    st.sampled_from((Activation.TANH, Activation.RELU, Activation.IDENTITY)),
)
def test_two_orders_of_summation_are_no_further_apart_than_the_bound(
    seed: int, rows: int, inputs: int, activation: Activation
) -> None:
    drawn = np.random.default_rng(seed)
    x, incoming = drawn.standard_normal((rows, inputs)), drawn.standard_normal(inputs)
    outgoing, arriving = drawn.standard_normal(3), drawn.standard_normal((rows, 3))
    numbers = [each.astype(np.float32).astype(float) for each in (x, incoming, outgoing, arriving)]
    x, incoming, outgoing, arriving = numbers
    none = Weights(np.zeros(inputs), 0.0, np.zeros(3))
    seen = held(activation, x, incoming, 0.25, outgoing, arriving)
    bound, outputs = symmetry.gap_of_gradients(seen, none, activation, UNIT), symmetry.gap_of_outputs(seen, none, UNIT)
    one, other = (
        gradients_in_order(activation, drawn.permutation(64), x, incoming, 0.25, outgoing, arriving) for _ in range(2)
    )
    assert (abs(one[0] - other[0]) <= outputs).all()
    assert (abs(one[1] - other[1]) <= bound.incoming).all()
    assert (abs(one[2] - other[2]) <= bound.outgoing).all()


GAP = 2 * 0.5 + 0.25 + 2 * (2 * 3 + 1)
"""How far apart the sums of two copies are in the next test: by their weights, and by what rounding makes of 7."""
OUT = GAP + 2 * (0.5 + GAP)
"""How far apart what comes out of a hyperbolic tangent at a half may be."""


@pytest.mark.parametrize(
    ("activation", "z", "h", "slope", "slopes"),
    [
        (Activation.IDENTITY, 7.0, 7.0, 1, 0),
        (Activation.TANH, 7.0, 0.5, 1 - 0.25 + 2 * OUT + 1, 2 * 0.5 * OUT + OUT**2 + 2),
        (Activation.RELU, 0.0, 0.0, 1, 1),
        (Activation.RELU, GAP, GAP, 1, 1),
        (Activation.RELU, GAP + 1, GAP + 1, 1, 0),
        (Activation.RELU, -GAP, 0.0, 0, 1),
        (Activation.RELU, -GAP - 1, 0.0, 0, 0),
    ],
)
def test_the_bounds_of_a_network_of_one_number_each_are_those_found_by_hand(
    activation: Activation, z: float, h: float, slope: float, slopes: float
) -> None:
    """With a unit of 1/4 a sum of one product is off by a third at most, and one of two by as much as it is."""

    def weights(incoming: float, bias: float, outgoing: float) -> Weights:
        return Weights(np.full(1, incoming), bias, np.full(1, outgoing))

    seen = Seen(np.full((1, 1), 2.0), np.full(1, z), np.full(1, h), np.full((1, 1), 5.0), weights(3.0, 1.0, 4.0))
    before = weights(0.5, 0.25, 0.125)
    outputs = GAP + 2 * (h + GAP)
    assert symmetry.gap_of_outputs(seen, before, 1 / 4) == pytest.approx(outputs)

    through = 5 * 4
    throughs = 5 * 0.125 + 2 / 3 * through
    into = (through + throughs) * (slope + slopes)
    intos = slope * throughs + (through + throughs) * slopes + 2 * into
    gradients = symmetry.gap_of_gradients(seen, before, activation, 1 / 4)
    assert gradients.incoming == pytest.approx(2 * intos + 2 / 3 * 2 * into)
    assert gradients.bias == pytest.approx(intos + 2 / 3 * into)
    assert gradients.outgoing == pytest.approx(5 * outputs + 2 / 3 * 5 * (h + outputs))

    after = symmetry.gap_after_step(seen, before, gradients, weights(6.0, 7.0, 8.0), 0.5, 1 / 4)
    assert after.incoming == pytest.approx(0.5 + 0.5 * gradients.incoming + 6 / 4 * (3 + 0.5 * 6))
    assert after.bias == pytest.approx(0.25 + 0.5 * gradients.bias + 6 / 4 * (1 + 0.5 * 7))
    assert after.outgoing == pytest.approx(0.125 + 0.5 * gradients.outgoing + 6 / 4 * (4 + 0.5 * 8))


def test_what_lies_apart_stays_apart_by_as_much_and_rounding() -> None:
    seen = held(Activation.TANH, np.ones((2, 3)), np.full(3, 0.1), 0.0, np.ones(1), np.ones((2, 1)))
    before = Weights(np.full(3, 0.01), 0.0, np.zeros(1))
    assert (symmetry.gap_of_outputs(seen, before, UNIT) >= 0.03).all()
    assert (symmetry.gap_of_outputs(seen, before, UNIT) <= 0.031).all()
    gradients = symmetry.gap_of_gradients(seen, before, Activation.TANH, UNIT)
    after = symmetry.gap_after_step(seen, before, gradients, Weights(np.ones(3), 1.0, np.ones(1)), 0.5, UNIT)
    assert (after.incoming >= before.incoming + 0.5 * gradients.incoming).all()


def test_a_kink_that_rounding_can_cross_parts_gradients_altogether() -> None:
    far = held(Activation.RELU, np.ones((1, 1)), np.ones(1), 0.0, np.ones(1), np.ones((1, 1)))
    none = Weights(np.zeros(1), 0.0, np.zeros(1))
    assert symmetry.gap_of_gradients(far, none, Activation.RELU, UNIT).incoming < 1e-5
    near = held(Activation.RELU, np.ones((1, 1)), np.ones(1), -1.0, np.ones(1), np.ones((1, 1)))
    assert symmetry.gap_of_gradients(near, none, Activation.RELU, UNIT).incoming >= 1


def test_no_bound_is_made_up_for_other_activations() -> None:
    seen = held(Activation.SIGMOID, np.ones((1, 1)), np.ones(1), 0.0, np.ones(1), np.ones((1, 1)))
    with pytest.raises(ValueError, match="use identity, relu or tanh"):
        symmetry.gap_of_gradients(seen, Weights(np.zeros(1), 0.0, np.zeros(1)), Activation.SIGMOID, UNIT)
