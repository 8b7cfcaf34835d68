"""Five of SPEED's cameras (0.995 GB/s) for 30 s, recorded with a new split every second."""
import json, subprocess, sys, time, re, os, signal
bench, livebag, out = sys.argv[1:4]
name = f"split-test-{os.getpid()}"
orders = {"system": "livebag", "workload": {"cameras": {"count": 5, "rate_hz": 36}}, "mode": "paced", "seconds": 30.0,
          "name": name, "directory": out, "cache_bytes_max": 104857600, "pins": None, "cycle_aware": False, "sensors_first": False}
producer = subprocess.Popen([bench, "record-producer", json.dumps(orders)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert producer.stdout.readline().strip() == "ready"
record = subprocess.Popen([livebag, "record", "-e", name, "-o", out + "/bag", "--max-bag-duration", "1", "--max-bag-files", sys.argv[4],
                           "--stats", "1", "--json", "--disable-keyboard-controls"], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
time.sleep(1.5)
producer.stdin.write("go\n"); producer.stdin.flush()
produced = json.loads(producer.stdout.readline())
time.sleep(0.5)
record.send_signal(signal.SIGINT)
said = record.communicate(timeout=120)[0]
producer.stdin.write("go\n"); producer.stdin.flush(); producer.wait(timeout=30)
lines = said.splitlines()
at = next(i for i, l in enumerate(lines) if l == "{")
summary = json.loads("\n".join(lines[at:]))
stats = [json.loads(l) for l in lines[:at]]
print("record's exit code", record.returncode)
print("published", sum(produced["published"]), "producer late at most ms", produced["late_nanos_max"] / 1e6)
print("recorded (kept)", summary["message_count"], "GB", summary["bytes"] / 1e9, "lost", summary["lost"])
last = stats[-1]
print("counted while recording", sum(t["messages"] for t in last["topics"]), "splits", last["splits"])
print("largest cache MB", max(s["cache_bytes"] for s in stats) / 1e6, "largest slot_bytes MB", max(s["slot_bytes"] for s in stats) / 1e6)
import glob
splits = [out + "/bag"] + sorted(glob.glob(out + "/bag/split_*"))
alone = 0
for split in splits[1:]:
    info = json.loads(subprocess.check_output([livebag, "info", split, "--json"]))
    assert info["state"] == "closed", info["state"]
    alone += 1
print(alone, "splits opened alone, all closed")
print(subprocess.run([livebag, "verify", out + "/bag"], capture_output=True, text=True).stdout[-300:])
