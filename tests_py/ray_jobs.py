"""The beginnings of the programs that tests run on a real Ray."""

# A busy machine exceeds what Ray gives its own processes to start: the raylet ends if an agent has not written its port
# into a file within 15 s, and no setting changes that (ray-project/ray#65983). So the files are there before: -1 as
# written by the agents of a Ray without its dashboard, and a port for the agent that needs one.
# Ray's workers are by default the last in turn for a processor: beside other tests they ran a twentieth of the time.
PATIENT = """
import os, socket, ray
from ray import _raylet
from ray._private.node import Node

os.environ["RAY_agent_register_timeout_ms"] = "60000"
os.environ["RAY_worker_niceness"] = "0"

def start_raylet(self, *words, begin=Node.start_raylet, **options):
    for name in ("METRICS_AGENT", "METRICS_EXPORT", "DASHBOARD_AGENT_LISTEN"):
        _raylet.persist_port(self._session_dir, self._node_id, getattr(_raylet, f"{name}_PORT_NAME"), -1)
    with socket.create_server(("", 0)) as taken:
        self._ray_params.runtime_env_agent_port = taken.getsockname()[1]
    return begin(self, *words, **options)

Node.start_raylet = start_raylet
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
