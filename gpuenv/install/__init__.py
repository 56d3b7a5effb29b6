"""Installs CuPy into a target environment as one transaction: planned, verified, then kept or rolled back.

Each module imports only those above it:

exceptions, plan                  errors; the records of plans and outcomes
environment                       installed distributions
change_scope, owned_files         what may change; files of distributions
backends.base, lockfile           pins and lock files
pip_settings                      pip's settings, also for uv
backends.pip, .uv, .conda         command lines, and parsers of what the tools print
own_folders                       the user's folders that installers get
installer_config, solver          the installer and its configuration; what it would install
journal, planner                  the record of transactions; from a resolution to a plan
target_platform, bundle           locks for another machine; bundles
disk_space                        whether the disks can hold the download
swap                              file moves
conda_environment, conda_planner  a conda environment, and its former state; what conda would change
rollback, verify                  undoing a transaction; verification before it is kept
transaction, conda_transaction    executing a plan
plan_text                         plans and outcomes as text
"""
