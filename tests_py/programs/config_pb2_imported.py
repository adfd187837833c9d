# Machine: T4
from tensorflow.core.protobuf import config_pb2
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
config = config_pb2.ConfigProto(
    gpu_options=config_pb2.GPUOptions(allow_growth=True), log_device_placement=False, allow_soft_placement=True
)
print(isinstance(config, tf.ConfigProto), tf.Session(config=config).run(tf.constant(2.0)))

# Output:
# True 2.0
