# Machine: T4
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
config = tf.ConfigProto(device_count={"GPU": 0})
with tf.Session(config=config) as sess:
    print([d.device_type for d in sess.list_devices()])

# Output:
# ['CPU']
