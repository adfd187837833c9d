# SPDX-License-Identifier: Apache-2.0
"""Take the place of PyTorch's kernels for CUDA, in the whole process: every thread calls what the dispatcher has."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable

import torch

from ..._core import import_hook
from ..._typing import Any
from . import accumulation, answers, graphs, kernels, memory, moves, notice, small, sparse, unmarked, unwritten
from .formulas import FORMULAS, refusal_of


def _operators(names: str) -> set[str]:
    return {f"aten::{name}" for name in names.split()}


_registered: set[str] = set()
_libraries: dict[str, torch.library.Library] = {}
_ALONE = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
# Their kernels for CUDA read on the host what a kernel has written, which nothing does here. Those of a number and a
# tensor make a tensor of the number on the GPU, which no Python kernel can be called with.
_ALONE_NAMES = _operators("""
    bucketize.Scalar histc histc.out isin.Scalar_Tensor isin.Scalar_Tensor_out searchsorted.Scalar
    searchsorted.Scalar_out segment_reduce _segment_reduce_backward linalg_eig linalg_eig.out linalg_matrix_exp
    median mode mode.values nanmedian normal.float_Tensor normal.Tensor_Tensor pow.Scalar pow.Scalar_out
""")
# They have sizes that depend on values, or return one, and no tag says so.
_WAITING = {"aten::_unique", "aten::_unique.out", "aten::equal", "aten::is_nonzero", "torchvision::nms"}
# Of these, those with sizes that depend on values; the tag says so of the others.
_SIZED = {"aten::_unique", "aten::_unique.out", "torchvision::nms"}
# They have one kernel for all devices, which on a GPU launches kernels or checks values. Of ldexp that is so from
# PyTorch 2.11 on: before, it calls other operators only.
_MORE = _operators("copy_ _linalg_check_errors conj_physical_ ldexp.Tensor ldexp.out ldexp_")
# They allocate, or change sizes and storages, and launch nothing, or call other operators only.
_PLAIN = _operators("""
    _embedding_bag_backward empty.memory_format empty_strided resize_ set_ set_.source_Storage
    set_.source_Storage_storage_offset set_.source_Tensor record_stream is_set_to is_pinned _pin_memory
    _efficientzerotensor _fused_sdp_choice _cudnn_init_dropout_state _cudnn_rnn_flatten_weight _use_miopen_ctc_loss
    _use_miopen_ctc_loss.Tensor _use_cudnn_ctc_loss _use_cudnn_ctc_loss.Tensor
