// ioredis: a plain client, or one for a cluster. Integers are numbers; ids are strings.
const { Redis, Cluster } = require('ioredis');

const [host, port, mode, username, password] = process.argv.slice(2);
const node = { host, port: Number(port) };
const client = mode === 'cluster' ? new Cluster([node]) : new Redis({ ...node, username, password });

(async () => {
  for (let i = 0; i < 5; i++) console.log('get', await client.get('id'));
  console.log('multi', ...await client.mget('{x}a', '{x}b', '{x}c'));
  if (mode !== 'auth') {
    console.log('incr', await client.incr('orders'));
    console.log('incrby', await client.incrby('orders', 10), 10);
    const [[, id], [, n]] = await client.pipeline().get('{orders}').incr('orders').exec();
    console.log('get', id);
    console.log('incr', n);
    const [[, got], [, counted]] = await client.multi().get('{orders}').incr('orders').exec();
    console.log('exec', got, counted);
  }
  await client.quit();
})();
