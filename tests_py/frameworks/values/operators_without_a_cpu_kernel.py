"""The operators for which PyTorch has a kernel for CUDA and none for the CPU: each has a formula, or is refused by
name.

The list is that of the PyTorch that runs this. Prints how many have a formula, are refused, and compute nothing, and a
line for each that is neither: an operator without a formula is called, with arguments of the types in its schema.
"""

import sys
from collections import Counter
from typing import Any

import gpuconf

gpuconf.simulate("H100-80GB")

import torch  # noqa: E402
from gpuconf.simulation.values.formulas import FORMULAS, refusal_of  # noqa: E402

# They allocate or answer, and compute no value.
WITHOUT_VALUES = set(
    """
    aten::_cudnn_init_dropout_state aten::_cudnn_rnn_flatten_weight aten::_use_cudnn_ctc_loss
    aten::_use_cudnn_ctc_loss.Tensor aten::_use_miopen_ctc_loss aten::_use_miopen_ctc_loss.Tensor
    aten::record_stream
""".split()
)
VALUES = {
    "int": 1,
    "SymInt": 1,
    "number": 1,
    "float": 1.0,
    "bool": False,
    "str": "",
    "ScalarType": torch.float32,
    "List[int]": [1, 1],
    "List[SymInt]": [1, 1],
    "List[bool]": [True] * 4,
}


def names() -> list[str]:
    """Return the operators, without those of other libraries than PyTorch's own."""
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("CUDA")
    own = (name for name in registered if name.startswith(("aten::", "symm_mem::")))
    without = (name for name in own if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"))
    # Nothing makes the objects that a few take: they need another rank's memory.
    return sorted(name for name in without if "SymmetricMemory" not in str(torch._C._get_schema(*_parts(name)[1:])))


def _parts(name: str) -> tuple[str, str, str]:
    """Return an operator's namespace, its name with that, and its overload."""
    operator, _, overload = name.partition(".")
    return operator.partition("::")[0], operator, overload


def _value(argument: Any) -> Any:
    kind = str(argument.type)
    if argument.has_default_value():
        return argument.default_value
    if kind.startswith("Optional["):
        return None
    if "Tensor" in kind:
        return [torch.ones(4, 4, device="cuda")] * 4 if "List" in kind else torch.ones(4, 4, device="cuda")
    return VALUES[kind]


def refusal(name: str) -> str:
    """Call an operator. Return "" if it is refused by its name, else what came of it."""
    space, packet, overload = _parts(name)
    operator = getattr(getattr(getattr(torch.ops, space), packet.partition("::")[2]), overload or "default")
    arguments = operator._schema.arguments
    args = [_value(one) for one in arguments if not one.kwarg_only]
    named = {one.name: _value(one) for one in arguments if one.kwarg_only}
    try:
        return f"returned {operator(*args, **named)}"
    except NotImplementedError as error:
        wanted = f"gpuconf: {operator.name()} is not computed on simulated GPUs. "
        return "" if str(error).startswith(wanted) and len(str(error)) > len(wanted) else str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main() -> None:
    counts: Counter[str] = Counter()
    for name in names():
        if name in FORMULAS and not refusal_of(name):
            counts["with a formula"] += 1
        elif name in WITHOUT_VALUES:
            counts["without values"] += 1
        else:
            trouble = refusal(name)
            counts["refused"] += not trouble
            if trouble:
                print(f"{name}: {trouble}".replace("\n", " "))
    print(", ".join(f"{counts[what]} {what}" for what in ("with a formula", "refused", "without values")))


if __name__ == "__main__":
    sys.exit(main())
