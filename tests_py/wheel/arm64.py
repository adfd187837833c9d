"""Run the Python tests on the arm64 wheel, on an x86-64 machine: ``python tests_py/wheel/arm64.py dist``.

qemu-user translates the instructions of one program and passes its system calls to this machine's kernel, so neither an
arm64 machine nor root is needed. Debian's packages are downloaded and unpacked, not installed:

- qemu from bookworm-backports. The table of pages of bookworm's own, 7.2, takes minutes to fill for a simulated card of
  80 GB.
- Python 3.11 and the libraries that it needs, for arm64.

``sys.executable`` is a script that starts qemu, so that processes that tests start are arm64 processes, too. PATH has
programs of this machine that tests start, but no compiler. `RUN` says which files of tests run, unless arguments name
others; `LEFT_OUT` and `DESELECTED` say why others do not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from debian import apt, unpack

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "arm64"
GUEST = WORK / "root"
PYTHON = "3.11"
PACKAGES = [
    f"python{PYTHON}",
    f"libpython{PYTHON}-stdlib",
    f"python{PYTHON}-minimal",
    "libc6",
    "libgcc-s1",
    "libstdc++6",
]
# Names are relative to tests_py; that of a folder stands for all files in it. tests_py/package/test_tools.py
# tests that each file is in RUN or in LEFT_OUT.
RUN = """
    cli/test_cli_output.py cli/test_column_names.py cli/test_command.py cli/test_command_start.py
    cli/test_files_of_others.py
    cli/test_doctor.py cli/test_html.py cli/test_metrics.py cli/test_notebook.py
    cli/test_top.py clusters/test_dask_cluster.py compat/graphs/test_interactive_sessions.py
    compat/graphs/test_placeholders.py compat/graphs/test_session_steps.py compat/graphs/test_sessions.py
    compat/test_clusters_of_tensorflow.py compat/test_config_messages.py compat/test_coordinators.py
    compat/test_event_files.py compat/test_keras_optimizers.py compat/test_keras_session.py
    compat/test_local_devices.py compat/test_missing_names.py compat/test_operands.py compat/test_stored_switches.py
    compat/test_strategies.py compat/test_tensorflow_files.py compat/test_tensorflow_logger.py
    compat/test_tensorflow_root.py config/test_constructors.py config/test_device_arguments.py
    config/test_mistakes.py config/test_settings.py config/test_sizes.py conformance
    core frameworks/test_versions.py gpu/test_gpu.py gpu/test_steps.py jobs/test_env.py
    jobs/test_python_options.py jobs/test_run.py jobs/test_startup.py jobs/test_startup_ranks.py jobs/test_turns.py
    jobs/test_kernels_of_a_job.py jobs/test_killed_turns.py jobs/test_lent_memory.py jobs/test_parked_by_hand.py
    leases/test_cards.py leases/test_context_memory.py leases/test_ledger.py
    leases/test_ledger_command.py memory/test_buffer.py memory/test_foreign_memory.py
    memory/test_injected.py memory/test_interchange.py memory/test_interrupted_memory.py
    memory/test_out_of_memory.py memory/test_record.py memory/test_release.py memory/test_stacks.py
    memory/test_threads.py memory/test_unified_memory.py memory/test_usage.py package/test_doctests.py
    package/test_examples.py package/test_extras.py package/test_floors.py package/test_old_pickles.py
    package/test_public_names.py plans/test_branches.py plans/test_diff.py plans/test_fit_batch.py plans/test_fleet.py
    plans/test_message.py plans/test_plan.py plans/test_profiles.py plans/test_real_snapshots.py
    plans/test_report.py plans/test_snapshot_out_of_memory.py plans/test_snapshot_versions.py
    plans/test_trace_files.py plans/test_tried_workspaces.py plans/test_verify.py
    pytest_plugin simulation/test_simulate.py tensors/test_blas.py tensors/test_endless_values.py
    tensors/test_tensor_equality.py compat/test_tensors_of_tensorflow.py
