"""Parameters and memory: what training keeps, for how long, and in how many bytes."""

import types
from collections.abc import ItemsView
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor, nn

from properties.claims import also, approximates, corrects, costly, holds, holds_when, needs, refuted
from properties.evidence import every, may_fail, observe, when
from properties.instruments import memory, processes
from properties.instruments.memory import Kind, Phase
from properties.instruments.saved import unique_bytes
from properties.instruments.sharing import same_storage
from properties.refusals import refused
from properties.strategies import gradient_sequences, module_trees, participation, training, transformers
from properties.strategies.gradient_sequences import Decayed, Momentum, Sequence
from properties.strategies.module_trees import Entry, Role, Tree
from properties.strategies.networks import Mlp
from properties.strategies.participation import Part, Parts, Stage
from properties.strategies.training import (
    Between,
    Block,
    Layers,
    Omission,
    Omitted,
    Optimizer,
    TrainingStep,
    Update,
    Way,
    Weights,
)
from properties.strategies.transformers import Attention
from reference import hardware, planner
from reference import memory as predicted
from reference.memory import BFLOAT16_WITH_MASTER, FLOAT32_ADAMW, SCALAR, Replicas

STEP = "a case makes a training step and accounts for each of its storages"

# ── AdamW on one device ──


@approximates(
    "memory.h100.80e9",
    "2/27: the cards report up to 8 % more bytes than the gigabytes they are sold with, some a little less",
)
@needs("cuda")
def test_a_card_has_the_gigabytes_it_is_sold_with():
    """An H100 has 80e9 bytes of memory.

    The card that is here, whichever it is, against the gigabytes of its name in the table of hardware; a card that is
    not in the table is none to judge by.
    """
    card = torch.cuda.get_device_properties(0)
    device = hardware.identify(card.name, card.total_memory)
    if isinstance(device, hardware.Unknown):
        pytest.skip(f"{device.name} is not in the table of hardware: {device.reason}")
    sold = device.memory * hardware.GIGA
    observe(rule=sold, exact=card.total_memory, bound=Fraction(2, 27), unit="B", where={"device": card.name})


@holds_when(
    "memory.adamw.four-tensors",
    "a step has been made and the parameter has had a gradient, without amsgrad, which adds a fifth. On top comes a"
    " scalar step counter for each. Before the first step there are no moments, and a parameter without gradient never"
    " has any.",
)
@given(update=training.adamw_updates((1, 0, 2)))
@example(update=Update(Weights(((2, 3),)), Optimizer("AdamW")))
@example(update=Update(Weights(((2, 3),)), Optimizer("AdamW", (("amsgrad", True),))))
@example(update=Update(Weights(((2, 3), (4,)), idle=(1,)), Optimizer("AdamW")))
@example(update=Update(Weights(((2, 3),)), Optimizer("AdamW"), 0))
def test_adamw_makes_four_tensors_of_each_parameter(update):
    """With AdamW every parameter usually has four tensors of its shape: itself, its gradient and two moments."""
    done = update.run()
    stepped = update.steps > 0 and not dict(update.optimizer.settings).get("amsgrad")
    for place, parameter in enumerate(done.parameters):
        gradient = [] if parameter.grad is None else [parameter.grad]
        shapes = [each.shape for each in (parameter, *gradient, *done.numbers(parameter))]
        assert (shapes == [parameter.shape] * 4) == when(stepped and place not in update.weights.idle)


@also("memory.adamw.four-tensors")
@given(update=training.adamw_updates((0, 1, 2)))
@example(update=Update(Weights(((2, 3), ()), idle=(1,)), Optimizer("AdamW", (("amsgrad", True),))))
def test_a_fifth_with_amsgrad_and_one_counter_each(update):
    """A parameter that has been stepped has three or, with amsgrad, four tensors beside itself, and a counter; any
    other has nothing.
    """
    done = update.run()
    amsgrad = dict(update.optimizer.settings).get("amsgrad", False)
    for place, parameter in enumerate(done.parameters):
        moved = update.steps > 0 and place not in update.weights.idle
        assert len(done.numbers(parameter)) == moved * (2 + amsgrad)
        assert (parameter.grad is not None) == moved
        counter = done.state(parameter).get("step")
        assert (counter is not None) == moved
        assert counter is None or (counter.shape == () and counter.item() == update.steps)


@holds("memory.adamw.sixteen-bytes")
@costly(cases=15, because=STEP)
@given(step=training.adamw_steps)
@example(step=TrainingStep(Mlp((8, 16, 4)), 5, Optimizer("AdamW")))
@example(step=TrainingStep(Mlp((4, 4, 4), tied=True), 5, Optimizer("AdamW", (), Way.GROUPED)))
def test_a_step_of_adamw_leaves_sixteen_bytes_a_parameter(step):
    """In float32 that makes 4 + 4 + 4 + 4 = 16 bytes a parameter.

    Bytes of the storages that are there after a real step, each counted once, and four more a tensor for its step
    counter. Clearing the gradients leaves twelve.
    """
    made = step.build()
    parameters = list(made.network.parameters())
    numbers, counters = sum(each.numel() for each in parameters), SCALAR * len(parameters)
    account = memory.account(made)
    after, cleared = account.after[Phase.STEP], account.after[Phase.CLEAR]
    assert after[Kind.PARAMETER] == after[Kind.GRADIENT] == 4 * numbers
    assert after[Kind.OPTIMIZER_STATE] == 8 * numbers + counters
    kept = sum(after[kind] for kind in (Kind.PARAMETER, Kind.GRADIENT, Kind.OPTIMIZER_STATE))
    assert kept == FLOAT32_ADAMW.total * numbers + counters
    assert cleared[Kind.GRADIENT] == 0


