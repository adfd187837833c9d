# Machine: T4
# TensorFlow: since 2.16 it has Keras 3, which has no sessions
import tensorflow as tf

config = tf.compat.v1.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.per_process_gpu_memory_fraction = 0.7
sess = tf.compat.v1.Session(config=config)
tf.compat.v1.keras.backend.set_session(sess)
print(tf.compat.v1.keras.backend.get_session() is sess)

# Output:
# True
