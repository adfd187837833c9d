# Machine: H100-80GB,T4
import tensorflow as tf

for device in tf.config.list_physical_devices():
    print(device.device_type, device.name)
print(tf.config.list_physical_devices("TPU"))

# Output:
# CPU /physical_device:CPU:0
# GPU /physical_device:GPU:0
# GPU /physical_device:GPU:1
# []
