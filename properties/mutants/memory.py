"""Worlds in which training keeps more, less or something else in memory than it does."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from unittest.mock import patch

import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import adam
from torch.overrides import TorchFunctionMode
from torch.utils import data
from torch.utils.data._utils import pin_memory as pinning

from properties.mutants.mutant import mutant, patched
from reference import memory as reference

# ── hardware and devices ──


@mutant("card-has-half-its-memory", breaks=("memory.h100.80e9",))
def card_has_half_its_memory() -> Iterator[None]:
    """The driver reports half of the bytes that the card is sold with."""
    original: Any = torch.cuda.get_device_properties

    class Half:
        def __init__(self, device: Any) -> None:
            whole = original(device)
            self.name, self.total_memory = whole.name, whole.total_memory * 94 // 100

    with patched(torch.cuda, "get_device_properties", Half):
        yield


@mutant(
    "sharding-shares-nothing",
    breaks=("memory.example.40e9",),
    properties=("test_devices_train_as_many_parameters_as_their_memory_has_sixteen_bytes",),
)
def sharding_shares_nothing() -> Iterator[None]:
    """A plan that shards gives every device all of it."""
    with patched(reference, "evenly_sharded_bytes", lambda parameters, devices: 16 * parameters):
        yield


@mutant(
    "fully-shard-replicates",
    breaks=("memory.example.40e9",),
    properties=(
        "test_two_processes_hold_what_sharding_and_replication_say",
        "test_two_processes_share_even_rows_without_a_rest",
    ),
)
def fully_shard_replicates() -> Iterator[None]:
    """fully_shard wraps a model in replicas instead."""
    import torch.distributed.fsdp  # half a second, for those who ask

    with patched(torch.distributed.fsdp, "fully_shard", _replicated):
        yield


def _replicated(network: nn.Module, **among: Any) -> nn.Module:
    return nn.parallel.DistributedDataParallel(network)


# ── AdamW ──


@mutant(
    "adamw-keeps-a-third-moment",
    breaks=(
        "memory.adamw.four-tensors",
        "memory.adamw.sixteen-bytes",
        "memory.training.four-sources",
        "memory.optimizer.at-least-parameters",
        "memory.optimizer.depends",
    ),
    properties=(
        "test_each_kind_is_there_in_its_phases",
        "test_adamw_makes_four_tensors_of_each_parameter",
        "test_a_fifth_with_amsgrad_and_one_counter_each",
        "test_a_step_of_adamw_leaves_sixteen_bytes_a_parameter",
        "test_decoders_that_were_trained_take_sixteen_bytes_a_parameter",
        "test_the_allocator_of_a_card_is_asked_for_sixteen_bytes_a_parameter",
        "test_optimizers_keep_at_least_as_much_as_the_parameters",
        "test_state_follows_the_optimizer_and_the_format",
    ),
)
def adamw_keeps_a_third_moment() -> Iterator[None]:
    """AdamW keeps one more tensor for each parameter that it steps."""
    original: Any = adam.Adam._init_group

    def grown(self: Any, group: Any, parameters: Any, *rest: Any) -> Any:
        told = original(self, group, parameters, *rest)
        for each in parameters:
            self.state[each].setdefault("exp_avg_cube", torch.zeros_like(each))
        return told

    with patched(adam.Adam, "_init_group", grown):
        yield


@mutant(
    "moments-lie-in-longer-tensors",
    breaks=("memory.optimizer.same-size",),
    properties=("test_each_average_is_as_large_as_its_parameter",),
)
def moments_lie_in_longer_tensors() -> Iterator[None]:
    """AdamW makes each first moment as a window on a tensor of twice the size."""
    original: Any = adam.Adam._init_group

    def windowed(self: Any, group: Any, parameters: Any, gradients: Any, firsts: Any, *rest: Any) -> Any:
        told = original(self, group, parameters, gradients, firsts, *rest)
        for place, each in enumerate(parameters):
            state = self.state[each]
            state["exp_avg"] = torch.stack((state["exp_avg"], state["exp_avg"]))[0]
            firsts[place] = state["exp_avg"]
        return told

    with patched(adam.Adam, "_init_group", windowed):
        yield


@mutant(
    "adamw-averages-in-bfloat16",
    breaks=("memory.optimizer.moments",),
    properties=(
        "test_adamw_averages_gradients_and_their_squares",
        "test_the_whole_step_is_the_update_equation",
        "test_in_bfloat16_the_average_of_squares_never_falls",
    ),
)
def adamw_averages_in_bfloat16() -> Iterator[None]:
    """After each step AdamW rounds its moments to bfloat16."""
    original: Any = torch.optim.AdamW.step

    def rounding(self: Any, closure: Any = None) -> Any:
        loss = original(self, closure)
        for state in self.state.values():
            for name in ("exp_avg", "exp_avg_sq"):
                state[name].copy_(state[name].bfloat16())
        return loss

    with patched(torch.optim.AdamW, "step", rounding):
        yield


@mutant(
    "adamw-decays-by-the-gradient",
    breaks=("memory.optimizer.moments",),
    properties=("test_the_whole_step_is_the_update_equation",),
)
def adamw_decays_by_the_gradient() -> Iterator[None]:
    """AdamW adds the decay to the gradient, as Adam does."""
    original: Any = torch.optim.AdamW.step

    def coupled(self: Any, closure: Any = None) -> Any:
        for group in self.param_groups:
            group["decoupled_weight_decay"] = False
        return original(self, closure)

    with patched(torch.optim.AdamW, "step", coupled):
        yield


@mutant(
    "the-copy-is-in-float64",
    breaks=("memory.adamw.sixteen-bytes",),
    properties=("test_bfloat16_weights_with_a_float32_copy_take_twenty",),
)
def the_copy_is_in_float64() -> Iterator[None]:
    """float() gives float64."""
    with patched(Tensor, "float", lambda self: self.double()):
        yield


@mutant(
    "every-step-is-fused",
    breaks=("memory.adamw.peak",),
    properties=(
        "test_a_step_needs_no_more_than_sixteen_bytes_a_parameter",
        "test_what_a_step_takes_on_top_depends_on_its_way",
    ),
)
def every_step_is_fused() -> Iterator[None]:
    """However it is to step, AdamW steps with the fused kernel."""
    fused: Any = adam._fused_adam
    with patched(adam, "_multi_tensor_adam", fused), patched(adam, "_single_tensor_adam", fused):
        yield


@mutant(
    "roots-are-taken-twice",
    breaks=("memory.adamw.peak", "memory.optimizer.depends"),
    properties=(
        "test_what_a_step_takes_on_top_depends_on_its_way",
        "test_what_a_step_takes_on_top_depends_on_the_optimizer_too",
        "test_each_optimizer_of_the_table_takes_on_top_what_it_says",
    ),
)
def roots_are_taken_twice() -> Iterator[None]:
    """A grouped square root is taken twice, and the first lives until the second is there."""
    original = torch._foreach_sqrt

    def twice(tensors: Any) -> Any:
        first = original(tensors)
        second = original(tensors)
        del first
        return second

    with patched(torch, "_foreach_sqrt", twice):
        yield


@mutant(
    "loading-keeps-the-format",
    breaks=("memory.optimizer.same-size",),
    properties=("test_loading_gives_moments_the_format_of_the_parameter",),
)
def loading_keeps_the_format() -> Iterator[None]:
    """An optimizer that loads a state takes its tensors as they are."""
    kept = staticmethod(lambda param, value, *rest, **more: value)
    with patched(torch.optim.Optimizer, "_process_value_according_to_param_policy", kept):
        yield


@mutant(
    "loading-copies-the-state",
    breaks=("memory.optimizer.same-size",),
    properties=("test_an_optimizer_that_loads_a_state_shares_it_where_nothing_is_converted",),
)
def loading_copies_the_state() -> Iterator[None]:
    """An optimizer that loads a state makes copies of its tensors."""
    original: Any = torch.optim.Optimizer.load_state_dict
    with patched(torch.optim.Optimizer, "load_state_dict", lambda self, state: original(self, deepcopy(state))):
        yield


@mutant(
    "adam-decays-apart",
    breaks=("memory.optimizer.moments",),
    properties=("test_only_adamw_keeps_the_decay_out_of_its_averages",),
)
def adam_decays_apart() -> Iterator[None]:
    """Adam takes the decay off the weight, as AdamW does."""
    original: Any = adam.Adam.__init__

    def apart(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{**kwargs, "decoupled_weight_decay": True})

    with patched(adam.Adam, "__init__", apart):
        yield


@mutant(
    "steps-at-once-by-default",
    breaks=("memory.adamw.peak",),
    properties=("test_on_a_cpu_a_step_goes_through_the_parameters_one_by_one_unless_told_otherwise",),
)
def steps_at_once_by_default() -> Iterator[None]:
    """On a CPU too, Adam and AdamW go through all parameters at once unless they are told otherwise."""
    with patched(adam, "_default_to_fused_or_foreach", lambda *args, **kwargs: (False, True)):
        yield


# ── other optimizers ──


@mutant(
    "momentum-that-dampens",
    breaks=("memory.optimizer.at-least-parameters",),
    properties=("test_momentum_is_one_running_sum_of_gradients",),
)
def momentum_that_dampens() -> Iterator[None]:
    """SGD takes half of each gradient into its buffer unless it is told to look ahead."""
    original: Any = torch.optim.SGD.__init__

    def dampening(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{"dampening": 0.0 if kwargs.get("nesterov") else 0.5, **kwargs})

    with patched(torch.optim.SGD, "__init__", dampening):
        yield


@mutant(
    "buffers-before-any-step",
    breaks=("memory.optimizer.at-least-parameters",),
    properties=("test_before_its_first_step_an_optimizer_keeps_nothing_but_adagrad_its_sums",),
)
def buffers_before_any_step() -> Iterator[None]:
    """SGD with momentum makes its buffers as it is made itself."""
    original: Any = torch.optim.SGD.__init__

    def eager(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        for each in (each for group in self.param_groups if group["momentum"] for each in group["params"]):
            self.state[each]["momentum_buffer"] = torch.zeros_like(each)

    with patched(torch.optim.SGD, "__init__", eager):
        yield


@mutant(
    "a-new-optimizer",
    breaks=("memory.optimizer.at-least-parameters",),
    properties=("test_no_optimizer_for_dense_gradients_is_left_out",),
)
def a_new_optimizer() -> Iterator[None]:
    """torch.optim has an optimizer more."""
    newcomer = type("Newcomer", (torch.optim.SGD,), {})
    optim: Any = torch.optim
    with (
        patched(optim, "__all__", [*optim.__all__, "Newcomer"]),
        patch.object(optim, "Newcomer", newcomer, create=True),
    ):
        yield


@mutant(
    "lbfgs-remembers-one-pair",
    breaks=("memory.optimizer.at-least-parameters",),
    properties=("test_lbfgs_fills_its_history",),
)
def lbfgs_remembers_one_pair() -> Iterator[None]:
    """LBFGS has a history of one, whatever it is told."""
    original: Any = torch.optim.LBFGS.__init__

    def forgetful(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{**kwargs, "history_size": 1})

    with patched(torch.optim.LBFGS, "__init__", forgetful):
        yield


# ── counting ──


@mutant(
    "parameters-come-twice",
    breaks=("memory.count.parameters",),
    properties=("test_parameters_yields_every_parameter_once",),
)
def parameters_come_twice() -> Iterator[None]:
    """parameters() yields a parameter once for each of its names."""

    def repeated(self: nn.Module, recurse: bool = True) -> Iterator[nn.Parameter]:
        for _, each in self.named_parameters(recurse=recurse, remove_duplicate=False):
            yield each

    with patched(nn.Module, "parameters", repeated):
        yield


@mutant(
    "nothing-is-counted-as-zero",
    breaks=("memory.count.parameters",),
    properties=("test_a_lazy_layer_cannot_be_counted_before_it_has_seen_data",),
)
def nothing_is_counted_as_zero() -> Iterator[None]:
    """A parameter without a shape has no elements."""
    with patched(nn.UninitializedParameter, "numel", lambda self: 0):
        yield


@mutant(
    "conversions-that-untie",
    breaks=("memory.count.parameters",),
    properties=("test_a_copy_and_a_conversion_keep_what_is_one_parameter_one",),
)
def conversions_that_untie() -> Iterator[None]:
    """A model that is converted has new parameters, one for each name."""
    future: Any = torch.__future__
    with patched(future, "get_overwrite_module_params_on_conversion", lambda: True):
        yield


@mutant(
    "lists-that-are-searched",
    breaks=("memory.count.parameters",),
    properties=("test_parameters_in_a_plain_list_are_not_found",),
)
def lists_that_are_searched() -> Iterator[None]:
    """A list of parameters that is set on a module becomes a list that torch looks into."""
    original: Any = nn.Module.__setattr__

    def searching(self: Any, name: str, value: Any) -> None:
        parameters = type(value) is list and value and all(isinstance(each, nn.Parameter) for each in value)
        original(self, name, nn.ParameterList(value) if parameters else value)

    with patched(nn.Module, "__setattr__", searching):
        yield


@mutant(
    "groups-that-overlap",
    breaks=("memory.count.parameters",),
    properties=("test_an_optimizer_takes_a_parameter_in_one_group_only",),
)
def groups_that_overlap() -> Iterator[None]:
    """An optimizer takes a parameter in as many groups as it is given in."""
    original: Any = torch.optim.Optimizer.add_param_group

    def lenient(self: Any, group: dict[str, Any]) -> None:
        try:
            original(self, group)
        except ValueError:
            self.param_groups.append(group)

    with patched(torch.optim.Optimizer, "add_param_group", lenient):
        yield


@mutant(
    "loading-assigns",
    breaks=("memory.count.state-dict",),
    properties=("test_loading_copies_into_the_parameters_unless_it_is_to_assign",),
)
def loading_assigns() -> Iterator[None]:
    """A model that loads a state takes its tensors for its own parameters."""
    original: Any = nn.Module.load_state_dict
    with patched(nn.Module, "load_state_dict", lambda self, state, assign=False: original(self, state, assign=True)):
        yield


@mutant(
    "loading-overlooks-names",
    breaks=("memory.count.state-dict",),
    properties=("test_loading_copies_into_the_parameters_unless_it_is_to_assign",),
)
def loading_overlooks_names() -> Iterator[None]:
    """A model loads what a state has under its names, and says nothing of the others."""
    original: Any = nn.Module.load_state_dict

    def lenient(self: Any, state: Any, strict: bool = True, assign: bool = False) -> Any:
        return original(self, state, strict=False, assign=assign)

    with patched(nn.Module, "load_state_dict", lenient):
        yield


@mutant(
    "the-state-has-every-buffer",
    breaks=("memory.count.state-dict",),
    properties=(
        "test_the_state_is_the_parameters_under_their_names",
        "test_the_values_of_the_state_are_detached_tensors_and_remarks",
    ),
)
def the_state_has_every_buffer() -> Iterator[None]:
    """state_dict() has buffers that are not persistent too, and no extra state."""

    def save(self: nn.Module, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, each in (*self._parameters.items(), *self._buffers.items()):
            if each is not None:
                destination[prefix + name] = each if keep_vars else each.detach()

    with patched(nn.Module, "_save_to_state_dict", save):
        yield


class _Listed(OrderedDict[str, Any]):
    def items(self) -> Any:
        return list(super().items())


@mutant("parameters-and-items-are-lists", breaks=("memory.count.lists",))
def parameters_and_items_are_lists() -> Iterator[None]:
    """parameters() and state_dict().items() return lists."""
    walk, state = nn.Module.parameters, nn.Module.state_dict
    with (
        patched(nn.Module, "parameters", lambda self, recurse=True: list(walk(self, recurse))),
        patched(nn.Module, "state_dict", lambda self, *args, **kwargs: _Listed(state(self, *args, **kwargs))),
    ):
        yield


@mutant("parameters-lie-in-longer-tensors", breaks=("memory.training.parameters",))
def parameters_lie_in_longer_tensors() -> Iterator[None]:
    """A module keeps each of its parameters as a window on a tensor of twice the size."""
    original: Any = nn.Module.register_parameter

    def windowed(self: nn.Module, name: str, param: nn.Parameter | None) -> None:
        if param is not None and type(param) is nn.Parameter:
            param = nn.Parameter(torch.stack((param.detach(), param.detach()))[0], param.requires_grad)
        original(self, name, param)

    with patched(nn.Module, "register_parameter", windowed):
        yield


# ── activations ──


@mutant(
    "layers-remember-their-output",
    breaks=("memory.training.four-sources", "memory.activations.kept-for-backward"),
    properties=(
        "test_every_byte_of_a_step_is_of_a_known_kind",
        "test_each_kind_is_there_in_its_phases",
        "test_the_account_is_the_allocators_to_the_byte",
        "test_an_account_on_the_meta_device_is_the_same",
        "test_the_account_is_what_the_allocator_of_a_card_says",
        "test_what_was_kept_is_let_go_after_the_backward_pass",
    ),
)
def layers_remember_their_output() -> Iterator[None]:
    """A linear layer holds on to what it gave last."""
    original = nn.Linear.forward

    def remembering(self: nn.Linear, input: Tensor) -> Tensor:
        self.__dict__["last"] = original(self, input)
        last: Tensor = self.__dict__["last"]
        return last

    with patched(nn.Linear, "forward", remembering):
        yield


class _LinearOfCopies(torch.autograd.Function):
    """A linear layer that keeps a copy of its input, whoever is trained."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x.clone(), weight)
        ctx.biased = bias is not None
        product = x @ weight.T
        return product if bias is None else product + bias

    @staticmethod
    def backward(ctx: Any, incoming: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return incoming @ weight, incoming.T @ x, incoming.sum(0) if ctx.biased else None


_linear_of_copies: Any = _LinearOfCopies.apply


@mutant(
    "linear-layers-keep-copies",
    breaks=("memory.activations.kept-for-backward",),
    properties=(
        "test_a_linear_layer_keeps_its_input_if_its_weight_needs_a_gradient",
        "test_the_weight_gradient_is_made_of_the_input_that_was_kept",
    ),
)
def linear_layers_keep_copies() -> Iterator[None]:
    """A linear layer keeps a copy of its input, also where its weight is not trained."""
    with patched(F, "linear", lambda input, weight, bias=None: _linear_of_copies(input, weight, bias)):
        yield


@mutant(
    "linear-layers-turn-gradients-on",
    breaks=("memory.activations.kept-for-backward",),
    properties=("test_without_gradients_nothing_is_kept",),
)
def linear_layers_turn_gradients_on() -> Iterator[None]:
    """A linear layer builds its part of the graph under no_grad too."""
    with patched(F, "linear", torch.enable_grad()(F.linear)):
        yield


@mutant(
    "evaluation-keeps-nothing",
    breaks=("memory.activations.kept-for-backward",),
    properties=("test_without_gradients_nothing_is_kept",),
)
def evaluation_keeps_nothing() -> Iterator[None]:
    """A model that is told to evaluate needs no gradients any more."""
    original: Any = nn.Module.eval
    with patched(nn.Module, "eval", lambda self: original(self).requires_grad_(False)):
        yield


@mutant(
    "relu-keeps-its-input",
    breaks=("memory.activations.one-layer", "memory.activations.whole-model"),
    properties=(
        "test_a_hidden_layer_keeps_rows_times_width",
        "test_an_activation_that_keeps_its_output_costs_nothing_more",
        "test_a_model_keeps_about_a_tensor_a_layer",
        "test_what_any_chain_keeps_follows_from_who_needs_a_gradient",
    ),
)
def relu_keeps_its_input() -> Iterator[None]:
    """ReLU is a clamp, which keeps its input."""
    with patched(F, "relu", lambda input, inplace=False: input.clamp(min=0)):
        yield


@mutant(
    "fused-attention-keeps-its-scores",
    breaks=("memory.activations.whole-model",),
    properties=("test_a_transformer_block_keeps_sixteen_units_and_its_scores",),
)
def fused_attention_keeps_its_scores() -> Iterator[None]:
    """Fused attention is composed of its parts."""

    def composed(query: Tensor, key: Tensor, value: Tensor, **told: Any) -> Tensor:
        scores = query @ key.transpose(-2, -1)
        return scores.softmax(dim=-1) @ value

    with patched(F, "scaled_dot_product_attention", composed):
        yield


@mutant("gelu-keeps-its-output", breaks=("memory.activations.omissions",))
def gelu_keeps_its_output() -> Iterator[None]:
    """GELU is a tanh, which keeps its output."""
    with patched(F, "gelu", lambda input, approximate="none": input.tanh()):
        yield


@mutant("outputs-lie-in-longer-tensors", breaks=("memory.activations.can-exceed-parameters",))
def outputs_lie_in_longer_tensors() -> Iterator[None]:
    """A linear layer gives its output as a window on a tensor of twice the size."""
    original = F.linear

    def windowed(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        output = original(input, weight, bias)
        return torch.stack((output, output))[0]

    with patched(F, "linear", windowed):
        yield


# ── gradients ──


@mutant(
    "clearing-keeps-zeros",
    breaks=("memory.gradients",),
    properties=(
        "test_a_gradient_is_as_large_as_its_parameter",
        "test_clearing_frees_gradients_unless_told_to_keep_zeros",
    ),
)
def clearing_keeps_zeros() -> Iterator[None]:
    """zero_grad() fills gradients with zeros instead of letting them go."""
    of_modules: Any = nn.Module.zero_grad
    of_optimizers: Any = torch.optim.Optimizer.zero_grad
    with (
        patched(nn.Module, "zero_grad", lambda self, set_to_none=True: of_modules(self, False)),
        patched(torch.optim.Optimizer, "zero_grad", lambda self, set_to_none=True: of_optimizers(self, False)),
    ):
        yield


@mutant(
    "embeddings-have-dense-gradients",
    breaks=("memory.gradients",),
    properties=(
        "test_a_gradient_is_as_large_as_its_parameter",
        "test_a_sparse_gradient_is_smaller_while_its_tokens_are_few",
    ),
)
def embeddings_have_dense_gradients() -> Iterator[None]:
    """A sparse embedding has a dense gradient."""
    original = F.embedding

    def dense(input: Tensor, weight: Tensor, *told: Any, **more: Any) -> Tensor:
        return original(input, weight)

    with patched(F, "embedding", dense):
        yield


@mutant(
    "regions-that-need-no-input",
    breaks=("memory.gradients",),
    properties=("test_by_default_a_checkpointed_region_gives_no_gradients_where_its_inputs_need_none",),
)
def regions_that_need_no_input() -> Iterator[None]:
    """Checkpointing is not reentrant unless it is told so."""
    checkpointing: Any = torch.utils.checkpoint
    original = checkpointing.checkpoint

    def other(*args: Any, use_reentrant: bool = False, **kwargs: Any) -> Any:
        return original(*args, use_reentrant=use_reentrant, **kwargs)

    with patched(checkpointing, "checkpoint", other):
        yield


# ── pinned memory ──


class _IgnoresPinning(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        kwargs.pop("pin_memory", None)
        if func is Tensor.pin_memory:
            return args[0].clone()
        return func(*args, **kwargs)


@mutant("pinning-gives-ordinary-memory", breaks=("pinned.memory.page-locked",))
def pinning_gives_ordinary_memory() -> Iterator[None]:
    """Asked for pinned memory, torch gives ordinary memory and says nothing."""
    with _IgnoresPinning():
        yield


@mutant("loaders-do-not-warn", breaks=("pinned.dataloader",), properties=("test_a_loader_gives_pinned_batches",))
def loaders_do_not_warn() -> Iterator[None]:
    """A loader that cannot pin gives ordinary memory and says nothing; one that can does not pin."""
    original: Any = data.DataLoader.__init__

    def quiet(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{**kwargs, "pin_memory": False})

    with patched(data.DataLoader, "__init__", quiet):
        yield


@mutant(
    "loaders-pin-unasked",
    breaks=("pinned.dataloader",),
    properties=("test_a_loader_that_is_not_asked_neither_pins_nor_warns",),
)
def loaders_pin_unasked() -> Iterator[None]:
    """A loader pins by default."""
    original: Any = data.DataLoader.__init__

    def eager(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{"pin_memory": True, **kwargs})

    with patched(data.DataLoader, "__init__", eager):
        yield


@mutant(
    "pinning-makes-plain-dictionaries",
    breaks=("pinned.dataloader",),
    properties=("test_pinning_keeps_containers_and_pins_what_knows_how",),
)
def pinning_makes_plain_dictionaries() -> Iterator[None]:
    """Batches of a dictionary's kind come back as plain dictionaries."""
    original: Any = pinning.pin_memory

    def plain(batch: Any, device: Any = None) -> Any:
        if isinstance(batch, dict):
            return {key: original(value, device) for key, value in batch.items()}
        return original(batch, device)

    with patched(pinning, "pin_memory", plain):
        yield
