// Five orders, each with an id from katsubushi.
import memjs from "memjs";

/** The daemon cannot be reached, or has no id now: try again later. */
class NoId extends Error {}

// One for the whole process: it keeps its connection open, and tries a second time by itself. Time-outs are in seconds.
const ids = memjs.Client.create(process.env.IDS ?? "127.0.0.1:11212", { conntimeout: 1, timeout: 2, retries: 2, keepAlive: true, logger: { log() {} } });

/** A BigInt: numbers of JavaScript have 53 bits. In JSON, send ids as strings. */
async function nextId() {
  let value;
  try {
    ({ value } = await ids.get("id"));
  } catch (e) {
    throw new NoId(`no id: ${e.message}`, { cause: e });
  }
  if (value === null) throw new NoId("no id: the answer is empty");
  return BigInt(value.toString());
}

try {
  for (let i = 0; i < 5; i++) console.log(String(await nextId()));
} catch (e) {
  if (!(e instanceof NoId)) throw e;
  console.error(e.message);
  process.exitCode = 1;
} finally {
  ids.close();
}
