import tensorflow as tf

config = tf.compat.v1.ConfigProto()
config.graph_options.optimizer_options.global_jit_level = tf.compat.v1.OptimizerOptions.ON_1
config.gpu_options.allow_growth = True
print(config.graph_options.optimizer_options.global_jit_level == tf.compat.v1.OptimizerOptions.ON_1)

# Output:
# True
