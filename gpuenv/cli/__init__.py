"""The command line: one file a command, each importing its work inside its function."""
