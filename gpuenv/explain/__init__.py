"""Explains error texts: finds known messages, ranks their causes, and adds the facts of the machine."""
