# Machine: A100-40GB
import tensorflow as tf

tf.config.experimental.enable_tensor_float_32_execution(False)
print(tf.config.experimental.tensor_float_32_execution_enabled())

# Output:
# False
