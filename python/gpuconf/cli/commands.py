# SPDX-License-Identifier: Apache-2.0
"""The commands of ``gpuconf``, as one table: parser, help, manual page, completion and docs/cli.md are made from it.

A text has a line for lists of commands, then paragraphs. A paragraph with two spaces in its first line lists arguments:
a name, two spaces, what it does; ``--name VALUE`` takes a value, ``[VALUE]`` may take one, ``[=VALUE]`` takes it after
an equals sign only, ``{a,b}`` is a choice. ``...`` after an option: it may be repeated; after another name: the rest of
the words. ``parser.py`` has the ranges of numbers.
"""

from __future__ import annotations

JSON = "--json  print one JSON object, with sizes in bytes"

_REQUEST = """
--memory SIZE  memory to lease on each GPU, such as 10GiB or 25%
--gpus N  number of GPUs (default: 1); without --memory, all of their memory
--contexts N  processes that use each GPU at the same time, each with a CUDA context for which the lease takes room
  beside the memory (default: the ranks of torchrun on a GPU, else 1)
--timeout SECONDS  give up after this time, with exit code 124
--policy {spread,pack}  lease on the GPUs with the most room (spread, the default) or the least
--name NAME  a name for the lease, shown to others
--simulate SPEC  simulated GPUs, such as 4xA100-40GB
--growth, --no-growth  let pools reserve memory as needed, or all of it at once
""".strip()

