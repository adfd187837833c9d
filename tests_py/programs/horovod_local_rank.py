# Machine: 4xA100-40GB
# Environment: OMPI_COMM_WORLD_LOCAL_RANK=3 OMPI_COMM_WORLD_SIZE=4
import tensorflow as tf
import horovod.tensorflow as hvd

hvd.init()

# Pin GPU to be used to process local rank (one GPU per process)
gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")
print(hvd.size(), tf.config.list_logical_devices("GPU"), tf.config.get_visible_devices("GPU"))

# Output:
# 4 [LogicalDevice(name='/device:GPU:0', device_type='GPU')] [PhysicalDevice(name='/physical_device:GPU:3', device_type='GPU')]
