"""One file a command: its options, and its work imported inside its function."""
