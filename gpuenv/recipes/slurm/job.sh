#!/bin/bash
#SBATCH --job-name=gpu-job
#SBATCH --gpus=1
#SBATCH --requeue
# One line before the work: on a bad or busy node the job is put back into the queue, without that node.
code=0
gpuenv preflight --retry-elsewhere --require "gpu>=1" || code=$?
if [ "$code" -eq 75 ]; then
  scontrol update "JobId=$SLURM_JOB_ID" "ExcNodeList=+$SLURMD_NODENAME" || true
  scontrol requeue "$SLURM_JOB_ID"
  exit "$code"
fi
[ "$code" -eq 0 ] || exit "$code"

python train.py
