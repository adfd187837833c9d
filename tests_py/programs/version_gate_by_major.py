import tensorflow as tf

if int(tf.__version__.split(".")[0]) >= 2:
    print("TensorFlow 2")
    list_devices = tf.config.list_physical_devices
else:
    list_devices = tf.config.experimental.list_physical_devices
print(len(list_devices("CPU")))

# Output:
# TensorFlow 2
# 1
