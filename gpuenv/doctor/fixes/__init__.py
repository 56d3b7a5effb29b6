"""What to do about a finding: commands for the machine at hand."""
