// What a user of node-redis does; see matrix_test.go.
const fs = require('fs');
const { createClient } = require('redis');
const e = process.env;
const socket = { host: e.HOST, port: +e.PORT };
if (e.CA) Object.assign(socket, { tls: true, ca: fs.readFileSync(e.CA) });
const options = { socket, username: e.USERNAME || undefined, password: e.PASSWORD || undefined, RESP: +e.PROTO };
const ok = (step, ...conditions) => {
  if (!conditions.every(Boolean)) { console.error(step, conditions); process.exit(1); }
  console.log('ok', step);
};
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const make = async (more) => { const r = createClient({ ...options, ...more }); r.on('error', () => {}); await r.connect(); return r; };
(async () => {
  const r = await make(), other = await make();
  ok('values', await r.set('1.cntcm', 41) === 'OK', await r.incr('1.cntcm') === 42, await r.get('1.cntcm') === '42', same(await r.mGet(['1.cntcm', '999.cntcm']), ['42', null]));
  const post = (await r.hSet('2', { comment: 3, repost: 4 }), await r.hGetAll('2'));
  ok('posts', post.comment === '3', post.repost === '4', post.attitude === '0');
  const sums = await Promise.all(Array.from({ length: 100 }, () => r.incrBy('3.cntcm', 2)));
  ok('pipeline', sums.every((n, i) => n === 2 * i + 2));
  ok('transaction', same(await r.multi().incr('4.cntcm').incrBy('4.cntcm', 5).get('4.cntcm').exec(), [1, 6, '6']));
  const sub = await make();
  const heard = new Promise((done) => sub.subscribe('news', done).then(() => other.publish('news', 'hello')));
  ok('pubsub', await heard === 'hello');
  if (e.PROTO === '3') { // client-side caching
    const cached = await make({ clientSideCache: { ttl: 0, maxEntries: 100 } });
    const read = () => cached.get('5.cntcm');
    await r.set('5.cntcm', 1);
    let right = await read() === '1' && await read() === '1';
    await r.set('5.cntcm', 2);
    for (let i = 0; i < 1000 && await read() !== '2'; i++) await new Promise((f) => setTimeout(f, 10));
    ok('cache', right, await read() === '2');
    cached.destroy();
  }
  await other.sendCommand(['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes']);
  let got;
  for (let i = 0; i < 50 && got === undefined; i++) {
    try { got = await r.get('1.cntcm'); } catch { await new Promise((f) => setTimeout(f, 50)); }
  }
  ok('reconnect', got === '42');
  let refused = '';
  try { await r.sendCommand(['SETEX', '1.cntcm', '10', '1']); } catch (err) { refused = err.message; }
  ok('refused', refused.includes('counters do not expire'));
  process.exit(0);
})().catch((err) => { console.error(err); process.exit(1); });
