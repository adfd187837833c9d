# Machine: T4
from tensorflow.python.client import device_lib

devices = device_lib.list_local_devices()
print([(d.name, d.device_type) for d in devices])
print(len({d.incarnation for d in devices}) == len(devices))

# Output:
# [('/device:CPU:0', 'CPU'), ('/device:GPU:0', 'GPU')]
# True
