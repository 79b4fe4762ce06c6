// memjs speaks the binary protocol. It has no multi-get and no version command.
const memjs = require('memjs');

const [host, port, username, password] = process.argv.slice(2);
const client = memjs.Client.create(`${host}:${port}`, { username, password, timeout: 5 });
const stats = () => new Promise((resolve, reject) =>
  client.stats((err, server, values) => (err ? reject(err) : resolve(values))));

(async () => {
  for (let i = 0; i < 5; i++) {
    console.log('get', (await client.get('id')).value.toString());
  }
  const values = await stats();
  console.log('version', values.version);
  for (const [name, value] of Object.entries(values)) console.log('stat', name, value);
  console.log('get', (await client.get('id')).value.toString());
  client.quit();
})();
