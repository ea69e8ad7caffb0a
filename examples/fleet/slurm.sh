#!/bin/bash
# Workers of a fleet on GPUs that nobody wants: an array whose jobs end when nothing is left to tune, or before their time does.
# AUTOTUNE_STORE must be set where this is submitted: sbatch --export=ALL slurm.sh
#SBATCH --job-name=autotune-worker
#SBATCH --array=0-63%32
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=04:00:00
#SBATCH --nice=10000
#SBATCH --requeue
#SBATCH --signal=B:TERM@60
set -euo pipefail
until=$(date -u -d "@$SLURM_JOB_END_TIME" +%FT%TZ)
exec srun autotune worker --idle 0 --budget 10s --exit-when-idle 10m --until "$until"
