// node howto_ioredis.js PORT numbered|plain TASKS INCREMENTS POSTS DIRECTORY
//
// Increments posts through ioredis, which sends again what was not answered. Prints how many were acknowledged, and failed.
'use strict';

const path = require('path');
const { Redis } = require('ioredis');
const { CounterdRedis } = require(path.join(process.argv[7], 'counterd_ioredis.js'));

const [port, mode] = [Number(process.argv[2]), process.argv[3]];
const [tasks, increments, posts] = process.argv.slice(4, 7).map(Number);
const redis = new { numbered: CounterdRedis, plain: Redis }[mode](port, '127.0.0.1', {
  maxRetriesPerRequest: null, // until it is answered
  retryStrategy: () => Math.random() * 5,
});
redis.on('error', () => {}); // what matters is what becomes of the commands

let next = 0;
let good = 0;
let bad = 0;
async function work() {
  while (next < increments) {
    const i = next++;
    try {
      await redis.incr(`${i % posts}.cntrn`);
      good++;
    } catch (err) {
      bad++;
      console.error(err.message);
    }
  }
}

Promise.all(Array.from({ length: tasks }, work)).then(() => {
  console.log(`acknowledged ${good} failed ${bad}`);
  redis.disconnect();
});
