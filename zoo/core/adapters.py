"""Low-rank adapters beside an encoder's frozen weights: put in by peft, merged into the weights as tensors."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from zoo.errors import InputError
from zoo.specs.model import AdapterSpec

_BASE, _DOWN, _UP = ".base_layer.", ".lora_A.default.weight", ".lora_B.default.weight"


def add_adapters(encoder: nn.Module, adapter: AdapterSpec) -> None:
    """Put adapters into an encoder, in place; what they add is zero at first.

    A layer ``q`` becomes ``q.base_layer`` with ``q.lora_A.default`` and ``q.lora_B.default`` beside it.

    Raises
    ------
    InputError
        If peft is not installed, or no linear layer has one of the names.
    """
    linear = {name.rsplit(".", 1)[-1] for name, module in encoder.named_modules() if isinstance(module, nn.Linear)}
    unknown = [name for name in adapter.targets if name not in linear]
    if unknown:
        raise InputError(
            f"start.lora_targets: no linear layer of {type(encoder).__name__} is called {', '.join(unknown)}. There "
            f"are: {', '.join(sorted(linear)) or 'none'}."
        )
    try:
        from peft import LoraConfig, inject_adapter_in_model  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise InputError("adapters need peft: pip install 'scizoo[lora]'") from error
    config = LoraConfig(
        r=adapter.rank, lora_alpha=adapter.alpha, lora_dropout=adapter.dropout, target_modules=list(adapter.targets)
    )
    inject_adapter_in_model(config, encoder)


def is_adapter(name: str) -> bool:
    """Whether a parameter of that name belongs to an adapter."""
    return ".lora_A." in name or ".lora_B." in name


def merge_adapters(state: Mapping[str, Tensor], adapter: AdapterSpec) -> dict[str, Tensor]:
    """Return the tensors of a network whose adapters have become part of its weights, summed in float64."""
    merged: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if is_adapter(name):
            continue
        layer, is_base, rest = name.partition(_BASE)
        if not is_base:
            merged[name] = tensor
            continue
        whole = tensor
        if rest == "weight":
            change = state[layer + _UP].double() @ state[layer + _DOWN].double()
            whole = (tensor.double() + adapter.alpha / adapter.rank * change).to(tensor)
        merged[f"{layer}.{rest}"] = whole
    return merged