""")
# They make a quantized tensor on a GPU, for which there is only what has kernels of its own.
_QUANTIZED = ("aten::_empty_affine_quantized", "aten::_empty_per_channel_affine_quantized", "aten::empty_quantized")
_NESTED = "NestedTensorCUDA"
# Before 2.9 nothing returns a kernel that another one takes the place of. There the kernels are registered for the key
# that comes before those of the devices, and operations on the CPU pass through them, too.
_HAS_GET_KERNEL = hasattr(torch.library, "get_kernel")
_AFTER_SELECTION = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
# An argument that a result may lie in and that is not written to, as self in "view(Tensor(a) self, SymInt[] size) ->
# Tensor(a)"
_VIEWED = re.compile(r"\([a-z](?: -> [^)!]*)?\)(?:\[\]|\?)? \w+[,)=]")
_SPACES = ("aten", "quantized", "quantization", "fsdp", "symm_mem", "torchvision")


def install(values: str, machine: str, library: Any, *, strict: bool) -> None:
    """Register the kernels for every operator that has one for CUDA.

    ``library`` has the functions that stand in for CUDA's.
    """
    unmarked.install(library, strict=strict)
    memory.install(library)
    graphs.install_queues(library)
    answers.install(library)
    accumulation.install(library, _at_first_call)
    # Not before PyTorch starts CUDA: a process that is forked after the question has no CUDA.
    torch.cuda._lazy_call(functools.partial(_tell_architectures, library))
    notice.install(machine, values)
    graphs.install()
    # TorchScript would compile kernels of its own, which have no value.
    torch._C._jit_override_can_fuse_on_gpu(False)
    # That of nn.TransformerEncoder has kernels for nested tensors, whose sizes are values.
    torch.backends.mha.set_fastpath_enabled(False)
    notice.install_compiled()
    if values == "none":
        moves.only_small = True
        small.install()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is overridden
        _register_all()
        for key in ("SparseCUDA", "SparseCsrCUDA"):
            for name in sparse.names(key):
                _put(name, _at_first_call(functools.partial(_sparse, name)), key)
        _put("aten::to_padded_tensor", sparse.padded, _NESTED)
        if _HAS_GET_KERNEL:  # else the operators of all devices would pass through Python
            for name in _QUANTIZED:
                original = _computed(name, "QuantizedCUDA")
                _put(name, kernels.refusing(_overload(name), original, "Quantize tensors on the CPU"), "QuantizedCUDA")
            for name in torch._C._dispatch_get_registrations_for_dispatch_key(_NESTED):
                if name != "aten::to_padded_tensor" and not _is_view(name):
                    _put(name, _at_first_call(functools.partial(_nested, name, _computed(name, _NESTED))), _NESTED)
            for name in unwritten.REQUESTS:
                _put(name, unwritten.clearing(_original(name)), "CUDA")
        else:  # what an operation resizes keeps its values
            clearing = unwritten.clearing(_original("aten::resize_"))
            _put("aten::resize_", _on_gpus_only(clearing, _overload("aten::resize_")), "BackendSelect")
    import_hook.when_imported("torchvision", lambda: _register_all(("torchvision",)))


def _tell_architectures(library: Any) -> None:
    for architecture in (torch._C._cuda_getArchFlags() or "").split():
        if architecture.startswith("sm_") and architecture[3:].isdigit():
            library.gpuconf_runtime_compiled_for(int(architecture[3:]))


def leave_unwritten() -> None:
    """From now on draw no random numbers for large CPU tensors (`unwritten`)."""
    unwritten.activate()
    if not _HAS_GET_KERNEL:
        return  # `_on_gpus_only` asks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is overridden
        for name in unwritten.NAMES:
            overload = _overload(name)
            original = torch.library.get_kernel(overload, "CPU").call_boxed
            _put(name, unwritten.kernel_for(name, overload, original), "CPU")


def _register_all(spaces: tuple[str, ...] = _SPACES) -> None:
    """Register what is there now.

    Operators that PyTorch's own modules register later, such as fsdp's, call those of aten.
    """
    of_all = set(torch._C._dispatch_get_registrations_for_dispatch_key("CompositeExplicitAutograd"))
    names = set(torch._C._dispatch_get_registrations_for_dispatch_key("CUDA")) | (_MORE & of_all)
    for name in sorted(names - _registered):
        if name.partition("::")[0] in spaces and name not in _PLAIN:
            _registered.add(name)
            _register(name)


def _at_first_call(make: Callable[[], kernels.Kernel]) -> kernels.Kernel:
    """Return a kernel that is made when it is called: programs call few of more than a thousand, and wait for their
    imports.
    """
    made: kernels.Kernel | None = None

    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        nonlocal made
        if made is None:
            made = make()
        return made(keys, *args, **named)

    return kernel


def _sparse(name: str) -> kernels.Kernel:
    return sparse.computing(_overload(name))


def _nested(name: str, original: kernels.Kernel) -> kernels.Kernel:
    return sparse.nested(_overload(name), original)


def _overload(name: str) -> Any:
    space, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), packet), overload or "default")


def _computed(name: str, key: str) -> kernels.Kernel:
    kernel: kernels.Kernel = torch._C._dispatch_get_computed_kernel_for_dispatch_key(name, key).call_boxed
    return kernel


def _original(name: str) -> kernels.Kernel:
    """Return PyTorch's kernel for CUDA, which takes a dispatch key set before the arguments.

    Later it would be our own.
    """
    if _HAS_GET_KERNEL:
        return _computed(name, "CUDA")

    def redispatched(keys: Any, *args: Any, **named: Any) -> Any:
        return _overload(name)._handle.redispatch_boxed(keys & _AFTER_SELECTION, *args, **named)

    return redispatched


def _on_gpus_only(kernel: Any, overload: Any) -> Any:
    """Make a kernel for a key that comes before those of all devices."""
    redispatch, places = overload._handle.redispatch_boxed, kernels.tensor_places(overload)
    name = overload.name()

    def select(keys: Any, *args: Any, **named: Any) -> Any:
        args = memory.as_tensors(args, places)
        device = (keys & _AFTER_SELECTION).highestPriorityTypeId()
        if device == torch._C.DispatchKey.CUDA:
            return kernel(keys, *args, **named)
        if name in unwritten.kernels and device == torch._C.DispatchKey.CPU:
            found = unwritten.kernels[name](*args, **named)
            if found is not None:
                return found
        return redispatch(keys & _AFTER_SELECTION, *args, **named)

    return select


def _is_view(name: str) -> bool:
    operator, _, overload = name.partition(".")
    return _VIEWED.search(str(torch._C._get_schema(operator, overload))) is not None


def _register(name: str) -> None:
    if _is_view(name) and not refusal_of(name):
        return
    original = _original(name)

    def make() -> kernels.Kernel:
        overload = _overload(name)
        kernel = kernels.counting(name, _kernel(name, overload, original))
        return kernel if _HAS_GET_KERNEL else _on_gpus_only(kernel, overload)

    _put(name, _at_first_call(make), "CUDA" if _HAS_GET_KERNEL else "BackendSelect")


def _kernel(name: str, overload: Any, original: kernels.Kernel) -> kernels.Kernel:
    formula, refusal = FORMULAS.get(name), refusal_of(name)
    if not refusal and formula is None and not torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"):
        refusal = "The CPU has no kernel for it"
    if refusal:
        return kernels.refusing(overload, original, refusal)
    operator = kernels.Operator(overload, original, formula)
    if name == "aten::copy_":
        return kernels.copying(operator)
    if name == "aten::_linalg_check_errors":
        return kernels.unless_inside(operator)
    if name == "aten::_local_scalar_dense":
        return kernels.reading(operator)
    reads = (any(tag in overload.tags for tag in _ALONE) and name != "aten::index.Tensor") or name in _WAITING
    if reads or name in _ALONE_NAMES or "_to_sparse" in name:
        return kernels.alone(
            operator, reads=reads, sized=torch.Tag.dynamic_output_shape in overload.tags or name in _SIZED
        )
    kernel = kernels.computing(operator)
    return accumulation.summing(kernel) if name == "aten::add.Tensor" and _HAS_GET_KERNEL else kernel


def _put(name: str, kernel: kernels.Kernel, key: str) -> None:
    space, _, rest = name.partition("::")
    if space not in _libraries:
        _libraries[space] = torch.library.Library(space, "IMPL")
    _libraries[space].impl(rest, kernel, key, with_keyset=True)
