#!/bin/sh
# HealthCheckProgram, Prolog and Epilog of slurm.conf. A node that is bad for every job is drained with the finding as the
# reason, which sinfo -R shows; a batch job then goes back into the queue and is not held. Whatever else fails, gpuenv
# itself included, drains no node. Slurm ends a health check after 60 seconds; by default it takes a batch job for lost if
# its prolog takes more than 10.
#   HealthCheckProgram=/etc/slurm/node.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=IDLE
#   Prolog=/etc/slurm/node.sh
#   PrologFlags=Alloc
#   BatchStartTimeout=60
#   Epilog=/etc/slurm/node.sh
PATH=${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}:/usr/local/bin:/opt/gpuenv/bin
[ -z "${SLURM_JOB_ID:-}" ] || [ -n "${SLURM_JOB_GPUS:-}" ] || exit 0
node=${SLURMD_NODENAME:-$(hostname -s)}
# A folder that all nodes share: the health check leaves a report there for gpuenv fleet, also of a busy or drained node.
if [ -n "${GPUENV_REPORTS:-}" ] && [ -z "${SLURM_JOB_ID:-}" ]; then
  SLURMD_NODENAME=$node gpuenv fleet node --host-only --timeout "${GPUENV_TIMEOUT:-40}" -o "$GPUENV_REPORTS" >/dev/null &
  trap wait EXIT
fi
code=0
report=$(gpuenv preflight --no-config --host-only --retry-elsewhere --timeout "${GPUENV_TIMEOUT:-40}") || code=$?
[ "$code" -eq 75 ] || exit 0

case $(scontrol show node "$node") in
  *DRAIN*) ;;  # keep the reason that is there
  *)
    finding=$(printf '%s\n' "$report" | sed -n '/^Fix this first/{n;s/^ *\([A-Z0-9]*\) .*/\1/p;q;}')
    sentence=$(printf '%s\n' "$report" | sed -n '1s/^UNFIT: \(.*\)\.$/\1/p')
    scontrol update "NodeName=$node" State=DRAIN "Reason=gpuenv $finding: $sentence"
    ;;
esac
# A prolog that fails holds the job, so only one that cannot be requeued, such as an interactive one, ends in that way.
[ "${SLURM_SCRIPT_CONTEXT:-}" != prolog_slurmd ] || scontrol requeue "$SLURM_JOB_ID" || exit 1
