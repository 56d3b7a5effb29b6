"""Many machines: runs the probe on every node through an existing engine, and analyses the node reports."""
