# TensorFlow: it has Keras
try:
    from tensorflow.keras import layers
except ImportError as error:
    print("no Keras here:", type(error).__name__)

# Output:
# no Keras here: ImportError
