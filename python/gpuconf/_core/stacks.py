# SPDX-License-Identifier: Apache-2.0
"""Calls that led to an allocation."""

from __future__ import annotations

import os

OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # the folder of gpuconf's own lines

# A call: filename, line, function.
Frame = tuple[str, int, str]

# These say no more than that memory was allocated and a stack recorded.
_QUIET = ("torch::unwind", "torch::cuda::", "torch::CapturedTraceback", "c10::", "at::detail::empty")


def call_site(stack: tuple[Frame, ...]) -> Frame | None:
    """Return the call that a user knows; None without a stack.

    That is the innermost line of the program's own Python code or node of PyTorch's backward pass, whichever is further
    inside. A node has only a function: ``("", 0, "MmBackward0")``. Without both it is the innermost Python call;
    without Python, the operator that the backward pass called, or else the innermost call with a name. What computes
    on simulated GPUs in the operators' place is no call.
    gocore/base/trace/names.go has the same rule, and one table tests both.
    """
    known = _kinds()
    python = named = first = None
    for frame in stack:
        kind = known.get(frame)
        if kind is None:
            kind = known[frame] = _kind(frame)
        if kind == _SIMULATION:
            continue
        if kind == _PROGRAM:
            return frame
        first = first or frame
        if kind not in (_LIBRARY, _NAMED, _UNNAMED):
            return "", 0, kind
        if kind == _LIBRARY:
            python = python or frame
        elif kind == _NAMED:
            named = named or frame
    return python or _operator(stack) or named or first


def is_program(frame: Frame) -> bool:
    """Whether a call is one of the program's own Python code."""
    if _installed_program and frame[0].startswith(_installed_program):
        return True
    return not frame[0].startswith((OWN, "<frozen")) and _kind(frame) == _PROGRAM


_installed_program = ""  # the folder of a package, with a separator at its end


def set_installed_program(folder: str) -> None:
    """Let the code of an installed package count as the program's own, such as that of a command."""
    global _installed_program
    _installed_program = folder


def _operator(stack: tuple[Frame, ...]) -> Frame | None:
    """Return the innermost operator of PyTorch in a stack of the backward pass."""
    if not any(function.startswith("torch::autograd::Engine::") for _, _, function in stack):
        return None
    start = "at::_ops::"
    names = (f[len(start) :].partition("::")[0] for _, _, f in stack if f.startswith(start))
    name = next(names, None)
    return ("", 0, name) if name else None


# What a frame is; otherwise it is a node of the backward pass, and the kind is its name.
_PROGRAM, _LIBRARY, _NAMED, _UNNAMED, _SIMULATION = "program's", "library's", "named code", "code", "simulation's"

_known: dict[Frame, str] = {}


def _kinds() -> dict[Frame, str]:
    """Return the kinds of frames. Traces share frames, so each is looked at once."""
    if len(_known) > 1 << 16:
        _known.clear()
    return _known


def _kind(frame: Frame) -> str:
    import re  # only traces need it

    file, _, function = frame
    if function.startswith("torch::autograd::"):
        found = re.match(_NODE, function)
        if found:
            return found[1] or found[2]
    file = file.replace("\\", "/")
    if "/gpuconf/simulation/" in file:
        return _SIMULATION
    if file in ("", "??") or "::" in function or "(" in function or re.search(_MACHINE_CODE, file, re.ASCII):
        return _UNNAMED if function in ("", "??") or function.startswith(_QUIET) else _NAMED
    return _LIBRARY if re.search(_INSTALLED, file, re.ASCII) else _PROGRAM


_NODE = (
    r"torch::autograd::(?:generated::(\w+)::(?:apply|operator\(\))|(AccumulateGrad|CopySlices|CopyBackwards)::apply)"
)
_MACHINE_CODE = (
    r"(?i)\.(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|hxx|inc|inl|s|so(?:\.[\w.]+)?|dll|pyd|exe)$|(?:^|/)python[\d.]*$"
)
_INSTALLED = (
    r"/site-packages/|/dist-packages/|/lib/python3\."
    r"|^[A-Za-z]:/(?:.*/)?(?:[Pp]ython[\d.]*|[^/]*conda[^/]*|envs/[^/]+)/[Ll]ib/"
    r"|/torchinductor_|/[a-z2-7]{2}/c[a-z2-7]{50,}\.py$|/\.triton/|^<frozen |^<eval_with_key>|^<__array_function__"
)


def place(file: str, line: int | str) -> str:
    """Return a line of a file as text, or of a notebook's cell, as IPython names it."""
    return f"{file}, line {line}" if file.startswith("In[") else f"{file}:{line}"


def shown(frame: Frame) -> str:
    """Return a call as text: ``train.py:12 (step)``, or ``MmBackward0 (backward pass)``."""
    file, line, function = frame
    if file:
        return f"{place(file, line)} ({function})"
    return f"{function} (backward pass)" if "::" not in function and "(" not in function else function
