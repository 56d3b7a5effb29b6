"""Requirements on a machine: their grammar, where they are written, and whether a machine meets them."""
