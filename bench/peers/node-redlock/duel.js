// node-redlock driven by stdin: see "The duel" in the README of the peers.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
const require = createRequire(import.meta.url);
const { default: Redlock } = require("redlock");
const { default: Redis } = require("ioredis");

const arg = {};
for (let i = 2; i + 1 < process.argv.length; i += 2) arg[process.argv[i].slice(2)] = process.argv[i + 1];
const ttl = Number(arg.ttl);
const clients = arg.nodes.split(",").map((node) => {
  const [host, port] = node.split(":");
  return new Redis({ host, port: Number(port) });
});
for (const client of clients) client.on("error", () => {});
const redlock = new Redlock(clients);
const held = new Map();
const say = (answer) => console.log(JSON.stringify(answer));

const does = {
  acquire: async (name) => (held.set(name, await redlock.acquire([name], ttl)), true),
  try: async (name) => (held.set(name, await redlock.acquire([name], ttl, { retryCount: 0 })), true),
  valid: (name) => held.get(name).expiration > Date.now(),
  extend: async (name) => (held.set(name, await held.get(name).extend(ttl)), true),
  release: async (name) => {
    const lock = held.get(name);
    held.delete(name);
    await lock.release();
    return true;
  },
};

say({ ok: true });
for await (const line of createInterface({ input: process.stdin })) {
  const [op, name] = line.split(" ");
  if (!does[op]) say({ ok: false, none: true });
  else if (!held.has(name) && op !== "acquire" && op !== "try") say({ ok: false, why: "not acquired" });
  else await Promise.resolve().then(() => does[op](name)).then((ok) => say({ ok }), (e) => say({ ok: false, why: String(e.message) }));
}
process.exit(0);
