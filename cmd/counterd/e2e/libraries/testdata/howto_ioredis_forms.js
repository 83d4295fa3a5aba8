// node howto_ioredis_forms.js PORT DIRECTORY
//
// Changes a post in each of the ways that ioredis has, and prints what came of it.
'use strict';

const path = require('path');
const { CounterdRedis } = require(path.join(process.argv[3], 'counterd_ioredis.js'));

(async () => {
  const port = Number(process.argv[2]);
  const r = new CounterdRedis(port, '127.0.0.1');
  const say = (what) => console.log(JSON.stringify(what));
  say(await r.multi().incr('1.cntrn').incrby('1.cntrn', 4).exec());
  say(await r.pipeline().incr('1.cntrn').get('1.cntrn').exec());
  await r.multi({ pipeline: false });
  say(await r.incr('1.cntrn'));
  say(await r.exec());
  say(await r.call('INCR', '1.cntrn'));
  say(await r.set('1.cntrn', 20));
  say(await r.getdel('1.cntrn'));
  const shared = new CounterdRedis(port, '127.0.0.1', { enableAutoPipelining: true });
  await Promise.all(Array.from({ length: 300 }, () => shared.incr('2.cntrn')));
  say([await shared.get('2.cntrn'), shared.numbers.producers.length]);
  r.disconnect();
  shared.disconnect();
})();
