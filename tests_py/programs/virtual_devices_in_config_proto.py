# Machine: T4
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
config = tf.ConfigProto()
config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[1024, 2048])
with tf.Session(config=config) as sess:
    print([d.name for d in sess.list_devices() if d.device_type == "GPU"])

# Output:
# ['/job:localhost/replica:0/task:0/device:GPU:0', '/job:localhost/replica:0/task:0/device:GPU:1']
