// node-redis: RESP2 by default, RESP3 on demand.
const { createClient } = require('redis');

const [host, port, version, username, password] = process.argv.slice(2);

(async () => {
  const client = createClient({ socket: { host, port: Number(port) }, RESP: Number(version), username, password });
  client.on('error', (err) => { throw err; });
  await client.connect();
  for (let i = 0; i < 5; i++) console.log('get', await client.get('id'));
  console.log('multi', ...await client.mGet(['a', 'b', 'c']));
  if (username === undefined) {
    console.log('incr', await client.incr('orders'));
    console.log('incrby', await client.incrBy('orders', 10), 10);
    const [id, n] = await Promise.all([client.get('id'), client.incr('orders')]); // sent together
    console.log('get', id);
    console.log('incr', n);
    console.log('exec', ...await client.multi().get('id').incr('orders').exec());
  }
  await client.close();
})();
