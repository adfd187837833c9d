import tensorflow as tf

device = "/device:GPU:0" if tf.config.list_physical_devices("GPU") else "/cpu:0"
with tf.device(device):
    x = tf.matmul([[1.0, 2.0]], [[3.0], [4.0]])
print(device, x.numpy())

# Output:
# /cpu:0 [[11.]]
