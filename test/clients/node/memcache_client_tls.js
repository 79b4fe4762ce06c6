// memcache-client over TLS. usage: memcache_client_tls.js host port ca-file
const { readFileSync } = require('fs');
const { MemcacheClient } = require('memcache-client');

const [host, port, ca] = process.argv.slice(2);
const client = new MemcacheClient({
  server: { server: `${host}:${port}`, maxConnections: 1 },
  tls: { ca: readFileSync(ca) },
});

(async () => {
  for (let i = 0; i < 5; i++) {
    console.log('get', (await client.get('id')).value);
  }
  console.log('multi', ...Object.values(await client.get(['a', 'b', 'c'])).map((answer) => answer.value));
  console.log('version', (await client.version())[1]);
  client.shutdown();
})();
