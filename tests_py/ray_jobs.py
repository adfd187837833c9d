"""The beginnings of the programs that tests run on a real Ray."""

# Ray gives its own processes 30 s to start, and its agents 15 s by default, which a busy machine exceeds. Its workers
# are by default the last in turn for a processor: beside other tests they ran a twentieth of the time.
PATIENT = """
import functools, os, ray

os.environ["RAY_agent_register_timeout_ms"] = "60000"
os.environ["RAY_worker_niceness"] = "0"

def start_again(init, **options):
    for attempt in range(5):
        try:
            return init(**options)
        except Exception as error:
            if attempt == 4 or "timed out during startup" not in str(error):
                raise
            ray.shutdown()

ray.init = functools.partial(start_again, ray.init)
"""

# Two simulated GPUs, an actor and a task that share them.
BEGINNING = f'''{PATIENT}
import json, os, time
import gpuconf, gpuconf.ray, ray

gpuconf.simulated()  # the driver has loaded the core, and Ray forks nothing of it
ray.init(num_gpus=2, num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="error")

@gpuconf.ray.remote(memory="25%")
class Holder:
    """Holds memory."""

    def __init__(self, first):
        self.held = [gpuconf.memory.allocate(first)]

    def take(self, size):
        self.held.append(gpuconf.memory.allocate(size))

    async def sees(self):
        return os.environ["CUDA_VISIBLE_DEVICES"], gpuconf.memory.stats().bytes_limit

@gpuconf.ray.remote("6GiB")
def job(size):
    with gpuconf.memory.allocate(size):
        return os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"], gpuconf.memory.stats().bytes_limit

def outcome(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__, isinstance(error, MemoryError), str(error)
'''
