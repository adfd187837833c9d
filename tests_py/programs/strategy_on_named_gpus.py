# Machine: 4xA100-40GB
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy(devices=["/gpu:0", "/gpu:1"])
print(strategy.num_replicas_in_sync, strategy.extended.worker_devices)

# Output:
# 2 ('/job:localhost/replica:0/task:0/device:GPU:0', '/job:localhost/replica:0/task:0/device:GPU:1')
