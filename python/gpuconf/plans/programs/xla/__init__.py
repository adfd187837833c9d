# SPDX-License-Identifier: Apache-2.0
"""A program of JAX in a rehearsal: XLA compiles it for the card, and says what each function needs.

**What runs.** There is no CUDA stand-in under JAX. The program runs on JAX's CPU backend, whose devices stand for the
requested cards: ``jax.devices()``, ``jax.devices("gpu")``, ``jax.default_backend()``, a device's ``platform`` and
``device_kind`` answer as on the card (``devices.py``). One more CPU device is the host's, ``jax.devices("cpu")``. JAX's
own code sees the CPU, as it must.

**What is compiled.** Each function that JAX would execute, from ``jax.jit`` to a single operation, is lowered for CUDA
and compiled ahead of time for a description of the card (``share.py``, ``compiling.py``), by the compiler in JAX's
CUDA plugin, which needs no GPU for it. Its assignment of buffers is what XLA allocates on the card: arguments, outputs,
what of these is aliased (donated), and one block of temporaries. The description is written from gpuconf's table of
models. XLA publishes descriptions of some of them, of which a test compares four; cards without one are called
unproven. Functions of JAX's own whose temporaries cannot matter (all their values are below a MiB, or XLA fuses them
and arguments and results are below 16) are not compiled for the card, to save time.

**What is computed.** Small functions, by the CPU, so that a program's counters, random numbers and masks are right. For
others, ``running.py`` makes arrays of the right shapes and shardings over pages that are never touched, so that nothing
is computed and no memory is needed. Whether a Python decision read such an array is counted, and said. With ``--values
cpu`` everything is computed as well. Kernels that XLA cannot compile without a GPU are refused by name.

**What is counted.** ``card_memory.py`` writes each array on a card, each block of temporaries and each argument that
comes from NumPy as a trace in RMM's format: allocated when JAX allocates it, freed when its last reference goes or when
a call took it over. gpuconf's planner replays this trace through its BFC allocator, as XLA's: one region without
growth, where gpuconf's splits free chunks exactly and XLA's only if the rest is large; or, with
XLA_PYTHON_CLIENT_PREALLOCATE=false, regions that double, split as XLA does. So arrays that live outside of a call are
counted while it runs, and blocks are rounded and fragmented as on the card. ``share.py`` compares that with the share
of the card that JAX takes (XLA_PYTHON_CLIENT_MEM_FRACTION, 75 %). A second trace has what XLA's autotuning takes while
it compiles (``compiling.py``): it raises a peak, but XLA can do with less.

**When it ends.** ``jax_recording.py`` sees the calls of the program's own functions. When a cycle of calls has repeated
three times with the same memory in use, and updated the arrays that it got, the rest is more of the same; for programs
that update nothing it is fifty times.

All that depends on JAX's insides is in ``compiling.py``, ``running.py`` and ``devices.py``; which says with
which versions of JAX it works, and everything else is refused in one line.
"""
