const { MemcacheClient } = require('memcache-client');

const [host, port] = process.argv.slice(2);
const client = new MemcacheClient({ server: { server: `${host}:${port}`, maxConnections: 1 } });

(async () => {
  for (let i = 0; i < 5; i++) {
    console.log('get', (await client.get('id')).value);
  }
  console.log('multi', ...Object.values(await client.get(['a', 'b', 'c'])).map((answer) => answer.value));
  const { value, casUniq } = await client.gets('id');
  console.log('gets', value, casUniq);
  console.log('version', (await client.version())[1]);
  for (const [name, value] of (await client.cmd('stats')).STAT) console.log('stat', name, value);
  console.log('get', (await client.get('id')).value);
  client.shutdown();
})();
