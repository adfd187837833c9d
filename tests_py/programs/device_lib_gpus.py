# Machine: 2xT4
from tensorflow.python.client import device_lib


def get_available_gpus():
    local_device_protos = device_lib.list_local_devices()
    return [x.name for x in local_device_protos if x.device_type == "GPU"]


print(get_available_gpus())

# Output:
# ['/device:GPU:0', '/device:GPU:1']
