#!/bin/bash
#SBATCH --job-name=gpu-job
#SBATCH --gpus=1
#SBATCH --requeue
# On a bad or busy node the job returns to the queue before its work, and excludes this node. Slurm accepts the exclusion
# only for a queued job, and terminates this script meanwhile: so requeue first, and ignore TERM.
code=0
gpuenv preflight --retry-elsewhere --require "gpu>=1" || code=$?
if [ "$code" -eq 75 ]; then
  trap '' TERM
  scontrol requeue "$SLURM_JOB_ID"
  scontrol update "JobId=$SLURM_JOB_ID" "ExcNodeList=$SLURMD_NODENAME"
  exit "$code"
fi
[ "$code" -eq 0 ] || exit "$code"

python train.py