"""
LEFT_OUT = {
    "needs a compiler, for some tests at least": """
        clients config/test_settings_trust.py config/test_visible_names.py driver frameworks/allocators
        frameworks/rehearsed frameworks/simulated frameworks/test_cublas.py frameworks/test_driver_header.py
        frameworks/test_gpu_all.py frameworks/test_guarded.py frameworks/test_jax.py frameworks/test_numba_own.py
        frameworks/test_tensorflow.py frameworks/test_tensors_between_processes.py frameworks/values
        gpu/test_unattended.py guard jobs/test_always.py leases/test_lease_on_instances.py memory/test_c_abi.py
        memory/test_cuda_driver.py memory/test_standalone.py package/test_allocator_benchmarks.py
        simulation/libraries
        simulation/test_addresses.py simulation/test_checkpoint.py simulation/test_crowd.py
        simulation/test_one_driver.py simulation/test_shared_cards.py simulation/test_simulated_calls.py
        simulation/test_simulated_cards.py
        simulation/test_simulated_clients.py simulation/test_simulated_driver.py simulation/test_simulated_guard.py
        simulation/test_simulated_host_memory.py simulation/test_simulated_images.py
        simulation/test_simulated_nvml.py simulation/test_simulator_threads.py tensors/test_gpu_operations.py
    """,
    "reads the sources or checks them with tools of this machine": """
        config/test_variables.py package/test_tools.py
        package/test_sources.py
        package/test_docs.py
        package/test_license.py package/test_package.py
        package/test_readme_claims.py package/test_types.py package/test_words.py
    """,
    "needs programs that make test-integrations installs": "integrations",
    "qemu passes on no system calls that make namespaces and Landlock's rules for programs of this machine": """
        cover plans/test_rehearsal.py
    """,
    "Ray starts programs of its own, which are arm64 programs, without qemu": "clusters/test_ray_cluster.py",
    "gpuconf run loads arm64 libraries into programs of this machine, or a lease under qemu seems to have ended (see "
    "below)": """
        cli/test_ps.py jobs/test_group_signals.py leases/test_containers.py leases/test_leased_run.py
    """,
    "counts threads, open files and processor time, which under qemu are also qemu's": "cli/test_scrape_server.py",
    "takes minutes under qemu": """
        cli/test_command_mistakes.py
        clusters/test_dask.py compat/graphs/test_name_scopes.py compat/test_programs.py
        compat/test_tensorflow_operations.py config/test_bad_sizes.py leases/test_lease.py plans/test_packing.py
        simulation/test_simulated_ipc.py tensors/test_any_value.py tensors/test_tensors.py
    """,
}
DESELECTED = {
    "need a compiler": """
        cli/test_doctor.py::test_a_library_is_routed_only_where_something_routes_it
        cli/test_doctor.py::test_cards_of_the_driver
        cli/test_doctor.py::test_the_environment_of_a_container_with_gpus cli/test_metrics.py::test_dcgm_names
        cli/test_metrics.py::test_opentelemetry_of_real_cards leases/test_cards.py::test_a_card_and_its_processes
        leases/test_cards.py::test_a_card_that_cannot_be_read_hides_no_other
        leases/test_cards.py::test_coherent_memory_is_the_cards leases/test_cards.py::test_instances
        leases/test_cards.py::test_unified_memory_is_the_hosts
        memory/test_out_of_memory.py::test_a_full_gpu_lists_the_other_processes
        memory/test_out_of_memory.py::test_without_nvml_the_report_names_no_processes
        memory/test_unified_memory.py::test_a_gpu_without_managed_memory
        memory/test_unified_memory.py::test_cudas_managed_memory
        memory/test_unified_memory.py::test_memory_without_it_stays_device_memory
        memory/test_unified_memory.py::test_the_driver_refuses_the_whole_limit
        package/test_examples.py::test_demo_uses_the_gpus_of_the_machine
    """,
    "qemu has a thread of its own, which counts": """
        core/test_import.py::test_import_starts_no_thread_and_touches_no_signal
        core/test_process_limits.py::test_a_limit_of_threads_is_an_error_or_enough
        core/test_process_limits.py::test_a_process_that_may_start_no_threads_gets_an_error_and_can_go_on_later
    """,
    "qemu gives a process another start time in its own /proc/self/stat than others read, so the ledger takes it for "
    "ended": """
        cli/test_cli_output.py::test_a_long_command_is_cut_on_a_terminal
    """,
    "a process's name is qemu's": "leases/test_ledger.py::test_a_timeout_names_who_holds_the_memory",
    "a forked child can wait for ever for a lock of qemu's own that another thread held: NumPy alone does, without "
    "gpuconf": """
        core/test_fork_matrix.py::test_children_of_a_busy_process_end_whatever_they_do
        tensors/test_blas.py::test_a_forked_child_does_not_hang
    """,
    "start programs of this machine with LD_PRELOAD, an arm64 library": """
        cli/test_doctor.py::test_a_program_is_looked_into_and_not_run cli/test_doctor.py::test_go_runtimes
        cli/test_doctor.py::test_programs_that_cannot_be_looked_into
    """,
    "qemu passes on no system calls that make namespaces and Landlock's rules for programs of this machine": """
        cli/test_doctor.py::test_a_machine_that_allows_no_cover
        cli/test_doctor.py::test_a_machine_that_allows_only_the_mirror
    """,
    "a wait ended too late under qemu": """
        cli/test_command.py::test_pictures cli/test_top.py::test_ctrl_z_leaves_the_terminal_to_the_shell
        clusters/test_dask_cluster.py::test_a_program_with_an_asynchronous_client
        package/test_examples.py::test_script[cluster.py]
    """,
}
TOOLS = (
    "anyio cloudpickle distributed hypothesis ipykernel matplotlib nbclient numpy opentelemetry-sdk ortools plotly "
    "prometheus-client pyte pytest pytest-asyncio pytest-randomly pytest-timeout pytest-xdist ray rich tblib"
)
PROGRAMS = "bash cat env head ls readelf script sh sleep true unshare"  # this machine's, which tests start


def emulator() -> Path:
    """qemu, unpacked."""
    folder = WORK / "qemu"
    found = folder / "usr" / "bin" / "qemu-aarch64"
    if not found.exists():
        options = apt(WORK, "amd64", "bookworm-backports")
        subprocess.run(["apt-get", "-qq", *options, "download", "qemu-user"], check=True, cwd=WORK)
        subprocess.run(["dpkg", "--extract", next(WORK.glob("qemu-user_*.deb")), folder], check=True)
    return found


def interpreter() -> Path:
    """A Python of arm64, as a script of this machine."""
    real = GUEST / "usr" / "bin" / f"python{PYTHON}"
    if not real.exists():
        unpack(WORK, "arm64", "bookworm", PACKAGES, GUEST)
    # Python finds its library from the place of the script, which is why the script lies beside the real one.
    script = GUEST / "usr" / "bin" / "python-arm64"
    script.write_text(f'#!/bin/sh\nexec "{emulator()}" -L "{GUEST}" -0 "$0" "{real}" "$@"\n')
    script.chmod(0o755)
    command = script.with_name("gpuconf")
    command.write_text(f"#!{script}\nimport sys\nfrom gpuconf.cli.main import main\nsys.exit(main())\n")
    command.chmod(0o755)
    return script


def programs() -> Path:
    """A folder for PATH, with programs of this machine but no compiler."""
    folder = WORK / "bin"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in PROGRAMS.split():
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return folder


def install(wheel: Path, site: Path) -> None:
    """The wheel and what the tests need, unpacked for arm64 by this machine's pip."""
    shutil.rmtree(site, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-warn-conflicts"]
    pip += ["--target", site, "--only-binary", ":all:", "--python-version", PYTHON]
    pip += [f"--platform={tag}_aarch64" for tag in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")]
    pinned = re.findall(r'^ *"(([\w-]+)==[^";]*)', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    # Of two NumPys the first, for older Pythons.
    tools = {name: tool for tool, name in reversed(pinned) if name in TOOLS.split()}
    subprocess.run([*pip, wheel, *tools.values()], check=True)


def main(dist: str, *arguments: str) -> int:
    """Run the tests; pytest's exit status."""
    wheels = list(Path(dist).glob("*_aarch64.whl"))
    if len(wheels) != 1:
        raise SystemExit(f"{dist} should hold one wheel for aarch64, but holds {len(wheels)}: run make wheels")
    python = interpreter()
    install(wheels[0], GUEST / "usr" / "lib" / "python3" / "dist-packages")
    environment = {"HOME": os.environ.get("HOME", "/"), "PATH": str(programs()), "LANG": "C.UTF-8"}
    deselected = (f"--deselect=tests_py/{name}" for names in DESELECTED.values() for name in names.split())
    files = arguments or (f"tests_py/{name}" for name in RUN.split())
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", *deselected, *files]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
