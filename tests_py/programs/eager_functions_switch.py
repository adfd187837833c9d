import tensorflow as tf

tf.config.run_functions_eagerly(True)
print(tf.config.functions_run_eagerly())

# Output:
# True
