# Machine: 2xT4
import tensorflow as tf

config = tf.compat.v1.ConfigProto()
config.gpu_options.per_process_gpu_memory_fraction = 0.5
config.gpu_options.visible_device_list = "1"
session = tf.compat.v1.Session(config=config)
print(len([d for d in session.list_devices() if "GPU" in d.name]))
print(config.gpu_options.visible_device_list, config.gpu_options.per_process_gpu_memory_fraction)

# Output:
# 1
# 1 0.5
