#!/bin/sh
# Interleaved: the build before this change, and the one with it.
out=/work/wt/trust/bench-runs/2026-11-21-d/submit-final
for i in 1 2 3; do for b in after before; do
  mkdir -p /work/wt/probe-tmp/d
  uptime >> $out/load.txt
  nice -n -10 /work/wt/bin-$b/livebag-bench submit --seconds 1.5 --repeats 1 --dir /work/wt/probe-tmp/d --out /work/wt/probe-tmp/out --json > $out/$b-$i.json 2> /work/wt/probe-tmp/err-$b-$i.txt
done; done
uptime >> $out/load.txt
