const { Memcache } = require('memcache');

const [host, port, username, password] = process.argv.slice(2);
const client = new Memcache({ nodes: [`${host}:${port}`], ...(username && { sasl: { username, password } }) });

(async () => {
  await client.connect();
  for (let i = 0; i < 5; i++) {
    console.log('get', await client.get('id'));
  }
  console.log('multi', ...(await client.gets(['a', 'b', 'c'])).values());
  const [version] = (await client.version()).values(); // the whole line
  console.log(version.replace('VERSION', 'version'));
  const [stats] = (await client.stats()).values();
  for (const [name, value] of Object.entries(stats)) console.log('stat', name, value);
  console.log('get', await client.get('id'));
  await client.quit();
})();
