// ElastiCache's discovery alone, for whichever client.
const Discovery = require('ecad');
const Memcached = require('memcached');
const { promisify } = require('util');

const [host, port] = process.argv.slice(2);
new Discovery({ endpoints: [`${host}:${port}`], timeout: 10000 }).fetch(async (err, nodes) => {
  if (err) throw err;
  if (nodes.length !== 1 || nodes[0] !== `${host}:${port}`) throw new Error(`it is told to use ${nodes}`);
  const client = new Memcached(nodes, { poolSize: 1 });
  const call = (method, ...args) => promisify(client[method]).apply(client, args);
  for (let i = 0; i < 5; i++) {
    console.log('get', await call('get', 'id'));
  }
  console.log('multi', ...Object.values(await call('getMulti', ['a', 'b', 'c'])));
  client.end();
});
