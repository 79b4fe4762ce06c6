// Five orders, each with an id from katsubushi.
import { MemcacheClient } from "memcache-client";

/** The daemon cannot be reached, or has no id now: try again later. */
class NoId extends Error {}

// One for the whole process: it keeps its connection open. Time-outs are in milliseconds.
const ids = new MemcacheClient({ server: process.env.IDS ?? "127.0.0.1:11212", connectTimeout: 1000, cmdTimeout: 2000, noDelay: true });

/** A BigInt: numbers of JavaScript have 53 bits. In JSON, send ids as strings. */
async function nextId() {
  let why;
  for (let attempt = 1; attempt <= 2; attempt++) { // a daemon that was restarted has closed the connection
    try {
      const { value } = await ids.get("id");
      return BigInt(value);
    } catch (e) {
      why = e;
    }
  }
  throw new NoId(`no id: ${why.message}`, { cause: why });
}

try {
  for (let i = 0; i < 5; i++) console.log(String(await nextId()));
} catch (e) {
  if (!(e instanceof NoId)) throw e;
  console.error(e.message);
  process.exitCode = 1;
} finally {
  ids.shutdown();
}
