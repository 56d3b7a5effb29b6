"""What the commands share that build and judge images."""
