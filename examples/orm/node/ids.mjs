// Ids from katsubushi for models: nextId() for one, nextIds(n) for a bulk insert. They are BigInts: JSON.stringify(order, idsAsText) makes them text.
import Redis from "ioredis";

/** No daemon has an id now: try again later. */
export class NoId extends Error {}

// A connection to each daemon, which all requests share. The second daemon is asked if the first has no ids. Milliseconds.
const daemons = (process.env.IDS ?? "127.0.0.1:11212").split(",").map((address) => {
  const [host, port] = address.split(":");
  const redis = new Redis({
    host, port: Number(port), connectTimeout: 1000, commandTimeout: 2000, maxRetriesPerRequest: 0,
    retryStrategy: (times) => Math.min(times * 50, 1000),
  });
  redis.on("error", (e) => { redis.why = `${address}: ${e.code ?? ""} ${e.message}`; });
  return redis;
});

/** n ids, with one request for each 1,000. A name that the daemons do not declare gets plain ids. */
export async function nextIds(n, name = "id") {
  if (n > 1000) return [...await nextIds(1000, name), ...await nextIds(n - 1000, name)];
  const why = [];
  const readyFirst = daemons.toSorted((a, b) => (b.status === "ready") - (a.status === "ready"));
  for (const redis of readyFirst) {
    try {
      const values = await redis.mget(Array(n).fill(name));
      const refused = values.find((v) => v instanceof Error);
      if (refused) throw refused;
      return values.map(BigInt);
    } catch (e) {
      why.push(redis.status === "ready" ? e.message : redis.why ?? e.message);
    }
  }
  throw new NoId(`no id: ${why.join("; ")}`);
}

export const nextId = async (name = "id") => (await nextIds(1, name))[0];

/** JSON has no BigInt, and its readers keep 53 bits of a number. */
export const idsAsText = (key, value) => (typeof value === "bigint" ? String(value) : value);
