#!/usr/bin/env bash
# soak.sh SECONDS keeps a real daemon under load and kills it, over and over: SIGKILL and, every fourth
# time, SIGTERM. One producer sends numbered messages, one consumer receives and acks. At the end every
# message whose send was confirmed has to have arrived, and the queue has to be empty. SIGKILL does not
# cut the power: the tests of adapters/sqlitefile do that in simulation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:?usage: soak.sh SECONDS}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "soak: $seconds is no number of seconds" >&2; exit 2; }

scratch=$(mktemp -d)
daemon='' producer='' consumer=''
clean() {
  local pid
  for pid in $producer $consumer $daemon; do kill -KILL "$pid" 2>/dev/null || true; done
  rm -rf "$scratch"
}
trap clean EXIT

stowage=$scratch/stowage
CGO_ENABLED=1 go build -o "$stowage" ./cmd/stowage
cd "$scratch"
export STOWAGE_STATE_DIR=$scratch/state
stop=$scratch/stop
fail() {
  echo "soak: $*; the daemon's log ends:" >&2
  tail -5 "$scratch/daemon.log" >&2
  exit 1
}

# start runs the daemon, on the port that the first start was given, and waits until it is ready.
address=127.0.0.1:0
start() {
  : >"$scratch/announced"
  "$stowage" serve --listen "$address" >"$scratch/announced" 2>>"$scratch/daemon.log" &
  daemon=$!
  local tries=0
  until address=$(grep -oEm1 '127\.0\.0\.1:[0-9]+' "$scratch/announced"); do
    kill -0 "$daemon" 2>/dev/null && ((tries++ < 300)) || fail 'the daemon does not start'
    sleep 0.1
  done
  export STOWAGE_SERVER=http://$address
  until "$stowage" queue stats soak >/dev/null 2>&1 || [[ -z ${created:-} ]]; do
    kill -0 "$daemon" 2>/dev/null && ((tries++ < 300)) || fail 'the daemon does not answer'
    sleep 0.1
  done
}

# number FIELD takes a number out of a JSON report; 0 if it is not there.
number() { grep -oE "\"$1\": *[0-9]+" "$scratch/report" | grep -oE '[0-9]+$' || echo 0; }

# produce sends files of 500 numbered lines, each to its end. What the daemon confirmed goes to the
# file confirmed; a batch of which nobody knows is passed over, since it may or may not be there.
produce() {
  local next=1 line
  while [[ ! -e $stop ]]; do
    seq "$next" $((next + 499)) | sed 's/.*/{"n":&}/' >"$scratch/lines"
    line=1
    while ((line <= 500)); do
      "$stowage" queue send soak --ndjson "$scratch/lines" --from-line "$line" -o json >"$scratch/report" 2>>"$scratch/client.log" || true
      sent=$(number sent)
      ((sent == 0)) || seq $((next + line - 1)) $((next + line + sent - 2)) >>"$scratch/confirmed"
      line=$((line + sent))
      (($(number unknown) == 0)) || line=$(($(number last) + 1))
      # A daemon that is down refuses at once; do not spin.
      ((sent)) || sleep 0.05
    done
    next=$((next + 500))
  done
}

# consume receives and acks until it is stopped and has found the queue empty.
consume() {
  local quiet=0
  while ((quiet < 2)); do
    "$stowage" queue receive soak --max 200 --wait 1s --lease 2s --ack -o jsonl >"$scratch/batch" 2>>"$scratch/client.log" || true
    grep -oE '"n":[0-9]+' "$scratch/batch" | cut -d: -f2 >>"$scratch/received" || true
    if [[ -s $scratch/batch || ! -e $stop ]]; then quiet=0; else quiet=$((quiet + 1)); fi
    [[ -s $scratch/batch ]] || sleep 0.05
  done
}

start
"$stowage" queue create soak >/dev/null
created=1
: >"$scratch/confirmed" >"$scratch/received"
produce &
producer=$!
consume &
consumer=$!

kills=0
SECONDS=0
while ((SECONDS < seconds)); do
  sleep "$((RANDOM % 3)).$((RANDOM % 10))"
  kills=$((kills + 1))
  if ((kills % 4)); then kill -KILL "$daemon"; else kill -TERM "$daemon"; fi
  wait "$daemon" 2>/dev/null || true
  start
done
touch "$stop"
wait "$producer" || fail 'the producer failed'
wait "$consumer" || fail 'the consumer failed'
producer='' consumer=''

confirmed=$(sort -u "$scratch/confirmed" | wc -l)
received=$(sort -u "$scratch/received" | wc -l)
missing=$(comm -23 <(sort -u "$scratch/confirmed") <(sort -u "$scratch/received") | wc -l)
((confirmed > 0)) || fail 'nothing was confirmed'
((missing == 0)) || fail "$missing of $confirmed confirmed messages never arrived"
"$stowage" queue stats soak -o json >"$scratch/report"
(($(number total) == 0)) || fail "the queue still holds $(number total) messages"
kill -TERM "$daemon"
wait "$daemon" || fail 'the daemon does not stop cleanly'
daemon=''
again=$(($(wc -l <"$scratch/received") - received))
echo "soak: $kills kills, $confirmed messages confirmed, all arrived; $((received - confirmed)) unconfirmed arrived too, $again were delivered again"
