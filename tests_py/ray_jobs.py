"""The beginning of the programs that tests run on a real Ray: two simulated GPUs, an actor and a task that share
them.
"""

BEGINNING = '''
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