@also("memory.adamw.sixteen-bytes")
@given(shapes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3).map(tuple))
@example(shapes=((2, 3),))
def test_bfloat16_weights_with_a_float32_copy_take_twenty(shapes):
    """bfloat16 weights and gradients beside a float32 copy of both for AdamW take 2 + 2 + 4 + 4 + 8 = 20 bytes.

    More than float32 alone: the copy has to have a gradient of its own format while both are held.
    """
    weights = Weights(shapes, torch.bfloat16)
    parameters = weights.build()
    copies = [nn.Parameter(each.detach().float()) for each in parameters]
    for each, copy in zip(parameters, copies, strict=True):
        each.grad = torch.ones_like(each)
        copy.grad = each.grad.float()
    optimizer = Optimizer("AdamW").build(copies)
    optimizer.step()
    kept = [*parameters, *copies, *(each.grad for each in (*parameters, *copies))]
    kept += [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    assert unique_bytes(kept) == BFLOAT16_WITH_MASTER.total * weights.numbers == 20 * weights.numbers


@also("memory.adamw.sixteen-bytes")
@costly(cases=1, because="decoders of up to 70e9 parameters are built on the meta device", lowest="default")
def test_decoders_that_were_trained_take_sixteen_bytes_a_parameter():
    """GPT-2 small and Llama-3 8B and 70B too, and four bytes a tensor for its step counter."""
    for name in transformers.full_sizes():
        kept, numbers = transformers.kept_at_full_size(name), transformers.parameters_at_full_size(name)
        seen = unique_bytes(kept)
        assert seen == FLOAT32_ADAMW.total * numbers + SCALAR * sum(not each.dim() for each in kept)
        observe(rule=16, exact=Fraction(seen, numbers), unit="B a parameter", where={"decoder": name})


@also("memory.adamw.sixteen-bytes")
@needs("cuda")
@costly(cases=10, because=STEP)
@given(step=training.adamw_steps)
@example(step=TrainingStep(Mlp((8, 16, 4)), 5, Optimizer("AdamW", (), Way.FUSED)))
def test_the_allocator_of_a_card_is_asked_for_sixteen_bytes_a_parameter(step):
    """On a CUDA device the allocator's own figure after a step is what the account says: the sixteen bytes, and inputs.

    In requested bytes, since blocks are rounded up. The first step is made beforehand, for the libraries' workspaces.
    """
    made = step.build("cuda")
    memory.account(made)
    compared = memory.compare_with_cuda_allocator(made)
    for accounted, asked in compared.after.values():
        assert accounted == asked


@refuted(
    "memory.adamw.peak",
    instead="It is the steady state. While a step runs, one that goes through all parameters at once (foreach, the"
    " default on CUDA) takes one more tensor of every parameter, 20 bytes; one that goes through them one by one (the"
    " default on a CPU) twice the parameter at hand and once the one before it, at most; the fused step none.",
)
@given(update=training.float32_adamw_updates)
@example(update=Update(Weights(((4,),)), Optimizer("AdamW", (), Way.GROUPED)))
def test_a_step_needs_no_more_than_sixteen_bytes_a_parameter(update):
    """So 16 bytes a parameter is what a training step needs at its peak."""
    peak = memory.account(update.step()).peaks[Phase.STEP]
    counters = SCALAR * len(update.weights.shapes)
    assert peak.total - peak.bytes[Kind.OUTPUT] <= 16 * update.weights.numbers + counters


@corrects("memory.adamw.peak")
@costly(cases=40, because=STEP)
@given(update=training.float32_adamw_updates)
@example(update=Update(Weights(((4,),)), Optimizer("AdamW", (), Way.GROUPED)))
@example(update=Update(Weights(((4,), (100,), (50,))), Optimizer("AdamW", (), Way.ONE_BY_ONE)))
@example(update=Update(Weights(((4,),)), Optimizer("AdamW", (), Way.FUSED)))
def test_what_a_step_takes_on_top_depends_on_its_way(update):
    """At once: four bytes a parameter. One by one: twice the parameter at hand and once the one before it, which its
    successor has not replaced yet, and eight bytes for a number. Fused: eight for a number at most.
    """
    shapes, way = update.weights.shapes, update.optimizer.way
    on_top = memory.account(update.step()).peaks[Phase.STEP].bytes[Kind.TRANSIENT]
    if way is Way.FUSED:
        assert on_top <= 8
    else:
        assert on_top == update.optimizer.on_top(shapes)
        assert way is Way.ONE_BY_ONE or on_top == 4 * update.weights.numbers


@also("memory.adamw.peak")
def test_on_a_cpu_a_step_goes_through_the_parameters_one_by_one_unless_told_otherwise():
    """An optimizer that is told neither foreach nor fused takes on top what it takes one parameter after the other."""
    default = [memory.account(training.step_untold(each)).peaks[Phase.STEP].total for each in training.UNTOLD]
    one_by_one = [memory.account(each.step()).peaks[Phase.STEP].total for each in training.UNTOLD]
    same = [each == other for each, other in zip(default, one_by_one, strict=True)]
    every("four optimizers, two sets of parameters", same, training.UNTOLD, size=4 * 2)


# ── many devices ──


@holds_when(
    "memory.example.40e9",
    "all four states are sharded evenly over the devices (ZeRO-3, fully_shard where rows divide), activations and the"
    " step's own temporaries left out. Replicated, every device holds all: 5e9 at 16 bytes, and 4e9 with"
    " DistributedDataParallel's default buckets, which make it 20",
)
@given(
    devices=st.integers(1, 10**5),
    bytes_each=st.integers(10**4, 10**12),
    replicas=st.sampled_from((None, *Replicas)),
)
@example(devices=8, bytes_each=80 * 10**9, replicas=None)
@example(devices=8, bytes_each=80 * 10**9, replicas=Replicas.GRADIENTS_IN_BUCKETS)
@example(devices=8, bytes_each=80 * 10**9, replicas=Replicas.SEPARATE_BUCKETS)
def test_devices_train_as_many_parameters_as_their_memory_has_sixteen_bytes(devices, bytes_each, replicas):
    """Eight H100s can train 80e9 * 8 / 16 = 40e9 parameters.

    As many parameters as that quotient says, for any number of devices, take no more than each device has if, and
    only if, they are sharded, or there is one device and nothing beside the sixteen bytes.
    """
    parameters = devices * bytes_each // 16
    if replicas is None:
        needed = predicted.evenly_sharded_bytes(Fraction(parameters), devices)
    else:
        needed = predicted.replicated_bytes(parameters, replicas)
    one = devices == 1 and replicas is Replicas.GRADIENTS_IN_BUCKETS
    assert (needed <= bytes_each) == when(replicas is None or one)
    largest = planner.largest_model_in_memory(devices=devices, bytes_per_device=bytes_each, bytes_per_parameter=16)
    assert largest == parameters
    if (devices, bytes_each) == (8, 80 * 10**9):
        assert parameters == 40 * 10**9


@also("memory.example.40e9")
@needs("gloo")
@costly(cases=1, because="starts two processes", lowest="default")
def test_two_processes_hold_what_sharding_and_replication_say():
    """fully_shard leaves each of two processes half of everything, rows that do not divide rounded up; replicas hold
    all, and their buckets as much as the gradients once more unless the gradients are views of them.

    The same network on the same rows, over gloo. Every way has the same losses: those of the three shared ways are
    equal to the last bit, and a single process is off by no more than rounding.
    """
    widths, steps = (16, 31, 10), 3
    shapes = [shape for i, o in zip(widths, widths[1:], strict=False) for shape in ((o, i), (o,))]
    numbers = sum(Weights(tuple(shapes)).sizes)
    for rank, seen in enumerate(processes.train_on_two_ranks(widths, steps)):
        alone, copied = seen["alone"], seen["replicated"]
        viewed, sharded = seen["replicated, gradients in buckets"], seen["fully sharded"]
        assert alone.together == 16 * numbers
        assert copied.together == predicted.replicated_bytes(numbers, Replicas.SEPARATE_BUCKETS) == 20 * numbers
        assert viewed.together == predicted.replicated_bytes(numbers, Replicas.GRADIENTS_IN_BUCKETS) == 16 * numbers
        assert viewed.buckets == viewed.gradients
        assert sharded.together == predicted.sharded_bytes(shapes, 2, rank)
        assert copied.losses == viewed.losses == sharded.losses
        assert alone.losses == pytest.approx(copied.losses, rel=2**-18)


@also("memory.example.40e9")
@needs("gloo")
@costly(cases=1, because="starts two processes", lowest="thorough")
def test_two_processes_share_even_rows_without_a_rest():
    """Where every number of rows is even, each of two processes holds just half: eight bytes a parameter."""
    for seen in processes.train_on_two_ranks((16, 32, 10), 1):
        assert seen["fully sharded"].together == 8 * (32 * 17 + 10 * 33)


# ── counting parameters ──


@holds("memory.count.parameters")
@costly(cases=50, because="a case takes milliseconds")
@given(tree=module_trees.trees())
@example(tree=Tree((Entry(Role.PARAMETER, (2, 3)), Entry(Role.TIED, ()), Entry(Role.BUFFER, (5,)))))
@example(tree=Tree((), (Tree((Entry(Role.PARAMETER, (2,)),)),), twice=True))
def test_parameters_yields_every_parameter_once(tree):
    """Parameters are nn.Parameter objects, and model.parameters() yields them for counting.

    A parameter under two names counts once, wherever in the tree they are; buffers and tensors that are attributes do
    not count, parameters that are not trained do.
    """
    found = list(tree.build().parameters())
    assert all(isinstance(each, nn.Parameter) for each in found)
    assert sum(each.numel() for each in found) == sum(named.numbers for named in tree.parameters())
    assert len(found) == len(tree.parameters())


@also("memory.count.parameters")
@costly(cases=40, because="builds a tree of modules twice, copies it and converts it")
@given(tree=module_trees.trees())
@example(tree=Tree((Entry(Role.PARAMETER, (2, 3)), Entry(Role.TIED, ()))))
def test_a_copy_and_a_conversion_keep_what_is_one_parameter_one(tree):
    """A deep copy of a model, and one that is converted to float64, have as many parameters, under as many names."""
    for model in (deepcopy(tree.build()), tree.build().to(torch.float64)):
        assert sum(each.numel() for each in model.parameters()) == sum(named.numbers for named in tree.parameters())
        named = [name for name, _ in model.named_parameters(remove_duplicate=False)]
        assert sorted(named) == sorted(each.name for each in tree.walk() if each.entry.role in module_trees.PARAMETERS)


@also("memory.count.parameters")
def test_parameters_in_a_plain_list_are_not_found():
    """What a module keeps in a list, a tuple or a dictionary of Python's is neither counted nor saved.

    torch's own lists and dictionaries are for that.
    """
    found = [module_trees.numbers_found(each) == (module_trees.WIDTH,) * 2 for each in module_trees.FOUND.values()]
    every("containers of torch's", found, list(module_trees.FOUND), size=6)
    hidden = [module_trees.numbers_found(each) == (0, 0) for each in module_trees.HIDDEN.values()]
    every("containers of Python's", hidden, list(module_trees.HIDDEN), size=3)


@also("memory.count.parameters")
@costly(cases=40, because="makes optimizers")
@given(weights=training.weights(), name=st.sampled_from(("AdamW", "SGD", "Adam", "RMSprop")))
@example(weights=Weights(((2, 3), (4,))), name="AdamW")
def test_an_optimizer_takes_a_parameter_in_one_group_only(weights, name):
    """A parameter in two groups, from the start or added later, is refused; another one joins, and has no state yet."""
    parameters = weights.build()
    assert refused(ValueError, Optimizer(name).build, [{"params": parameters}, {"params": parameters[:1]}])
    optimizer = Optimizer(name).build(parameters)
    assert refused(ValueError, optimizer.add_param_group, {"params": parameters[-1:]})
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    assert [len(group["params"]) for group in optimizer.param_groups] == [len(parameters), 1]
    assert not optimizer.state


@also("memory.count.parameters")
@given(width=st.integers(1, 50), fan_in=st.integers(1, 50))
@example(width=3, fan_in=2)
def test_a_lazy_layer_cannot_be_counted_before_it_has_seen_data(width, fan_in):
    """The parameters of a lazy layer have no number of elements until the first batch has told their shape."""
    layer = nn.LazyLinear(width)
    assert refused(ValueError, lambda: [each.numel() for each in layer.parameters()])
    layer(torch.ones(1, fan_in))
    assert sum(each.numel() for each in layer.parameters()) == width * (fan_in + 1)


@holds_when(
    "memory.count.state-dict",
    "the model has no persistent buffers, no parameter under two names and no extra state: each of these adds to it, a"
    " tied weight once for each name, so that a sum over it counts too much. Its values are detached plain tensors, and"
    " extra state may be no tensor at all.",
)
@given(tree=st.one_of(module_trees.plain_trees(), module_trees.trees()))
@example(tree=Tree((Entry(Role.PARAMETER, (2, 3)), Entry(Role.UNSAVED_BUFFER, (5,)))))
@example(tree=Tree((Entry(Role.PARAMETER, (2, 3)), Entry(Role.TIED, ()))))
@example(tree=Tree((Entry(Role.PARAMETER, (2, 3)), Entry(Role.BUFFER, (5,)))))
@example(tree=Tree((Entry(Role.PARAMETER, (2, 3)),), extra=True))
def test_the_state_is_the_parameters_under_their_names(tree):
    """state_dict().items() gives every layer's weight names and parameters.

    Inside the condition it has just the names and tensors of named_parameters(); outside, what is there beside them is
    predicted.
    """
    model = tree.build()
    state = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
    parameters = dict(model.named_parameters())
    same = set(model.state_dict()) == set(parameters)
    assert same == when(tree.is_plain)
    assert {name: value.numel() for name, value in state.items()} == tree.state()
    assert all(state[name].data_ptr() == each.data_ptr() for name, each in parameters.items())


@also("memory.count.state-dict")
@given(tree=module_trees.trees())
@example(tree=Tree((Entry(Role.PARAMETER, (2, 3)),), extra=True))
def test_the_values_of_the_state_are_detached_tensors_and_remarks(tree):
    """No value is a Parameter or needs a gradient; each shares its storage with what it stands for; extra state comes
    once for each name of its module, and is no tensor here.
    """
    model = tree.build()
    values = list(model.state_dict().values())
    tensors = [each for each in values if isinstance(each, Tensor)]
    assert all(type(each) is Tensor and not each.requires_grad for each in tensors)
    owners = [*model.parameters(), *model.buffers()]
    assert all(any(same_storage(each, owner) for owner in owners) for each in tensors)
    assert len(values) - len(tensors) == tree.extras()


@also("memory.count.state-dict")
@given(width=st.integers(1, 9), assign=st.booleans())
@example(width=3, assign=False)
@example(width=3, assign=True)
def test_loading_copies_into_the_parameters_unless_it_is_to_assign(width, assign):
    """load_state_dict() copies into the parameters that are there, so that optimizers and other names still have them.

    With assign=True a model takes the loaded tensors for its own, and needs no memory for a second copy. A name too few
    or too many is refused.
    """
    model, state = nn.Linear(width, 2), nn.Linear(width, 2).state_dict()
    assert refused(RuntimeError, model.load_state_dict, {"weight": state["weight"]}, assign=assign)
    assert refused(RuntimeError, model.load_state_dict, {**state, "more": state["bias"]}, assign=assign)
    before = list(model.parameters())
    model.load_state_dict(state, assign=assign)
    assert all((each is old) == (not assign) for each, old in zip(model.parameters(), before, strict=True))
    assert all(torch.equal(each, state[name]) for name, each in model.named_parameters())
    assert all(same_storage(each, state[name]) == assign for name, each in model.named_parameters())


@refuted(
    "memory.count.lists",
    instead="parameters() is a generator, which can be walked once; state_dict() is an ordered dict, and its items() a"
    " view of (name, tensor) pairs, which follows the dict",
)
def test_parameters_and_items_are_lists():
    """parameters() and state_dict().items() return lists."""
    model = nn.Module()
    assert isinstance(model.parameters(), list)
    assert isinstance(model.state_dict().items(), list)


@corrects("memory.count.lists")
@given(tree=module_trees.trees())
@example(tree=Tree((Entry(Role.PARAMETER, (2, 3)),)))
def test_parameters_is_a_generator_and_items_a_view(tree):
    """The generator is empty after one walk; the view has pairs, and is as long as its dict is at any time."""
    model = tree.build()
    parameters, state = model.parameters(), model.state_dict()
    items = state.items()
    assert isinstance(parameters, types.GeneratorType)
    assert isinstance(items, ItemsView)
    assert len(list(parameters)) == len(tree.parameters())
    assert list(parameters) == []
    state["one more"] = torch.zeros(())
    assert [name for name, _ in items][-1] == "one more"


# ── the four sources ──


@holds("memory.training.four-sources")
@costly(cases=25, because=STEP)
@given(step=training.training_steps())
@example(step=TrainingStep(Mlp((8, 16, 4)), 5, Optimizer("AdamW")))
@example(step=TrainingStep(training.Decoding(2, 2, 4, 8, Attention.FUSED), 2, Optimizer("AdamW", (), Way.GROUPED)))
def test_every_byte_of_a_step_is_of_a_known_kind(step):
    """Training memory is mainly parameters, intermediates of the forward pass, gradients and optimizer state.

    Every storage alive at any time is one of these (intermediates are saved, or made again in the backward pass), a
    buffer, an input, the loss, or a transient, which dies in the phase that it was born in, by a named operator: what
    is none of them is an error. Between phases there is no transient. Within one they are at most four tensors as large
    as the largest there is, or, in the optimizer's step, two copies of the parameters and three of the largest, and a
    few single numbers.
    """
    account = memory.account(step.build())
    assert all(account.after[phase][Kind.TRANSIENT] == 0 for phase in Phase)
    parameters = account.before[Kind.PARAMETER]
    for phase, moment in account.peaks.items():
        copies = 2 * parameters + 3 * account.largest if phase is Phase.STEP else 4 * account.largest
        assert sum(moment.transients.values()) == moment.bytes[Kind.TRANSIENT] <= copies + 64


@also("memory.training.four-sources")
@costly(cases=15, because=STEP)
@given(step=training.chain_steps)
@example(step=TrainingStep(Mlp((64, 128, 128, 16)), 200, Optimizer("AdamW", (), Way.GROUPED)))
def test_each_kind_is_there_in_its_phases(step):
    """Of linear layers under AdamW the bytes of each kind are predicted, phase by phase.

    Intermediates at the end of the forward pass, gradients from the end of the backward pass on, moments from the step
    on, and on top what the step takes while it runs.
    """
    widths, seen = step.network.widths, step.by_phase()
    on_top = step.optimizer.on_top([parameter.shape for parameter in step.network.build().parameters()])
    for (phase, kind), nbytes in predicted.chain_by_phase(widths, step.rows, on_top).items():
        where = {"phase": phase, "kind": kind}
        observe(rule=nbytes, exact=seen[phase, kind], bound=0, unit="B", where=where, label="memory by phase")


@also("memory.training.four-sources")
@costly(cases=15, because="a case makes a training step under the memory profiler")
@given(step=training.exact_steps)
@example(step=TrainingStep(Mlp((8, 16, 4)), 5, Optimizer("AdamW")))
@example(step=TrainingStep(training.Convolution(2, 3, 6), 3, Optimizer("SGD", (("momentum", 0.9),))))
@example(step=TrainingStep(training.Decoding(2, 2, 4, 8), 2, Optimizer("AdamW", (), Way.GROUPED)))
def test_the_account_is_the_allocators_to_the_byte(step):
    """For multilayer networks, convolutions and composed attention the account and torch's memory profiler agree
    before and after every operator, and at the peak.

    What kernels take for themselves while they run is in the profiler's figure only; it is added, by its operator.
    """
    compared = memory.compare_with_allocator(step.build)
    assert compared.differences == {}
    assert compared.peak == compared.allocator_peak


@also("memory.training.four-sources")
@costly(cases=10, because=STEP)
@given(step=training.meta_steps)
@example(step=TrainingStep(Mlp((8, 16, 4)), 5, Optimizer("AdamW")))
def test_an_account_on_the_meta_device_is_the_same(step):
    """Between phases the meta device has, byte for byte, what the CPU has; it takes no memory for it."""
    on_cpu, on_meta = memory.account(step.build()), memory.account(step.build("meta"))
    assert on_meta.after == on_cpu.after


@also("memory.training.four-sources")
@needs("cuda")
@costly(cases=10, because=STEP)
@given(step=training.training_steps())
def test_the_account_is_what_the_allocator_of_a_card_says(step):
    """On a CUDA device the sum over all kinds is, at the end of each phase, what the allocator was asked for.

    And, with each storage rounded up to whole blocks of 512 bytes, what it has given. At the peak the allocator has at
    least as much, since kernels take some for themselves.
    """
    made = step.build("cuda")
    memory.account(made)
    compared = memory.compare_with_cuda_allocator(made)
    for accounted, asked in compared.after.values():
        assert accounted == asked
    for in_blocks, handed_out in compared.blocks.values():
        assert in_blocks == handed_out
    assert compared.peak <= compared.allocator_peak


@holds_when(
    "memory.training.parameters",
    "each parameter fills a storage of its own, as those that layers make do: one that is a window on a longer tensor"
    " keeps all of it in memory",
)
@given(tree=st.one_of(module_trees.trees(), module_trees.windowed_trees()))
@example(tree=Tree((Entry(Role.PARAMETER, (2, 3)), Entry(Role.PARAMETER, (4,), torch.bfloat16), Entry(Role.TIED, ()))))
@example(tree=Tree((Entry(Role.WINDOW, (2, 3)),)))
def test_parameters_take_their_number_times_their_bytes(tree):
    """Parameters take count * bytes per element.

    Storages, each counted once, of modules whose parameters have several formats and several names.
    """
    parameters = tree.parameters()
    equal = unique_bytes(tree.build().parameters()) == sum(each.nbytes for each in parameters)
    assert equal == when(not any(each.entry.role is Role.WINDOW for each in parameters))


# ── activations ──


@holds("memory.activations.kept-for-backward")
@given(layers=training.any_layers((Between.NOTHING,)), rows=st.integers(1, 9))
@example(layers=Layers((3, 4, 2)), rows=2)
@example(layers=Layers((3, 4, 2), frozen=(1,)), rows=2)
def test_a_linear_layer_keeps_its_input_if_its_weight_needs_a_gradient(layers, rows):
    """The forward pass must keep intermediates because weight gradients need them.

    Each linear layer keeps its input exactly when its weight is trained.
    """
    inputs, saved = layers.saved_with_inputs(rows)
    for place, x in enumerate(inputs):
        assert any(same_storage(x, each) for each in saved) == (place not in layers.frozen)


@also("memory.activations.kept-for-backward")
@given(rows=st.integers(1, 6), fan_in=st.integers(1, 6), fan_out=st.integers(1, 6), changed=st.integers(-9, 9))
@example(rows=2, fan_in=3, fan_out=2, changed=0)
def test_the_weight_gradient_is_made_of_the_input_that_was_kept(rows, fan_in, fan_out, changed):
    """Behind autograd's back an input is overwritten after the forward pass: the weight's gradient follows it.

    It is the transposed gradient of the output times what the input holds now; the bias's needs no input. Done openly,
    the overwriting makes the backward pass an error.
    """
    layer, x = nn.Linear(fan_in, fan_out), torch.ones(rows, fan_in)
    total = layer(x).sum()
    x.data.fill_(changed)
    total.backward()
    assert torch.equal(layer.weight.grad, torch.full((fan_out, fan_in), float(rows * changed)))
    assert torch.equal(layer.bias.grad, torch.full((fan_out,), float(rows)))
    total = layer(x).sum()
    x.fill_(changed)
    assert refused(RuntimeError, total.backward)


@also("memory.activations.kept-for-backward")
@costly(cases=10, because=STEP)
@given(step=training.training_steps())
@example(step=TrainingStep(Mlp((8, 16, 4)), 5, Optimizer("SGD")))
def test_what_was_kept_is_let_go_after_the_backward_pass(step):
    """Saved tensors are there after the forward pass, and all gone after the backward pass."""
    account = memory.account(step.build())
    assert account.after[Phase.FORWARD][Kind.SAVED] > 0
    assert account.after[Phase.BACKWARD][Kind.SAVED] == 0


@also("memory.activations.kept-for-backward")
@costly(cases=50, because="builds a network five times")
@given(layers=training.any_layers(), rows=st.integers(1, 9))
@example(layers=Layers((3, 4, 2), Between.GELU), rows=2)
@example(layers=Layers((3, 4, 2), Between.DROPOUT), rows=2)
def test_without_gradients_nothing_is_kept(layers, rows):
    """Under no_grad or inference_mode the same network keeps nothing, and neither does one whose layers are all frozen.

    One that is told to evaluate keeps all it did, without dropout's masks.
    """
    for without in (torch.no_grad, torch.inference_mode):
        with without():
            assert layers.saved(rows) == []
    assert layers.all_frozen().saved(rows) == []
    if layers.between is Between.DROPOUT:
        layers = replace(layers, between=Between.NOTHING)
    assert unique_bytes(layers.saved_in_evaluation(rows)) == unique_bytes(layers.saved(rows))


@holds("memory.activations.one-layer")
@given(
    rows=st.integers(1, 30),
    width=st.integers(1, 30),
    dtype=st.sampled_from((torch.float32, torch.bfloat16, torch.float16, torch.float64)),
    between=st.sampled_from((Between.NOTHING, Between.RELU, Between.TANH, Between.SIGMOID)),
)
@example(rows=4, width=8, dtype=torch.float32, between=Between.RELU)
@example(rows=4, width=8, dtype=torch.bfloat16, between=Between.NOTHING)
def test_a_hidden_layer_keeps_rows_times_width(rows, width, dtype, between):
    """A hidden layer's intermediate takes B * D * bytes per element.

    A network of two layers keeps its input and the hidden layer's output, and nothing else of that size.
    """
    layers = Layers((1, width, 1), between, dtype=dtype)
    inputs = rows * dtype.itemsize
    assert unique_bytes(layers.saved(rows)) - inputs == rows * width * dtype.itemsize


@also("memory.activations.one-layer")
@given(rows=st.integers(1, 30), width=st.integers(2, 30), between=st.sampled_from(list(Between)[1:]))
@example(rows=4, width=8, between=Between.RELU)
@example(rows=4, width=8, between=Between.LEAKY_RELU)
def test_an_activation_that_keeps_its_output_costs_nothing_more(rows, width, between):
    """Adding up every saved tensor counts storages twice: a ReLU's output is the next layer's input.

    ReLU, tanh and the sigmoid are free there; GELU, SiLU, leaky ReLU and dropout keep one tensor more. As many tensors
    are saved either way: unique storages are the unit.
    """
    saved = Layers((1, width, 1), between).saved(rows)
    keeps_more = between.keeps is not predicted.Keeps.OUTPUT
    assert unique_bytes(saved) == 4 * rows * (1 + width + width * keeps_more)
    assert sum(each.nbytes for each in saved) == 4 * rows * (1 + 2 * width)


@approximates(
    "memory.activations.whole-model",
    "for equally wide, trained layers: exact for linear layers alone; 1 / (L + 1) with ReLU, tanh or a sigmoid, where"
    " one after the last layer makes L + 1 tensors; half with GELU, SiLU, leaky ReLU or dropout on a CPU, which"
    " keep 2L - 1, and 2L after the last too. Frozen layers keep none; a transformer block keeps 16 of that size, and"
    " 16 + heads * context / width where attention is composed",
)
@given(layers=training.equal_layers(), rows=st.integers(1, 24))
@example(layers=Layers((8, 8, 8, 8)), rows=4)
@example(layers=Layers((8, 8), Between.RELU, closed=True), rows=4)
@example(layers=Layers((8,) * 7, Between.GELU, closed=True), rows=4)
def test_a_model_keeps_about_a_tensor_a_layer(layers, rows):
    """A model's intermediates take about B * D * num_layers * bytes per element."""
    unit, keeps = rows * layers.widths[0] * layers.dtype.itemsize, layers.between.keeps
    exact = unique_bytes(layers.saved(rows))
    assert exact == unit * predicted.tensors_saved(layers.count, keeps, layers.closed)
    rule = predicted.rule_of_thumb(rows, layers.widths[0], layers.count) * layers.dtype.itemsize
    bound = predicted.chain_error(layers.count, keeps)
    observe(rule=rule, exact=exact, bound=bound, unit="B", where=layers, by=predicted.rule_of_thumb)


@also("memory.activations.whole-model")
@given(layers=training.any_layers(), rows=st.integers(1, 24))
@example(layers=Layers((3, 5, 2, 4), Between.RELU, frozen=(1,)), rows=2)
@example(layers=Layers((3, 5, 2, 4), Between.GELU, closed=True, frozen=(0,)), rows=2)
@example(layers=Layers((3, 5, 2), Between.DROPOUT, dtype=torch.bfloat16), rows=2)
def test_what_any_chain_keeps_follows_from_who_needs_a_gradient(layers, rows):
    """Layers of any width, frozen or not: what each keeps is predicted, and everything is in the network's format.

    Dropout's mask is too: on a CPU it is a tensor of floating-point numbers.
    """
    saved = layers.saved(rows)
    assert unique_bytes(saved) == layers.dtype.itemsize * predicted.chain_saved(layers.rule, rows)
    assert all(each.dtype == layers.dtype for each in saved)


@also("memory.activations.whole-model")
@given(block=training.blocks)
@example(block=Block(2, 16, 8, 4))
@example(block=Block(2, 16, 8, 4, Attention.COMPOSED))
def test_a_transformer_block_keeps_sixteen_units_and_its_scores(block):
    """16 tensors [batch, context, width], and heads * context / width more where attention is composed.

    Exactly: with a mean and a deviation a token and norm, with the logarithms that fused attention keeps of its sums,
    or with composed attention's mask.
    """
    rule = predicted.block_saved_bytes if block.attention is Attention.FUSED else predicted.composed_block_saved_bytes
    sizes = block.rule
    exact = rule(sizes)
    assert unique_bytes(block.saved()) == exact
    scores = sizes.heads * (block.attention is Attention.COMPOSED)
    units = predicted.block_units(sizes.width, sizes.context, scores)
    observe(rule=4 * sizes.unit * units, exact=exact, unit="B", where=block, label=str(block.attention))


@holds("memory.activations.omissions")
@given(case=training.omissions)
@example(case=Omitted(Omission.INPUTS, 4, 8, 2, extra=3))
@example(case=Omitted(Omission.LAST_OUTPUT, 4, 8, 2))
@example(case=Omitted(Omission.TEMPORARIES, 4, 8, 2))
@example(case=Omitted(Omission.UNEQUAL_WIDTHS, 4, 8, 2, extra=3))
@example(case=Omitted(Omission.MORE_KEPT, 4, 8, 2))
def test_each_omission_is_what_the_formula_falls_short_by(case):
    """That leaves out inputs, last outputs, layers' own temporaries, unequal widths, and activations such as GELU that
    keep more.

    One at a time on linear layers of which the short formula is exact: what is kept beyond it is predicted, and more
    than nothing.
    """
    short = 4 * predicted.rule_of_thumb(case.rows, case.width, case.layers)
    assert unique_bytes(case.saved()) - short == 4 * case.left_out > 0


@holds_when(
    "memory.activations.can-exceed-parameters",
    "for equally wide linear layers the rows are more than the width, with biases more than the width and one; the loss"
    " shifts it by what it keeps itself",
)
@given(case=st.one_of(training.crowded(), training.uncrowded()))
@example(case=(Layers((8, 8, 8), bias=False), 9))
@example(case=(Layers((8, 8, 8)), 9))
def test_intermediates_take_more_than_parameters_from_some_batch_on(case):
    """Intermediates can take more memory than the parameters."""
    layers, rows = case
    exceeds = unique_bytes(layers.saved(rows)) > layers.parameters * layers.dtype.itemsize
    assert exceeds == when(rows > predicted.rows_to_exceed(layers.widths[0], layers.bias))


@also("memory.activations.can-exceed-parameters")
@given(layers=training.equal_layers((Between.NOTHING,)), rows=st.integers(1, 24), segment=st.integers(1, 6))
@example(layers=Layers((4,) * 7), rows=3, segment=2)
def test_checkpointing_keeps_one_input_for_each_segment(layers, rows, segment):
    """Where every few layers are run again in the backward pass, only their first inputs are kept: the batch from which
    intermediates exceed the parameters grows as many times.
    """
    kept = predicted.checkpointed_saved(rows, layers.widths[0], layers.count, segment)
    assert unique_bytes(layers.saved_in_segments(rows, segment)) == kept * layers.dtype.itemsize


# ── gradients ──


@holds_when(
    "memory.gradients",
    "the backward pass has run, the parameter took part in it, and its gradient is dense. Clearing the gradients frees"
    " them by default. A sparse embedding's gradient has a row and an index for each token that was looked up, and is"
    " smaller as long as these are few.",
)
@given(case=participation.parts)
@example(case=Parts((Part.LINEAR, Part.EMBEDDING), width=3, tokens=2, stage=Stage.AFTER_BACKWARD))
@example(case=Parts((Part.FROZEN, Part.UNUSED, Part.SPARSE), width=3, tokens=2, stage=Stage.AFTER_BACKWARD))
@example(case=Parts((Part.LINEAR,), width=3, tokens=2, stage=Stage.BEFORE_BACKWARD))
@example(case=Parts((Part.LINEAR,), width=3, tokens=2, stage=Stage.CLEARED))
def test_a_gradient_is_as_large_as_its_parameter(case):
    """Every trainable parameter has a gradient of its shape: count * bytes per element.

    A model with layers that take part, that are frozen and that are left aside, and with dense and sparse embeddings.
    """
    after = case.stage is Stage.AFTER_BACKWARD
    for part, parameter in case.run():
        assert participation.is_full(parameter) == when(after and part in participation.DENSE)
        has_one = after and part in (*participation.DENSE, Part.SPARSE)
        assert (parameter.grad is not None) == has_one


@also("memory.gradients")
@given(
    rows=st.integers(1, 40),
    width=st.integers(1, 12),
    tokens=st.integers(0, 60),
    dtype=st.sampled_from((torch.float32, torch.float64)),
)
@example(rows=40, width=4, tokens=3, dtype=torch.float32)
@example(rows=2, width=4, tokens=9, dtype=torch.float32)
def test_a_sparse_gradient_is_smaller_while_its_tokens_are_few(rows, width, tokens, dtype):
    """It takes tokens * (width * bytes + 8), repeated tokens repeatedly, where a dense one takes rows * width * bytes.

    So it is larger than the dense one as soon as there are about as many tokens as rows.
    """
    table = nn.Embedding(rows, width, sparse=True, dtype=dtype)
    table(torch.arange(tokens).remainder(rows)).sum().backward()
    gradient = table.weight.grad
    assert gradient.is_sparse
    size = unique_bytes([gradient._indices(), gradient._values()])
    assert size == predicted.sparse_gradient_bytes(tokens, width, dtype.itemsize)
    dense = rows * width * dtype.itemsize
    assert (size < dense) == (tokens * (width * dtype.itemsize + 8) < dense)


@also("memory.gradients")
@given(weights=training.weights(), to_none=st.booleans())
@example(weights=Weights(((2, 3),)), to_none=True)
@example(weights=Weights(((2, 3),)), to_none=False)
def test_clearing_frees_gradients_unless_told_to_keep_zeros(weights, to_none):
    """zero_grad() lets the gradients go; zero_grad(set_to_none=False) keeps them, full of zeros."""
    done = Update(weights, Optimizer("SGD")).run()
    done.optimizer.zero_grad(to_none)
    for parameter in done.parameters:
        assert (parameter.grad is None) == to_none
        assert to_none or (parameter.grad.shape == parameter.shape and not parameter.grad.any())


@also("memory.gradients")
@costly(cases=40, because="runs a layer three times")
@given(width=st.integers(1, 9), needs=st.booleans())
@example(width=3, needs=False)
@example(width=3, needs=True)
def test_by_default_a_checkpointed_region_gives_no_gradients_where_its_inputs_need_none(width, needs):
    """Weights in a region whose inputs need no gradient get none with use_reentrant=True, which is torch's default.

    Only a warning says so. With use_reentrant=False they always get theirs.
    """
    assert participation.reached_in_a_region(width, needs, None) == needs
    assert participation.reached_in_a_region(width, needs, True) == needs
    assert participation.reached_in_a_region(width, needs, False)


# ── optimizer state ──


@holds_when(
    "memory.optimizer.at-least-parameters",
    "it depends on the optimizer, in multiples of the parameters: SGD keeps none; with momentum one, as RMSprop,"
    " Adagrad, ASGD and Muon do; Adam, AdamW, Adadelta, Adamax, NAdam, RAdam and Rprop two, as RMSprop with momentum or"
    " centred; amsgrad and RMSprop with both three; LBFGS 2 + 2 for each pair in its history; Adafactor rows and"
    " columns of a matrix, and one for a vector. Counters and factors come on top",
)
@costly(cases=50, because="a case takes milliseconds")
@given(update=st.one_of(training.updates(), training.frugal_updates))
@example(update=Update(Weights(((3, 4), (5,))), Optimizer("AdamW")))
@example(update=Update(Weights(((3, 4), (5,))), Optimizer("SGD")))
@example(update=Update(Weights(((8, 9),)), Optimizer("Adafactor")))
@example(update=Update(Weights(((2, 2),)), Optimizer("Adafactor")))
def test_optimizers_keep_at_least_as_much_as_the_parameters(update):
    """Optimizer state is usually at least as large as the parameters.

    Bytes of the state's storages after some steps, single numbers left out, are what the table says for the optimizer
    and its settings, in the parameters' format.
    """
    done, shapes = update.run(), update.weights.shapes
    kept = unique_bytes(done.everything)
    predicted_numbers = update.optimizer.kept(shapes, done.pairs)
    assert kept == predicted_numbers * update.weights.dtype.itemsize
    assert (kept >= unique_bytes(done.parameters)) == when(predicted_numbers >= update.weights.numbers)


@also("memory.optimizer.at-least-parameters")
def test_no_optimizer_for_dense_gradients_is_left_out():
    """torch.optim has no other: each that is there has its multiple, and SparseAdam refuses dense gradients."""
    found = [name for name, each in vars(torch.optim).items() if isinstance(each, type) and name != "Optimizer"]
    known = [name in training.HERE or training.refuses_dense_gradients(name) for name in found]
    every("every optimizer of torch.optim", known, found, size=len(set(torch.optim.__all__) & set(found)))


@also("memory.optimizer.at-least-parameters")
def test_before_its_first_step_an_optimizer_keeps_nothing_but_adagrad_its_sums():
    """Averages, momentum and history come with the first step, so that memory grows there; Adagrad's sums are first."""
    shapes = ((3, 4), (5, 6))
    cases = [Optimizer(name, settings) for name, variants in training.HERE.items() for settings in variants]
    due = [(3 * 4 + 5 * 6) * (each.name == "Adagrad") for each in cases]
    seen = [training.kept_before_any_step(each, shapes) for each in cases]
    same = [kept == expected for kept, expected in zip(seen, due, strict=True)]
    every("every optimizer and its settings", same, cases, size=sum(map(len, training.HERE.values())))


@also("memory.optimizer.at-least-parameters")
@costly(cases=50, because="up to six steps of an optimizer")
@given(case=gradient_sequences.momenta)
@example(case=Momentum((1, 2, 3)))
@example(case=Momentum((4, 0, -2), nesterov=True, way=Way.GROUPED))
def test_momentum_is_one_running_sum_of_gradients(case):
    """SGD with momentum keeps one number for each: the first gradient as it is, half of the sum and all of each next.

    The weight moves by the rate times it, and with nesterov by the gradient and half of it. Exactly, in binary
    fractions, in every way of stepping.
    """
    assert case.run() == case.due


@also("memory.optimizer.at-least-parameters")
@costly(cases=20, because="a case makes a dozen steps of LBFGS")
@given(history=st.integers(1, 4), sides=st.tuples(st.integers(2, 6), st.integers(2, 6)))
@example(history=2, sides=(3, 4))
def test_lbfgs_fills_its_history(history, sides):
    """After more steps than its history has places, LBFGS keeps 2 + 2 * history times the parameters."""
    update = Update(Weights((sides,)), Optimizer("LBFGS", (("history_size", history), ("lr", 0.01), ("max_iter", 6))))
    done = update.run()
    assert done.pairs == history
    assert unique_bytes(done.everything) == 4 * (2 + 2 * history) * update.weights.numbers


@holds_when(
    "memory.optimizer.moments",
    "they are kept in float32 or a wider format. In bfloat16 an average that falls by a thousandth of itself a step is"
    " rounded back to where it was: the square's average never falls",
)
@costly(cases=50, because="a case takes milliseconds")
@given(case=st.one_of(gradient_sequences.sequences(), gradient_sequences.coarse_sequences()))
@example(case=Sequence(((1.0, -2.0, 0.0, 0.5),)))
@example(case=Sequence(((1.0, -2.0, 0.0, 0.5),), Optimizer("AdamW", (), Way.GROUPED), dtype=torch.float64))
@example(case=Sequence(((1.0, 0.0, 0.0, 0.0),), dtype=torch.bfloat16))
def test_adamw_averages_gradients_and_their_squares(case):
    """AdamW keeps moving averages of the gradient and of its square.

    Both against the recurrences, taken exactly in fractions, after a generated sequence of gradients, in every way of
    stepping. They are to be as close as float32's rounding, or the wider format's, lets the recurrences come.
    """
    close = case.moments_are_close()
    if when(case.dtype in gradient_sequences.FINE):
        assert close
    else:
        may_fail(close)


@also("memory.optimizer.moments")
@given(case=gradient_sequences.sequences())
@example(case=Sequence(((1.0, -2.0, 0.0, 0.5), (0.0, 0.0, 3.0, 3.0))))
@example(case=Sequence(((1.0, -2.0),), Optimizer("AdamW", (("amsgrad", True), ("maximize", True)), Way.GROUPED)))
@example(case=Sequence(((1.0, -2.0),), Optimizer("AdamW", (("weight_decay", 0.5),), Way.FUSED)))
def test_the_whole_step_is_the_update_equation(case):
    """Weights after every generated sequence are the reference's, within what rounding can do to its equations.

    Decay, both betas, eps, amsgrad and maximising are generated; one parameter after the other, all at once, and fused.
    """
    for seen, exact, bound in case.weights():
        assert abs(seen - exact) <= bound


@also("memory.optimizer.moments")
@given(case=gradient_sequences.decayed)
@example(case=Decayed(4, 1, 4))
@example(case=Decayed(4, 1, 4, "Adam", Way.GROUPED))
def test_only_adamw_keeps_the_decay_out_of_its_averages(case):
    """Adam, NAdam, RAdam and Adamax add decay * weight to the gradient before they average it; AdamW does not.

    Exactly: half of the sum, at a beta of a half.
    """
    assert case.first_average() == case.due


@also("memory.optimizer.moments")
def test_in_bfloat16_the_average_of_squares_never_falls():
    """After one gradient and up to 200 zeros, float32's average has fallen by a thousandth each time, and bfloat16's
    stands where it stood: a thousandth is less than half its ulp.

    From every significand of bfloat16 at three exponents.
    """
    significands = torch.arange(128, 256).float()
    start = torch.cat([significands * 2.0**exponent for exponent in (-17, -7, 3)])
    coarse = gradient_sequences.quiet_averages(torch.bfloat16, start, 200)
    fine = gradient_sequences.quiet_averages(torch.float32, start, 200)
    cases = range(200 * len(start))
    every("gradients and zeros after them", (coarse[1:] == coarse[0]).flatten(), cases, size=200 * 3 * 128)
    every("the same in float32", (fine[1:] < fine[:-1]).flatten(), cases, size=200 * 3 * 128)
    assert fine[-1] / fine[0] == pytest.approx(0.999**200, rel=2**-14)


@holds("memory.optimizer.same-size")
@given(update=training.adamw_updates((1, 2, 3)))
@example(update=Update(Weights(((2, 3), (4,))), Optimizer("AdamW")))
@example(update=Update(Weights(((2, 3),), torch.bfloat16), Optimizer("AdamW", (("amsgrad", True),), Way.FUSED)))
def test_each_average_is_as_large_as_its_parameter(update):
    """Each average is as large as the parameters and as the gradients.

    In shape, in format and in bytes.
    """
    done = update.run()
    for parameter in done.parameters:
        for each in done.numbers(parameter):
            assert (each.shape, each.dtype) == (parameter.shape, parameter.dtype)
            assert each.untyped_storage().nbytes() == parameter.nbytes == parameter.grad.nbytes


@also("memory.optimizer.same-size")
@given(
    size=st.integers(1, 1000),
    kept=st.sampled_from((torch.float32, torch.bfloat16, torch.float64)),
    weight=st.sampled_from((torch.bfloat16, torch.float32, torch.float16)),
)
@example(size=1000, kept=torch.float32, weight=torch.bfloat16)
@example(size=1000, kept=torch.bfloat16, weight=torch.float32)
def test_loading_gives_moments_the_format_of_the_parameter(size, kept, weight):
    """An optimizer that loads a state makes its moments as large as the parameters, whatever they were.

    So float32 moments of a bfloat16 model come back in bfloat16, half as large and rounded, and bfloat16 moments of a
    float32 model twice as large: memory before and after resuming differs. Only the step counter keeps its format.
    """
    before, after = gradient_sequences.resumed(size, kept, weight)
    assert {each.dtype for each in before} == {kept}
    assert {each.dtype for each in after} == {weight}
    assert unique_bytes(after) == 2 * size * weight.itemsize


@also("memory.optimizer.same-size")
def test_an_optimizer_that_loads_a_state_shares_it_where_nothing_is_converted():
    """state_dict() has the moments themselves, and an optimizer that loads them in their own format takes no copy.

    So a step of either optimizer moves the averages of both.
    """
    own, said, loaded = gradient_sequences.loaded_by_another()
    for name in ("step", "exp_avg", "exp_avg_sq"):
        assert same_storage(own[name], said[name])
        assert same_storage(own[name], loaded[name])


@holds("memory.optimizer.depends")
@costly(cases=50, because="a case takes milliseconds")
@given(update=training.updates())
@example(update=Update(Weights(((3, 4),), torch.bfloat16), Optimizer("AdamW")))
@example(update=Update(Weights(((3, 4),), torch.float64), Optimizer("Adafactor")))
def test_state_follows_the_optimizer_and_the_format(update):
    """The optimizer's share depends on the optimizer and the dtype.

    The same steps in float32 and in another format keep as many numbers; their bytes are as the formats', and only
    counters and factors stay in float32.
    """
    done = update.run()
    numbers = done.everything
    assert {each.dtype for each in numbers} <= {update.weights.dtype}
    assert sum(each.numel() for each in numbers) == update.optimizer.kept(update.weights.shapes, done.pairs)
    assert unique_bytes(numbers) == sum(each.numel() for each in numbers) * update.weights.dtype.itemsize


@also("memory.optimizer.depends")
@costly(cases=40, because=STEP)
@given(update=training.steps_with_known_temporaries())
@example(update=Update(Weights(((30,), (400,))), Optimizer("Adadelta"), 1))
@example(update=Update(Weights(((30,), (400,))), Optimizer("Adagrad", (), Way.GROUPED), 1))
@example(update=Update(Weights(((), ()), torch.bfloat16), Optimizer("ASGD", (), Way.GROUPED), 1))
def test_what_a_step_takes_on_top_depends_on_the_optimizer_too(update):
    """While it runs, up to thrice the parameter at hand, with what is left of the one before it, or two copies of all.

    For each optimizer from a table, exactly but for two single numbers at most. ASGD's grouped step also makes a new
    number for each tensor, which outweighs its copies where the tensors are next to nothing.
    """
    counters = SCALAR * len(update.weights.shapes)
    on_top = memory.account(update.step()).peaks[Phase.STEP].bytes[Kind.TRANSIENT]
    assert update.on_top() <= on_top <= max(update.on_top(), counters) + 16


@also("memory.optimizer.depends")
def test_each_optimizer_of_the_table_takes_on_top_what_it_says():
    """The same for every optimizer from the table, one parameter after the other and all at once.

    On parameters that grow and that shrink, each many times as large as a counter.
    """
    steps = training.STEPS_OF_EACH
    seen = [memory.account(each.step()).peaks[Phase.STEP].bytes[Kind.TRANSIENT] for each in steps]
    fits = [0 <= on_top - each.on_top() <= 16 for each, on_top in zip(steps, seen, strict=True)]
    every("each optimizer, each way, two sets of parameters", fits, steps, size=2 * 2 * len(training.KNOWN))
