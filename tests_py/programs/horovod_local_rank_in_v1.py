# Machine: 2xT4
# Environment: OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_SIZE=2
import tensorflow.compat.v1 as tf
import horovod.tensorflow as hvd

tf.disable_v2_behavior()
hvd.init()

config = tf.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = str(hvd.local_rank())

with tf.Session(config=config) as session:
    print([d.name for d in session.list_devices() if d.device_type == "GPU"])

# Output:
# ['/job:localhost/replica:0/task:0/device:GPU:0']
