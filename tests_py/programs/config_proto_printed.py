import tensorflow.compat.v1 as tf

config = tf.ConfigProto(allow_soft_placement=True)
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = "0,1"
print(config)

# Output:
# gpu_options {
#   allow_growth: true
#   visible_device_list: "0,1"
# }
# allow_soft_placement: true
#