# Each command's name, the module and function that run it, and its text.
COMMANDS = {
    "devices": (
        "devices:devices",
        f"""
list the GPUs that a process sees

List the GPUs that a process sees, with their CUDA and NVML numbers, PCI bus ID, UUID and TensorFlow name. The column
context is what a lease takes for the CUDA context of each process. The exit code is 3 if there are none.

{JSON}

example:
gpuconf devices
gpuconf devices --json | jq -r '.devices[].uuid'
""",
    ),
    "ps": (
        "ps:ps",
        f"""
list the processes on each card, and leases

List the processes that use the cards of this machine: the memory that the driver reports, the lease, and the limit of
the pools with their reserved and used memory, by library where the process reports it. Leases without memory in use are
listed too, also on cards that only the ledger knows. For each job of gpuconf run, a line shows how much of its limit is
in gpuconf's pools, outside them, and free. Below them are the simulated cards that the processes of a job share. The
exit code is 3 if there is no card.

{JSON}

example:
gpuconf ps
gpuconf ps --json | jq '.processes[] | {{pid, bytes, lease}}'
""",
    ),
    "top": (
        "top:top",
        f"""
watch cards, processes and leases

Watch the cards of this machine. A card's bar shows memory in use by pools (█), reserved by pools (▓), used by others
(▒), and leased but not used yet (░). Press h for the keys. If the output is not a terminal, the display is printed
once, or --iterations times. On a terminal it needs rich: pip install 'gpuconf[cli]'.

--interval SECONDS  time between updates (default: 1)
--iterations N  end after N updates
{JSON}

example:
gpuconf top
gpuconf top --interval 5 --iterations 3 > log.txt
""",
    ),
    "doctor": (
        "doctor:doctor",
        f"""
diagnose problems with GPUs, limits and libraries

Check the driver, the order of devices, MIG, the kinds of memory, the libraries, the limits and who enforces them, the
environment, the ledger, and what keeps a rehearsal from changing files. Findings are numbered, and each problem comes
with a fix. With a command, check the Python environment that it would run in; the command itself is not run. The exit
code is 3 if there is a problem.

COMMAND ...  a program, such as python train.py
{JSON}

example:
gpuconf doctor
gpuconf doctor -- python train.py
""",
    ),
    "stats": (
        "ps:stats",
        f"""
show the memory pools of all processes

Show the memory pools of the processes that publish them in the ledger, such as those under gpuconf run, and how much of
their limits the jobs of gpuconf run use. The exit code is 3 if there are no pools and no jobs.

--pid PID  show only this process
{JSON}

example:
gpuconf stats
gpuconf stats --pid 4711 --json
""",
    ),
    "visible": (
        "devices:visible",
        f"""
print the GPUs that CUDA_VISIBLE_DEVICES shows

Print the GPUs that CUDA shows to a program, separated by commas, as UUIDs, which name the same GPUs in every order of
devices. Entries that hide others, such as -1, are explained on standard error. The exit code is 3 if there is no GPU.

[VALUE]  a value of CUDA_VISIBLE_DEVICES to try (default: that of the environment)
--as {{uuid,cuda,nvml,pci}}  what to print for each GPU (default: uuid)
{JSON}

example:
gpuconf visible --as nvml 0,2,-1,1
CUDA_VISIBLE_DEVICES=$(gpuconf visible) ./program
""",
    ),
    "simulate": (
        "simulate:simulate_command",
        f"""
run a command on simulated GPUs, or show what a specification means

Run a command with simulated GPUs, or show the cards of a specification: [Nx]MODEL[:MEMORY], separated by commas.

[SPEC]  the machine, such as 4xT4:8GiB
COMMAND ...  the command to run
--models  list the known models
{JSON}

example:
gpuconf simulate 4xH100-80GB
gpuconf simulate A100,T4 -- python train.py
gpuconf simulate --models
""",
    ),
    "config": (
        "config:config",
        f"""
show the settings in force and where they come from

Show the settings that a program started here would have. The first of these that sets a value wins: a call in the
program, an environment variable, gpuconf.toml or [tool.gpuconf] in pyproject.toml, the default.

--explain  show where each value comes from, and what it does
{JSON}

example:
gpuconf config --explain
""",
    ),
    "export": (
        "export:export",
        f"""
serve metrics of all cards to Prometheus

Serve metrics of the memory of every card and of its processes and leases, at /metrics. Only programs on this machine
can connect, unless --address says otherwise.

--port PORT  TCP port (default: 9401); 0 picks a free port
--address ADDRESS  address to listen on, such as 0.0.0.0 (default: 127.0.0.1)
--dcgm-names  also use the names of NVIDIA's DCGM exporter, in MiB
--once  print the metrics once instead of serving them
{JSON}

example:
gpuconf export --port 9401
gpuconf export --once > /var/lib/node_exporter/gpuconf.prom
""",
    ),
    "plan": (
        "plan:plan",
        """
check, without a GPU, whether a program or a recorded job fits

usage: gpuconf plan [OPTION ...] TRACE
       gpuconf plan --gpu CARDS [OPTION ...] -- PROGRAM [ARGUMENT ...]

Report whether a recorded job fits on a GPU, and the smallest memory limit that it needs; or run a program on simulated
GPUs, and report which cards hold it. Needs no GPU.

[TRACE]  an RMM log (CSV) or a PyTorch memory snapshot; or a folder of them, one for each process of a job
--limit SIZE  memory limit of each logical GPU: bytes, 24GiB, 500MB
--gpu MODEL  GPU model, such as A10; without --limit, its default limit applies. For a program, a list such as
  L4,A10,A100-40GB (default: this machine's)
--policy {pytorch,pytorch-expandable,pytorch-max-split,pytorch-roundup,tensorflow,regions,virtual} ...  memory
  management policy; may be repeated (default: all)
--json  print JSON, with sizes in bytes
--plot [FILE]  plot memory use over time, to a .png or .svg file (needs matplotlib) or as text
--html FILE  write a report of memory over time to an HTML page that works offline (needs plotly)
--verify  instead of planning, replay a PyTorch snapshot and compare every address with the recorded one
--message [FILE]  instead of planning, explain the out-of-memory errors in a text, such as a log: PyTorch's,
  TensorFlow's, JAX's or CuPy's; without FILE, standard input

A program follows --. It runs on simulated GPUs, without a limit:

-- PROGRAM ...  the program and its arguments
--steps N  end the program after this many steps of its optimizer
--seconds SECONDS  end the program after this time (default: 120), for each run of it
--values {none,cpu}  what PyTorch computes: small tensors only (none, the default), or all, by the CPU
--cpu-values  draw random numbers for large CPU tensors, too, which else stay unwritten
--compile  let torch.compile compile, with Triton and a C compiler, instead of running eagerly
--record FILE  keep PyTorch's snapshot of the run, for plan, --fleet and report
--largest NAME=LOW..HIGH ...  put numbers in place of {NAME} in the program's words, and find the largest one that fits
  on each card; with several, that of the first for each number of the others, which are doubled
--keep FOLDER  keep what the program wrote, below this new folder
--writes SIZE  the most that the program may write (default: 8GiB)
--network  let the program use the network
--socket PATH ...  let the program use this socket of another program
--unprotected  run the program without a cover: what it writes, sends and removes is real
--smallest-card  name the smallest of the cards that holds the program

With --fleet, TRACE is a folder with the traces of many jobs:

--fleet CARDS  find the fewest cards that hold the jobs, which jobs share a card, and their limits; a fleet is written
  as 64xA100-80GB,128xH100-80GB
--reserve SIZE  memory that each job needs on each card for its CUDA context and libraries (default: 512MiB)
--phases  let jobs whose peaks are at different times share a card; if one is delayed, they can run out of memory
--dask ADDRESS  replay the traces on a Dask cluster: a scheduler's address, or a number of processes to start

exit codes: 0 the job fits with at least one policy, a card holds the program, or no limit was given; 1 the trace or the
text cannot be read, or the program failed; 2 invalid usage; 3 the job does not fit, no card holds the program or, with
--verify, the replay differs from the snapshot; 4 it depends, or the program did not run long enough; 130 interrupted
before anything was known

example:
gpuconf plan --gpu L4,A100-40GB -- python train.py
gpuconf plan snapshot.pickle --limit 18GiB --gpu A10
gpuconf plan jobs/ --fleet 64xA100-80GB
""",
    ),
    "diff": (
        "diff:diff",
        f"""
show which lines of a program need more memory than before

Compare the memory at the peaks of two recordings or snapshots, or at two moments of one, line by line. The exit code is
3 if there is more than before. Needs no GPU.

OLD  an RMM log (CSV) or a PyTorch memory snapshot
[NEW]  the one to compare with it
--between T1 T2  without NEW: compare what is in use T1 and T2 seconds after the GPU's first event, as on the time axis
  of gpuconf plan --html
--html FILE  write all lines to an HTML page that works offline
{JSON}

example:
gpuconf diff before.pickle after.pickle --html difference.html
""",
    ),
    "run": (
        "run:run",
        f"""
run a program in part of a GPU's memory, on simulated GPUs, or with gpuconf in place of TensorFlow

usage: gpuconf run [OPTION ...] [--] PROGRAM [ARGUMENT ...]

Run a program. gpuconf's own options end at the first other word, or at --. With --memory or --gpus, the program starts
when that memory is free, sees only the GPUs leased for it, and is limited to the leased memory.

PROGRAM ...  a command, which is found as a shell finds it; or a Python script, or - for one from standard input. A
  script runs with gpuconf's own Python, as -m and -c do, unless you name one
{_REQUEST}
--values {{cpu,none}}  what PyTorch computes on simulated GPUs: all of it, by the CPU (default), or only small tensors
  (needs --simulate)
--strict-values  make it an error if something on simulated GPUs has no value (needs --simulate)
--wait, --no-wait  wait until the memory is free (default)
--guard {{auto,driver,proxy,preload,off}}  how to enforce the limit for every library: driver sets it in a control
  group; proxy counts calls in front of the CUDA driver; preload also catches programs that open the driver by its path;
  off relies on the limits of gpuconf's pools and of the frameworks. auto (default) picks the first that works here.
  proxy and preload are accounting, not a security boundary
--check  instead of running a program, try to exceed the limit in every known way
--as-tensorflow[={{1,2}}]  make import tensorflow find gpuconf, in child processes too; with =1, as TensorFlow 1
--report  print a line at the end: time, peak memory by library, and why the program failed
--json-report FILE  write a JSON report at the end
-m MODULE ...  run a module, as python -m does
-c CODE ...  run code, as python -c does

example:
gpuconf run --memory 10GiB python train.py
gpuconf run --memory 20GiB --gpus 2 torchrun --nproc-per-node 2 train.py
gpuconf run --simulate 4xA100-40GB --memory 4GiB python train.py
""",
    ),
    "lease": (
        "lease:lease",
        f"""
lease GPU memory while a shell or a command runs, or list the leases

usage: gpuconf lease [OPTION ...] [--] [COMMAND [ARGUMENT ...]]
       gpuconf lease --list [--json]

Lease GPU memory for a shell or a command. Programs in it are limited as under gpuconf run. --list prints the leases of
this machine and the waiting requests.

COMMAND ...  a command; by default a shell
{_REQUEST}
--list  list the leases instead
{JSON}

example:
gpuconf lease --memory 10GiB                    # a shell; exit ends the lease
gpuconf lease --memory 10GiB -- make test
gpuconf lease --list
""",
    ),
    "env": (
        "env:env",
        f"""
print the environment variables that limit a program, for Slurm, Docker and systemd

Print the environment variables with which gpuconf run limits a program. Use them where Slurm, Docker, systemd or
another scheduler starts the program and selects its GPUs. Nothing is leased.

--memory SIZE  memory of each GPU that the program may use, such as 10GiB (required)
--simulate SPEC  simulated GPUs, such as 4xA100-40GB
--growth, --no-growth  let pools reserve memory as needed, or all of it at once
--format {{shell,docker,systemd}}  shell (default), systemd, or docker for --env-file; docker leaves out the path of
  the startup code, which differs in a container
{JSON}

example:
gpuconf env --memory 10GiB --format systemd >> service.conf
eval "$(gpuconf env --memory 10GiB)"        # in a script of Slurm
docker run --env-file <(gpuconf env --memory 10GiB --format docker) ...
""",
    ),
    "ledger": (
        "",
        """
list, check or create the ledger of leases

usage: gpuconf ledger {list,check,init} [OPTION ...]

A ledger is a folder in which the processes of a machine record the GPU memory that they lease. It is the folder that
GPUCONF_LEDGER names, else /var/lib/gpuconf/ledger if it exists, else a private folder of this user.

list  list leases, waiting requests and processes
check  check the ledger's invariants
init  create a ledger for several users

example:
gpuconf ledger list
gpuconf ledger check
sudo gpuconf ledger init --shared
""",
    ),
    "ledger list": (
        "ledger:list_ledger",
        f"""
list leases, waiting requests and processes

List leases, waiting requests and the processes that publish their pools.

--folder FOLDER  the ledger's folder, if not the default
{JSON}

example:
gpuconf ledger list
gpuconf ledger list --json | jq '.claims[] | select(.state == "waiting")'
""",
    ),
    "ledger check": (
        "ledger:check",
        f"""
check the ledger's invariants

Check the ledger: files, owners and modes, and that no card is leased beyond its memory. The exit code is 3 if there is
a problem. Nothing is repaired.

--folder FOLDER  the ledger's folder, if not the default
{JSON}

example:
gpuconf ledger check
""",
    ),
    "ledger init": (
        "ledger:init",
        """
create a ledger for several users

Turn a new or empty folder into a ledger for several users, who see each other's leases but cannot change them. Run this
as the user who administers the ledger; running it again sets the file modes again. Programs find the ledger in
/var/lib/gpuconf/ledger, or where GPUCONF_LEDGER points. A ledger for one user needs no command: the first lease creates
it.

[FOLDER]  the folder (default: /var/lib/gpuconf/ledger)
--shared  create it for several users (required)
--group GROUP  only for members of this group (a name or a number)

example:
sudo gpuconf ledger init --shared
sudo gpuconf ledger init --shared --group gpu /srv/gpus/ledger
""",
    ),
    "completion": (
        "completion:completion",
        """
print a shell's completion script

Print a script that lets a shell complete gpuconf's commands and options.

SHELL  bash, zsh, fish or tcsh

example:
gpuconf completion bash > ~/.local/share/bash-completion/completions/gpuconf
gpuconf completion fish > ~/.config/fish/completions/gpuconf.fish
""",
    ),
    "help": (
        "parser:show_help",
        """
show how to use a command

COMMAND ...  a command, such as run; without one, the commands are listed

example:
gpuconf help run
""",
    ),
}

ABOUT = "Limit, share, measure and simulate the GPU memory of programs. Start with: gpuconf doctor."

EXAMPLES = """
gpuconf run --memory 10GiB python train.py          # a share of a GPU
gpuconf run --simulate A100-40GB python train.py    # PyTorch without a GPU
gpuconf plan --gpu L4,A100-40GB -- python train.py  # will it fit?
gpuconf ps                                          # who uses the GPUs
""".strip()
