"""How long after its publishing a frame has its log time: one camera of 36 Hz, 5 s, recorded by each of the given builds in turn."""
import json, os, signal, statistics, subprocess, sys, time
bench, out, *builds = sys.argv[1:]
for turn in range(3):
    for livebag in builds:
        name = f"log-time-{os.getpid()}-{turn}"
        orders = {"system": "livebag", "workload": {"cameras": {"count": 1, "rate_hz": 36}}, "mode": "paced", "seconds": 5.0,
                  "name": name, "directory": out, "cache_bytes_max": 104857600, "pins": None, "cycle_aware": False, "sensors_first": False}
        producer = subprocess.Popen([bench, "record-producer", json.dumps(orders)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert producer.stdout.readline().strip() == "ready"
        bag = f"{out}/log-time"
        subprocess.run(["rm", "-rf", bag])
        record = subprocess.Popen([livebag, "record", "-e", name, "-o", bag, "--disable-keyboard-controls"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        time.sleep(1.5)
        producer.stdin.write("go\n"); producer.stdin.flush(); producer.stdout.readline(); time.sleep(0.3)
        record.send_signal(signal.SIGINT); record.wait(timeout=60)
        producer.stdin.write("go\n"); producer.stdin.flush(); producer.wait(timeout=30)
        said = subprocess.check_output([livebag, "query", bag, "history", "--json"], text=True)
        messages = json.loads(said) if said.lstrip().startswith(("[", "{\n")) else [json.loads(l) for l in said.splitlines()]
        if isinstance(messages, dict): messages = messages["messages"]
        lags = sorted((m["log_time"] - m["publish_time"]) / 1e6 for m in messages if "log_time" in m)
        print(os.path.basename(livebag), len(lags), "p50 %.2f p95 %.2f max %.2f ms" % (lags[len(lags) // 2], lags[len(lags) * 95 // 100], lags[-1]))
