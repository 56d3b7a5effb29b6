"""The compatibility matrix, and the resolver that holds every constraint against every candidate."""
