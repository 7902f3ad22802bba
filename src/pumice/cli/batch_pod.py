"""What runs in each pod of a batch script: a start that makes Slurm's surroundings, and an `srun` that starts this pod's tasks.

Plain sh: an image need not have more. The script stands in a variable, gets a file of its own, and runs by its first line.
"""

from typing import Final

START: Final = """\
set -u
here=$(mktemp -d) || exit 1
printf '%s' "$SBATCH_SCRIPT" >"$here/script"
printf '%s' "$SBATCH_SRUN" >"$here/srun"
chmod +x "$here/script" "$here/srun"
SLURM_NODEID=${VC_TASK_INDEX:-0}
SLURM_PROCID=$((SLURM_NODEID * SLURM_NTASKS_PER_NODE))
SLURM_LOCALID=0
SLURM_JOBID=$SLURM_JOB_ID
SLURM_JOB_NODELIST=${VC_NODE_HOSTS:-$(hostname)}
SLURM_NODELIST=$SLURM_JOB_NODELIST
MASTER_ADDR=${MASTER_ADDR:-${SLURM_JOB_NODELIST%%,*}}
export SLURM_NODEID SLURM_PROCID SLURM_LOCALID SLURM_JOBID SLURM_JOB_NODELIST SLURM_NODELIST MASTER_ADDR
PATH=$here:$PATH
export PATH
output=$SBATCH_OUTPUT
whom=$SBATCH_SIGNALS
unset SBATCH_SCRIPT SBATCH_SRUN SBATCH_OUTPUT SBATCH_SIGNALS
copy=
if [ -n "$output" ]; then
  output=$(printf '%s' "$output" | sed -e "s|%[jA]|$SLURM_JOB_ID|g" -e "s|%x|$SLURM_JOB_NAME|g" \\
    -e "s|%N|$SLURMD_NODENAME|g" -e "s|%[nt]|$SLURM_NODEID|g" -e 's|%%|%|g')
  mkdir -p "$(dirname "$output")" && mkfifo "$here/out" || exit 1
  (trap '' TERM HUP INT USR1 USR2; exec tee -a "$output" <"$here/out") &
  copy=$!
  exec >"$here/out" 2>&1
fi
"$here/script" "$@" &
child=$!
# As in Slurm: a warning is for the tasks of srun, or, with B: before it, for the script.
steps() { for step in "$here"/step.*; do [ -e "$step" ] && kill "-$1" "${step##*.}" 2>/dev/null; done; }
trap 'kill -TERM $child 2>/dev/null; steps TERM' TERM
for signal in HUP INT USR1 USR2; do
  if [ "$whom" = script ]; then trap "kill -$signal $child 2>/dev/null" $signal; else trap "steps $signal" $signal; fi
done
wait $child
code=$?
while kill -0 $child 2>/dev/null; do wait $child; code=$?; done
exec >&- 2>&-
if [ -n "$copy" ]; then
  # What the script left running holds the pipe open: it ends with this pod, and nobody waits for it.
  (sleep 2; kill -KILL $copy) >/dev/null 2>&1 &
  wait $copy
fi
rm -rf "$here"
exit $code
"""

SRUN: Final = """\
#!/bin/sh
# Starts the tasks of this node; options of srun, which the Job has been laid out by, are passed over.
while [ $# -gt 0 ]; do
  case $1 in
    --) shift; break ;;
    -[nNcGpJtDoe]) shift; shift ;;
    --*=*|-*) shift ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || { echo 'srun: no command was given' >&2; exit 2; }
: >"${0%/*}/step.$$"
tasks=${SLURM_NTASKS_PER_NODE:-1}
first=$((${SLURM_NODEID:-0} * tasks))
if [ "$tasks" -eq 1 ]; then exec "$@"; fi
children=
task=0
while [ $task -lt "$tasks" ]; do
  SLURM_LOCALID=$task SLURM_PROCID=$((first + task)) "$@" &
  children="$children $!"
  task=$((task + 1))
done
for signal in TERM HUP INT USR1 USR2; do trap "kill -$signal $children 2>/dev/null" $signal; done
worst=0
for child in $children; do
  wait $child
  code=$?
  while kill -0 $child 2>/dev/null; do wait $child; code=$?; done
  if [ $code -gt $worst ]; then worst=$code; fi
done
exit $worst
"""
