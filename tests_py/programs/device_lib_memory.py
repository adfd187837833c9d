# Machine: P100-16GB
# TensorFlow: its imaginary GPUs have no physical description
from tensorflow.python.client import device_lib

for device in device_lib.list_local_devices():
    if device.device_type == "GPU":
        description = device.physical_device_desc
        print(device.name, device.memory_limit > 10 * 1024**3)
        print(description.split("name: ")[1].split(",")[0])
        print("compute capability" in description)

# Output:
# /device:GPU:0 True
# Tesla P100-SXM2-16GB
# True
