#!/bin/bash
#SBATCH --job-name=gpu-job
#SBATCH --gpus=1
#SBATCH --requeue
# Before the work: on a bad or busy node the job is put back into the queue, and this node is left out. Slurm takes such
# a change of a waiting job alone, and ends this script meanwhile: so first the one, then the other, and no TERM.
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
