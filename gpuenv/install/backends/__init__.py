"""The supported installers, one module each: command lines, and how to read what they print."""
