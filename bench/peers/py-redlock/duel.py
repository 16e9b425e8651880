"""redlock-py driven by stdin: see "The duel" in the README of the peers."""
import argparse, json, logging, sys, time
from redlock import Redlock

logging.disable(logging.CRITICAL)
p = argparse.ArgumentParser()
p.add_argument("--nodes", required=True)
p.add_argument("--ttl", type=int, required=True)
a = p.parse_args()
addresses = (address.split(":") for address in a.nodes.split(","))
masters = [{"host": host, "port": int(port), "db": 0} for host, port in addresses]
patient, once = Redlock(masters), Redlock(masters, retry_count=1)
held = {}  # name: (lock, when the call returned); validity counts from there


def say(ok, **more):
    print(json.dumps({"ok": ok, **more}), flush=True)


def answer(op, name):
    if op in ("acquire", "try"):
        lock = (patient if op == "acquire" else once).lock(name, a.ttl)
        if lock:
            held[name] = lock, time.monotonic()
        return say(bool(lock))
    if op not in ("valid", "release"):
        return say(False, none=True)  # redlock-py has no extension
    if name not in held:
        return say(False, why="not acquired")
    lock, since = held[name]
    if op == "valid":
        return say((time.monotonic() - since) * 1000 < lock.validity)
    del held[name]
    patient.unlock(lock)
    say(True)


say(True)
for line in sys.stdin:
    try:
        answer(*line.split())
    except Exception as e:
        say(False, why=f"{type(e).__name__}: {e}")
