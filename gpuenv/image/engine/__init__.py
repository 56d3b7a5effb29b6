"""The container engine: its address, its questions and answers."""
