# Machine: 2xT4
# TensorFlow: TensorFlow 2 ignores the configuration; 1.x applies it
import tensorflow.compat.v1 as tf

config = tf.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = "0"
tf.enable_eager_execution(config=config)
print([d.name for d in tf.config.list_logical_devices("GPU")])
print(tf.config.experimental.get_memory_growth(tf.config.list_physical_devices("GPU")[0]))

# Output:
# ['/device:GPU:0']
# None
