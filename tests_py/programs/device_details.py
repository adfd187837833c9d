# Machine: H100-80GB
import tensorflow as tf

gpu_devices = tf.config.list_physical_devices("GPU")
if gpu_devices:
    details = tf.config.experimental.get_device_details(gpu_devices[0])
    print(details.get("device_name", "Unknown GPU"))
    print(details.get("compute_capability"))
print(tf.config.experimental.get_device_details(tf.config.list_physical_devices("CPU")[0]))

# Output:
# NVIDIA H100 80GB HBM3
# (9, 0)
# {}
