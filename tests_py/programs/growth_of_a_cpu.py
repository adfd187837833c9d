import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
try:
    tf.config.experimental.set_memory_growth(cpu, True)
except ValueError as error:
    print(error)

# Output:
# Cannot set memory growth on non-GPU and non-Pluggable devices: /physical_device:CPU:0 is a CPU
