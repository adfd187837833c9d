# Machine: T4
import tensorflow as tf

cpus = tf.config.list_physical_devices("CPU")
for devices in (cpus, ["GPU:0"]):
    try:
        tf.config.set_visible_devices(devices, "GPU")
    except ValueError as error:
        print(error)

# Output:
# Unrecognized device: PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU'): its type is CPU, and device_type is 'GPU'
# Unrecognized device: 'GPU:0': the physical devices are /physical_device:CPU:0, /physical_device:GPU:0
