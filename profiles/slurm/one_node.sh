#!/bin/bash
# SLURM on one node from Debian's packages, the small trial through it, and one training cancelled on the way. By hand, as
# root, on a Debian machine that you may throw away:
#
#   PYTHON=.venv/bin/python profiles/slurm/one_node.sh [SETTING=VALUE ...]     # settings for snakemake --config
#
# It installs slurmd, slurmctld and munge, writes /etc/slurm/slurm.conf, and ends them again. The profile is profiles/slurm
# with nothing but account and partition changed; this SLURM keeps no accounts, so there the line says slurm-no-account.
set -eu
cd "$(dirname "$0")/../.."
PYTHON=$(command -v "${PYTHON:-python3}")
settings=("$@")
[ $# -gt 0 ] || settings=(preset=tiny images=2000)
place=$(mktemp -d)
chmod 755 "$place"

apt-get install -y --no-install-recommends slurmd slurmctld slurm-client munge >"$place/apt.log"
cat >/etc/slurm/slurm.conf <<CONF
ClusterName=one
SlurmctldHost=$(hostname -s)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$place/munge.socket
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd.pid
SlurmctldLogFile=$place/slurmctld.log
SlurmdLogFile=$place/slurmd.log
NodeName=$(hostname -s) CPUs=$(nproc --all) RealMemory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
mkdir -p "$place/state" "$place/spool"
unset OMP_NUM_THREADS # which nproc, and every job, would take for the number of cores

end() {
    for name in slurmd slurmctld munged; do
        [ -f "$place/$name.pid" ] && kill "$(cat "$place/$name.pid")" 2>/dev/null || true
    done
}
trap end EXIT
dd if=/dev/urandom of="$place/munge.key" bs=1024 count=1 status=none
chmod 400 "$place/munge.key"
munged --force --key-file "$place/munge.key" --socket "$place/munge.socket" --pid-file "$place/munged.pid" \
    --log-file "$place/munged.log" --seed-file "$place/munge.seed"
slurmctld
slurmd -N "$(hostname -s)"
for _ in $(seq 30); do
    sinfo -h -o %t 2>/dev/null | grep -q idle && break
    sleep 1
done
sinfo

mkdir "$place/profile"
sed -e 's/^  slurm_account: ACCOUNT.*/  slurm_partition: debug/' -e '/PARTITION/d' profiles/slurm/config.yaml >"$place/profile/config.yaml"
echo 'slurm-no-account: true' >>"$place/profile/config.yaml"

cancel_one() { # the first training that runs
    while sleep 2; do
        job=$(squeue -h -t R -o '%i %k' | awk '/train_net/ {print $1; exit}')
        if [ -n "$job" ]; then
            sleep "${CANCEL_AFTER:-5}"
            echo "=== scancel $job: $(squeue -h -j "$job" -o '%k, %M')"
            scancel "$job"
            return
        fi
    done
}
cancel_one &
watcher=$!
status=0
"$PYTHON" -m snakemake --profile "$place/profile" --config "${settings[@]}" || status=$?
kill "$watcher" 2>/dev/null || true
[ $status -eq 0 ] || tail -n 20 "$place"/slurmctld.log "$place"/slurmd.log
exit $status
