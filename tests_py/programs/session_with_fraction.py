# Machine: T4
import tensorflow.compat.v1 as tf

# Assume that you have 16GB of GPU memory and want to allocate ~5GB:
gpu_options = tf.GPUOptions(per_process_gpu_memory_fraction=0.333)

with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(gpu_options=gpu_options)) as sess:
    print([d.name for d in sess.list_devices() if d.device_type == "GPU"])
    print(round(gpu_options.per_process_gpu_memory_fraction, 3))

# Output:
# ['/job:localhost/replica:0/task:0/device:GPU:0']
# 0.333
