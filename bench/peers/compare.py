"""The measured part of docs/PERFORMANCE.md: what ran where, and a table per scenario."""
import json, os, pathlib, platform, re, statistics, subprocess, textwrap

HERE = pathlib.Path(__file__).resolve().parent
BEGIN, END = "<!-- compare: measured -->", "<!-- compare: end -->"


def facts():
    """What a run records of itself before its first row: versions as they were built, and the machine."""
    def found(file, pattern):
        try:
            return (re.search(pattern, (HERE / file).read_text(), re.M) or [None, "unknown"])[1]
        except OSError:
            return "unknown"

    def says(pattern, *command):
        try:
            printed = subprocess.run(command, capture_output=True, text=True).stdout
            return (re.search(pattern, printed) or [None, "unknown"])[1]
        except OSError:
            return "unknown"

    go = lambda module: found("go-redsync/go.mod", rf"{module} (v\S+)")
    locked = lambda name: found("rust-rslock/Cargo.lock", rf'^name = "{name}"\nversion = "([^"]+)"')
    node = lambda name: found(f"node-redlock/node_modules/{name}/package.json", r'"version": "v?([^"]+)"')
    return {
        "clients": {
            "redleash": found("../../Cargo.toml", r'^version = "([^"]+)"'),
            "rslock": f"{locked('rslock')} (redis {locked('redis')}, tokio {locked('tokio')})",
            "redsync": f"{go('redsync/v4')} (go-redis {go('go-redis/v9')})",
            "Redisson": found("java-redisson/pom.xml", r"<artifactId>redisson</artifactId>\s*<version>([^<]+)"),
            "redlock for Node": f"{node('redlock')} (ioredis {node('ioredis')})",
        },
        "redis-server": says(r"v=(\S+)", "redis-server", "--version"),
        "rustc": says(r"rustc (\S+)", "rustc", "--version"),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "load1": round(os.getloadavg()[0], 2),
        "awake": os.environ.get("AWAKE") == "1",
    }


RAW, OURS = "raw-", "redleash"
US, MS, MS2, WHOLE, TWO = (1, 0), (0.001, 1), (0.001, 2), (1, 0), (1, 2)
P50, P99, RATE = ("p50 us", "p50_us", US), ("p99 us", "p99_us", US), ("locks/s", "ops_per_s", WHOLE)
P99MS, P999MS, MAX = ("p99 ms", "p99_us", MS), ("p99.9 ms", "p999_us", MS), ("max ms", "max_us", MS)
NAMES = {
    "raw-limit": "raw-limit: no lock, the same bytes", "raw-mux": "raw-mux: no lock, batched",
    "redleash-fenced": "redleash, fencing token folded in", "redleash-drop": "redleash, release by drop",
    "redleash-no-hand-over": "redleash, hand-over off", "redleash-shared": "redleash, `WatchdogMode::Shared`",
    "hold redleash": "redleash, a thread per lock", "rust-rslock": "rslock", "go-redsync": "redsync",
    "java-redisson": "Redisson RedLock",
}
# Title, scenario, threads, columns, and whether less is better in the first column, which is the one that is compared.
TABLES = [
    ("A free lock, one thread, acquired and released (release awaited)", "cycle", 1, [P50, P99, RATE], True),
    ("Eight threads, a lock each", "cycle", 8, [RATE, P50, MAX], False),
    ("One lock, eight threads of one process", "contended", 8, [RATE, P99MS, P999MS, MAX], False),
    ("One lock, eight processes of one thread (worst process)", "contended-processes", 8,
     [RATE, P99MS, P999MS, MAX], False),
    ("Hand-over between two clients: from the release to the waiter's lock", "handoff", 2,
     [("p50 ms", "p50_us", MS2), MAX], True),
    ("One of three masters stopped, one thread", "hung", 1, [RATE, P50, MAX], False),
    ("One of three masters stopped, eight threads at full rate beside {locks} held locks (ttl 3 s) for {seconds} s",
     "hold-cycle-hung", 8, [RATE, ("held locks lost", "lost", WHOLE), P50, MAX, ("errors", "errors", WHOLE)], False),
    ("{locks} held locks for {seconds} s, ttl 6 s", "hold", 8,
     [("client CPU s", "cpu_s", TWO), ("lost", "lost", WHOLE), ("MiB", "rss_mib", WHOLE),
      ("threads", "os_threads", WHOLE)], True),
]


