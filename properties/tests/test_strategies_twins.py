"""Networks with equal neurons: what the strategies reach, and that torch's is the reference's."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from properties.strategies import twins
from properties.strategies.twins import Arithmetic, Copies, Fit, Parted, Start, Twins, TwoLayers, backward
from properties.tests.drawing import drawn, share, smallest
from reference import symmetry
from reference.symmetry import Activation, Randomness


class TestTwins:
    def test_copies_stand_in_hidden_and_in_last_layers_of_nets_of_all_depths(self) -> None:
        cases = drawn(twins.twins())
        assert all(2 <= case.copies <= case.widths[case.layer] for case in cases)
        last = share(cases, lambda case: case.layer == len(case.widths) - 1)
        assert 0.1 <= last <= 0.9
        assert {len(case.widths) for case in cases} == {2, 3, 4}
        assert 0.2 <= share(cases, lambda case: case.arithmetic is Arithmetic.FRACTIONS) <= 0.8
        assert {case.activation for case in cases} == set(Activation)
        assert all(case.activation in symmetry.EXACT for case in cases if case.arithmetic is Arithmetic.FRACTIONS)

    def test_parted_ones_differ_in_one_thing(self) -> None:
        cases = drawn(twins.parted_twins(), 100)
        assert {case.parted for case in cases} == {Parted.BIAS, Parted.OUTGOING}
        for case in cases:
            network, _, targets = case.build()
            here = network.layers[case.layer - 1]
            last = case.layer == len(network.layers)
            outgoing = targets.T if last else network.layers[case.layer].weight
            alike = [
                symmetry.equal_columns(here.weight[:, : case.copies]),
                len(set(here.bias[: case.copies])) == 1,
                symmetry.equal_columns(outgoing[: case.copies].T),
            ]
            assert alike[0]
            if case.arithmetic is Arithmetic.FLOATS:
                assert alike[1:] == [case.parted is not Parted.BIAS, case.parted is not Parted.OUTGOING]

    def test_most_parted_ones_show_it(self) -> None:
        cases = drawn(twins.parted_twins(), 200)
        assert share(cases, lambda case: case.equal_outputs() and case.equal_gradients()) <= 0.5

    def test_the_smallest_is_two_outputs(self) -> None:
        assert smallest(twins.twins(), lambda case: True).widths == (1, 2)

    def test_a_copy_that_is_parted_stays_so(self) -> None:
        whole = Twins((2, 3, 1), 3, 1, 3, Activation.TANH)
        assert whole.equal_after(5, "Adam")
        assert not whole.equal_after(5, "Adam", Randomness.DROPOUT)
        assert not Twins((2, 3, 1), 3, 1, 3, Activation.TANH, parted=Parted.BIAS).equal_after(5, "Adam")


class TestFits:
    def test_no_single_neuron_meets_the_targets(self) -> None:
        cases = drawn(twins.fits())
        assert all(case.least_of_one > 0 for case in cases)
        assert len({case.targets for case in cases}) >= 20

    def test_neurons_start_equal_or_apart(self) -> None:
        case = Fit(3, Activation.TANH, (1.0, 0.0, 1.0), 0)
        for start in Start:
            network, x, targets = case.build(start)
            assert symmetry.equal_columns(network.layers[0].weight) == (start is Start.EQUAL)
            assert x.shape == targets.shape == (3, 1)

    def test_a_neuron_that_is_the_best_there_is_has_the_least_error(self) -> None:
        """Steps between the first two inputs, half as high as the targets are off."""
        case = Fit(2, Activation.RELU, (1.0, 0.0, 1.0), 0)
        best = np.array([0.5, 0.5, 1.0])
        assert ((best - np.array(case.targets)) ** 2).mean() == case.least_of_one

    def test_in_torch_and_on_the_reference_the_same_comes_of_it(self) -> None:
        case = Fit(3, Activation.TANH, (1.0, 0.0, 1.0), 0)
        network, x, targets = case.build(Start.APART)
        net = TwoLayers(network, torch.float64)
        assert np.allclose(net(torch.tensor(x)).detach().numpy(), network.output(x))
        backward((net(torch.tensor(x)) - torch.tensor(targets)).square().mul(0.5).sum())
        into, bias, out, _ = network.gradients(x, targets)
        for seen, expected in zip(net.gradients(), (into.T, bias, out), strict=True):
            assert np.allclose(seen, expected)


class TestCopies:
    def test_all_neurons_begin_equal(self) -> None:
        for case in drawn(twins.copies(), 50):
            net, x, targets = case.build()
            assert net.apart() == 0
            assert x.shape == (case.rows, case.inputs) and targets.shape == (case.rows, case.outputs)

    def test_what_is_compared_is_everything_there_is(self) -> None:
        compared = list(Copies(2, 3, 2, 1, Activation.TANH).compared(steps=2))
        assert len(compared) == len({each.what for each in compared}) == 2 * 7
        assert all(each.bound > 0 for each in compared)

    def test_bounds_grow_with_the_steps_and_stay_near_rounding(self) -> None:
        compared = {each.what: each.bound for each in Copies(8, 20, 6, 3, Activation.TANH).compared(steps=3)}
        bounds = [compared[f"incoming weights after step {step}"] for step in (1, 2, 3)]
        assert sorted(bounds) == bounds
        assert bounds[-1] < 1e-3

    def test_dropout_of_nothing_parts_nothing(self) -> None:
        case = Copies(2, 2, 2, 1, Activation.TANH)
        assert case.after_a_step_with_dropout(0.0) < 2.0**-20

    def test_drift_is_told_at_the_steps_asked_for(self) -> None:
        drift = Copies(2, 2, 2, 1, Activation.TANH).drift("SGD", (1, 3))
        assert list(drift) == [1, 3]
        assert all(apart < 1e-3 for apart in drift.values())


def test_a_seed_repeats_what_is_trained() -> None:
    case = Twins((2, 3, 1), 3, 1, 3, Activation.TANH)
    one, other = (next(itertools.islice(case.trained("SGD", Randomness.NOISE), 2, None)).parameters() for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
