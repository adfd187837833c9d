# Machine: 2xT4
import tensorflow as tf

print("Num GPUs Available: ", len(tf.config.list_physical_devices("GPU")))

# Output:
# Num GPUs Available:  2