def number(value, digits=0):
    return f"{value:,.{digits}f}".replace(",", " ")


def medians(rows, column):
    """The median of `column` of each peer that has it."""
    peers = {}
    for row in rows:
        if column in row:
            peers.setdefault(row["peer"], []).append(row[column])
    return {peer: statistics.median(values) for peer, values in peers.items()}


def scenario(rows, title, columns, less, own=None):
    """The medians of each peer, the compared one first and beside the best peer's (and beside `own`, its own
    elsewhere), and the number of rounds."""
    peers = {}
    for row in rows:
        peers.setdefault(row["peer"], []).append(row)
    first = columns[0][1]
    name = lambda peer: NAMES.get(f"{rows[0]['scenario']} {peer}", NAMES.get(peer, peer))
    compared = medians(rows, first)
    others = [value for peer, value in compared.items() if not peer.startswith((RAW, OURS))]
    best = (min if less else max)(others) if others else None
    place = lambda p: (not p.startswith(RAW), not p.startswith(OURS), compared[p] * (1 if less else -1))
    order = sorted(compared, key=place)
    title = title.format(locks=number(rows[0].get("locks", 0)), seconds=f"{rows[0]['seconds']:g}")
    beside = ["to its own with all masters"] if own else []
    head = [columns[0][0], "to the best peer", *beside, *[c[0] for c in columns[1:]], "rounds"]
    out = [f"**{title}**", "", "| | " + " | ".join(head) + " |", "|---|" + "---:|" * len(head)]
    for peer in order:
        cells = []
        for _, column, (factor, digits) in columns:
            value = medians(rows, column).get(peer)
            cells.append("" if value is None else number(value * factor, digits))
        cells.insert(1, f"{compared[peer] / best:.2f}" if best else "")
        if own:
            cells.insert(2, f"{compared[peer] / own[peer]:.2f}" if peer in own else "")
        cells.append(str(sum(first in r for r in peers[peer])))
        out.append(f"| {name(peer)} | " + " | ".join(cells) + " |")
    out += [f"| {name(peer)} | failed |" + " |" * (len(head) - 1) for peer in peers if peer not in compared]
    return out + [""]


def measured(lines):
    """The text between the marks: `lines` are those of one results file, the facts among them."""
    rows, run = [r for r in lines if "peer" in r], next((r["run"] for r in lines if "run" in r), None)
    out, load = [""], statistics.median(r["load1"] for r in rows)
    if run:
        clients = ", ".join(f"{name} {version}" for name, version in run["clients"].items())
        text = (f"{clients}; redis-server {run['redis-server']}, rustc {run['rustc']}, {run['system']} with "
                f"{run['cores']} cores. The load average was {run['load1']:.1f} at the start and {load:.1f} in the "
                "median.")
        if run.get("awake"):
            text += (" Loops of the idle class, one per core, kept the cores awake; they count in the load and give "
                     "way to everything else.")
        out += [*textwrap.wrap(text, 118, break_on_hyphens=False), ""]
    else:
        out += [f"The run recorded no versions. The median of its load average was {load:.1f}.", ""]
    out += ["\"To the best peer\" divides the first column by that of the best of the other clients "
            "(not raw-limit or raw-mux).", ""]
    of = lambda name, threads: [r for r in rows if r["scenario"] == name and r["threads"] == threads]
    for title, name, threads, columns, less in TABLES:
        chosen = of(name, threads)
        if chosen:
            own = medians(of("cycle", threads), columns[0][1]) if name == "hung" else None
            out += scenario(chosen, title, columns, less, own)
    return "\n".join(out)


def put_into(document, text):
    """Replaces what stands between the marks of `document`."""
    path = pathlib.Path(document)
    whole = path.read_text()
    if whole.count(BEGIN) != 1 or whole.count(END) != 1 or whole.index(BEGIN) > whole.index(END):
        raise SystemExit(f"{document} does not have the marks {BEGIN} and {END}, once each and in this order")
    before, after = whole.index(BEGIN) + len(BEGIN), whole.index(END)
    path.write_text(whole[:before] + "\n" + text + "\n" + whole[after:])


def read(files):
    return [json.loads(line) for file in files for line in open(file)]
