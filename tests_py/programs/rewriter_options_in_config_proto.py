import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2

config = tf.ConfigProto()
off = rewriter_config_pb2.RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = off
config.graph_options.rewrite_options.arithmetic_optimization = off
print(config.graph_options.rewrite_options.memory_optimization == off, off)

# Output:
# True 2
