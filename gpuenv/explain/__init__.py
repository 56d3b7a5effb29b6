"""What an error text says of its cause: signatures, what they say together, and what the machine adds. Pure."""
