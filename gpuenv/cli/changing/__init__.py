"""What the commands share that change an environment: what is wanted, consent, and the one transaction."""
