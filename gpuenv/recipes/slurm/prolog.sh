#!/bin/sh
# Prolog of slurm.conf: run on each node before a job. A status other than 0 drains the node and requeues the job, so
# only what is the node's own fault may end in one: exit code 75. What the job's environment lacks is the job's matter.
[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0
log=${GPUENV_LOG:-/var/log/gpuenv-prolog.log}
code=0
gpuenv preflight --no-config --retry-elsewhere --timeout 50 -o "$log" || code=$?
[ "$code" -ne 75 ]
