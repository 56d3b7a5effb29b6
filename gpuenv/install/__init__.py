"""Installing CuPy into a target environment as one transaction: planned, verified, kept, or put back as it was.

Each module imports only those above it:

errors, plan                      errors, and the records of plans and outcomes
dependencies, environment         what is installed, and what requires what
backends.base, lockfile           pins and lock files
backends.pip, .uv, .conda         command lines, and how to read what is printed
installers, solver                which installer, its settings, and what it would install
journal, planner                  where transactions are recorded; from a resolution to a plan
target_platform, bundle           locks for another machine; bundles
swap, conda_environment           what moves where; what conda keeps of an environment
rollback, verify                  the way back; what is checked before an install is kept
transaction, conda_transaction    carrying a plan out
text                              plans and outcomes for people
"""
