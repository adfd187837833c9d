"""The command ``gpuconf``; also ``python -m gpuconf``.

Exit codes: 0 well, 1 an error, 2 wrong usage, 3 the job does not fit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from . import __version__, _console, errors
from ._glyphs import glyphs_of
from ._plan import POLICIES, columns, plan
from ._sizes import limit_bytes

FITS, ERROR, USAGE, DOES_NOT_FIT, INTERRUPTED = 0, 1, 2, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    _console.prepare()
    code, failed = _run(arguments)
    unwritten = _console.finish()
    if unwritten is not None and not failed:
        return _output_failed("gpuconf", unwritten)
    return code


def _run(arguments: Sequence[str] | None) -> tuple[int, bool]:
    """The exit code, and whether standard output has failed already."""
    command = "gpuconf"
    try:
        options = _parser().parse_args(arguments)
        command = f"gpuconf {options.command}"
        if sys.stdout is None:
            _console.complain(f"{command}: standard output is closed")
            return ERROR, True
        return options.run(options), False
    except SystemExit as end:  # argparse has printed help or an error
        return int(end.code or 0), False
    except _UsageError as error:
        _console.complain(f"{command}: {error}")
        return USAGE, False
    except OSError as error:
        if error.filename is None:
            return _output_failed(command, error), True
        _console.complain(f"{command}: {error}")
        return ERROR, False
    except errors.GpuconfError as error:
        _console.complain(f"{command}: {error}")
        return ERROR, False
    except KeyboardInterrupt:
        return INTERRUPTED, False


def _output_failed(command: str, error: OSError) -> int:
    if not isinstance(error, BrokenPipeError):  # else the reader has seen enough
        _console.complain(f"{command}: standard output: {error.strerror}")
    return ERROR


class _UsageError(Exception):
    """The command cannot be run like this."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpuconf", description="GPU configuration and memory, on real and simulated GPUs.")
    parser.add_argument("--version", action="version", version=f"gpuconf {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    planning = commands.add_parser(
        "plan",
        help="whether a recorded job would fit, without a GPU",
        description="Tell whether a recorded job would fit, and which memory limit it needs at least. Needs no GPU.",
        epilog="exit codes: 0 it fits with at least one of the policies, or no limit was asked for; 1 the trace can't be read; "
        "2 wrong usage; 3 it does not fit",
    )
    planning.add_argument("trace", metavar="TRACE", help="RMM's CSV, or a snapshot of PyTorch's memory")
    planning.add_argument("--limit", type=_limit, metavar="SIZE", help="what each logical GPU may take: bytes, 24GiB, 500MB")
    planning.add_argument("--gpu", metavar="MODEL", help="the card, such as A10; without --limit with its default limit")
    planning.add_argument(
        "--policy", action="append", choices=POLICIES, help="how memory is managed; can be repeated (default: all)"
    )
    planning.add_argument("--json", action="store_true", help="print JSON; sizes in bytes")
    planning.add_argument(
        "--plot", nargs="?", const="-", metavar="FILE", help="memory over time: into a .png or .svg with matplotlib, else as text"
    )
    planning.set_defaults(run=_plan)

    devices = commands.add_parser(
        "devices", help="the GPUs that a process sees", description="List the GPUs that a process sees, by every name they have."
    )
    devices.add_argument("--json", action="store_true", help="print JSON; sizes in bytes")
    devices.set_defaults(run=_devices)
    return parser


def _limit(text: str) -> int:
    try:
        return limit_bytes(text)
    except errors.GpuconfError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _plan(options: argparse.Namespace) -> int:
    from .memory import load_trace

    trace = load_trace(options.trace)
    try:
        found = plan(trace, limit=options.limit, gpu=options.gpu, policy=options.policy)
    except errors.InvalidArgumentError as error:
        raise _UsageError(str(error)) from None
    if options.json:
        print(json.dumps(found.to_dict(), indent=2))
    else:
        print(_coloured(str(found)) if _colours() else found)
    if options.plot is not None:
        _draw(found, options)
    return DOES_NOT_FIT if found.fits is False else FITS


def _draw(found: object, options: argparse.Namespace) -> None:
    from . import _plot
    from ._plan import Plan

    assert isinstance(found, Plan)
    if options.plot != "-":
        try:
            found.plot(options.plot)
            return
        except errors.UnimplementedError as error:
            _console.complain(f"gpuconf plan: {error}; here is text instead")
    stream = sys.stderr if options.json else sys.stdout
    print(*_plot.bars(found, glyphs_of(stream)), sep="\n", file=stream)


def _colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _coloured(text: str) -> str:
    """The last line, which is the answer, in green or red."""
    head, _, verdict = text.rpartition("\n")
    colour = 31 if verdict.startswith("does not") else 32
    return f"{head}\n\033[{colour}m{verdict}\033[0m"


def _devices(options: argparse.Namespace) -> int:
    from . import simulated, visible_devices
    from ._humanbytes import human_bytes

    devices, machine = visible_devices(), simulated()
    if options.json:
        print(json.dumps({"schema": 1, "simulated": machine or None, "devices": [d.to_dict() for d in devices]}, indent=2))
        return 0
    if machine:
        print(f"simulated: {machine}")
    if not devices:
        print("no GPUs")
        return 0
    rows = [("CUDA", "name", "memory", "capability", "PCI bus", "NVML", "UUID", "device")]
    rows += [
        (
            str(d.cuda_ordinal),
            d.name,
            human_bytes(d.total_memory),
            ".".join(map(str, d.compute_capability)),
            d.pci_bus_id,
            "-" if d.nvml_index is None else str(d.nvml_index),
            d.uuid,
            d.physical_device or "too weak",
        )
        for d in devices
    ]
    print(*columns(rows, left=len(rows[0])), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
