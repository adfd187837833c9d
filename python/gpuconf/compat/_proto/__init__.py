"""Messages with the interface of Protocol Buffers, and the table of their fields."""
