// A cluster client, ioredis or node-redis, that asks for values of sequences until its standard input ends.
const [library, ...addresses] = process.argv.slice(2);
const nodes = addresses.map((a) => { const [host, port] = a.split(':'); return { host, port: Number(port) }; });
const names = ['orders', 'items', 'tickets', 'users', 'free'];
const now = () => process.hrtime.bigint(); // CLOCK_MONOTONIC, which all processes share
let over = false;
process.stdin.on('end', () => { over = true; }).resume();

async function connect() {
  if (library === 'ioredis') {
    const { Cluster } = require('ioredis');
    const client = new Cluster(nodes, { maxRedirections: 100 });
    client.on('error', () => {}); // every request has its own
    return { incrBy: (name, n) => client.incrby(name, n), close: () => client.quit() };
  }
  const { createCluster } = require('redis');
  const client = createCluster({ rootNodes: nodes.map((socket) => ({ socket })) });
  client.on('error', () => {});
  await client.connect();
  return client;
}

async function work(client, worker) {
  for (let i = worker; !over; i++) {
    const name = names[i % 5], n = 1 + i % 3, began = now();
    let line;
    try {
      const last = await client.incrBy(name, n);
      line = ['value', name, began, now(), last, n];
    } catch (err) {
      line = ['error', name, began, now(), `${err.name} ${err.code || ''} ${err.message}`];
    }
    console.log(line.join(' '));
    await new Promise((done) => setTimeout(done, 2));
  }
}

(async () => {
  const client = await connect();
  await Promise.all([0, 1, 2, 3].map((worker) => work(client, worker)));
  await client.close();
})();
