// memcache-plus and its fork memcache-pp.
const MemcachePlus = require(process.argv[4]);

const [host, port] = process.argv.slice(2);
const client = new MemcachePlus(`${host}:${port}`);

(async () => {
  for (let i = 0; i < 5; i++) {
    console.log('get', await client.get('id'));
  }
  console.log('multi', ...Object.values(await client.getMulti(['a', 'b', 'c'])));
  const [value, cas] = await client.gets('id');
  console.log('gets', value, cas);
  console.log('version', await client.version());
  console.log('get', await client.get('id'));
  client.disconnect();
})();
