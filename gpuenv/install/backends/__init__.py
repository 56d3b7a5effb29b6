"""The installers that are driven, one module each: command lines, and how to read what they print."""
