import tensorflow as tf

spec = tf.DeviceSpec(job="worker", replica=0, task=1, device_type="GPU", device_index=0)
print(spec.to_string())
print(tf.DeviceSpec.from_string("/job:ps/cpu:0").device_type)

# Output:
# /job:worker/replica:0/task:1/device:GPU:0
# CPU
