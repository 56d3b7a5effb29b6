"""Requirements on a machine: their grammar, their configuration file and their evaluation."""
