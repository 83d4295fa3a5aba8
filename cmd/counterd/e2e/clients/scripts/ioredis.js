// What a user of ioredis does; see matrix_test.go.
const fs = require('fs');
const Redis = require('ioredis');
const e = process.env;
const options = { host: e.HOST, port: +e.PORT, username: e.USERNAME || undefined, password: e.PASSWORD || undefined, protocol: +e.PROTO,
  tls: e.CA ? { ca: fs.readFileSync(e.CA) } : undefined };
const ok = (step, ...conditions) => {
  if (!conditions.every(Boolean)) { console.error(step, conditions); process.exit(1); }
  console.log('ok', step);
};
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const make = () => { const r = new Redis(options); r.on('error', () => {}); return r; };
(async () => {
  const r = make(), other = make();
  ok('values', await r.set('1.cntcm', 41) === 'OK', await r.incr('1.cntcm') === 42, await r.get('1.cntcm') === '42', same(await r.mget('1.cntcm', '999.cntcm'), ['42', null]));
  ok('posts', await r.hset('2', { comment: 3, repost: 4 }) !== undefined, same(await r.hgetall('2'), { comment: '3', repost: '4', attitude: '0' }));
  const p = r.pipeline();
  for (let i = 0; i < 100; i++) p.incrby('3.cntcm', 2);
  ok('pipeline', (await p.exec()).every(([err, n], i) => !err && n === 2 * i + 2));
  ok('transaction', same(await r.multi().incr('4.cntcm').incrby('4.cntcm', 5).get('4.cntcm').exec(), [[null, 1], [null, 6], [null, '6']]));
  const sub = make();
  const heard = new Promise((done) => sub.on('message', (_, text) => done(text)));
  await sub.subscribe('news');
  await other.publish('news', 'hello');
  ok('pubsub', await heard === 'hello');
  await other.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  let got;
  for (let i = 0; i < 50 && got === undefined; i++) {
    try { got = await r.get('1.cntcm'); } catch { await new Promise((f) => setTimeout(f, 50)); }
  }
  ok('reconnect', got === '42');
  let refused = '';
  try { await r.call('SETEX', '1.cntcm', 10, 1); } catch (err) { refused = err.message; }
  ok('refused', refused.includes('counters do not expire'));
  process.exit(0);
})().catch((err) => { console.error(err); process.exit(1); });
