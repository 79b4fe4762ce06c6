// Asks the daemon for the servers of its cluster, as it would ask ElastiCache, and connects to those.
const Client = require('memcached-elasticache');
const { promisify } = require('util');

const [host, port] = process.argv.slice(2);
const client = new Client(`${host}:${port}`, { poolSize: 1 });
const call = (method, ...args) => promisify(client[method])(...args);

client.on('autoDiscoverFailure', (err) => { throw err; });
client.on('autoDiscover', async (nodes) => {
  if (nodes.length !== 1 || nodes[0] !== `${host}:${port}`) throw new Error(`it is told to use ${nodes}`);
  for (let i = 0; i < 5; i++) {
    console.log('get', await call('get', 'id'));
  }
  console.log('multi', ...Object.values(await call('getMulti', ['a', 'b', 'c'])));
  const answer = await call('gets', 'id');
  console.log('gets', answer.id, answer.cas);
  console.log('version', (await call('version'))[0].version);
  client.end();
});
