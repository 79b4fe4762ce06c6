// An id looks like a number to the client, which would round it to 53 bits: flags 0 with a string is kept as text.
const Memcached = require('memcached');
const { promisify } = require('util');

const [host, port] = process.argv.slice(2);
const client = new Memcached(`${host}:${port}`, { poolSize: 1 });
const call = (method, ...args) => promisify(client[method]).apply(client, args);

(async () => {
  for (let i = 0; i < 5; i++) {
    console.log('get', await call('get', 'id'));
  }
  console.log('multi', ...Object.values(await call('getMulti', ['a', 'b', 'c'])));
  const answer = await call('gets', 'id');
  console.log('gets', answer.id, answer.cas);
  console.log('version', (await call('version'))[0].version);
  for (const [name, value] of Object.entries((await call('stats'))[0])) console.log('stat', name, value);
  console.log('group settings', Object.keys((await call('settings'))[0]).length);
  console.log('get', await call('get', 'id'));
  client.end();
})();
