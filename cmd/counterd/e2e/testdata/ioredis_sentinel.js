// node ioredis_sentinel.js HOST:PORT,HOST:PORT,...
//
// Increments one post after the other through ioredis's Sentinel client, and asks WAIT for one replica, until its input ends. It prints a line
// for each: "safe MID" (acknowledged, by a replica too), "alone MID", "refused MID text" (an error reply), "unknown MID text" (no reply).
'use strict';

const Redis = require('ioredis');

const redis = new Redis({
  name: 'mymaster',
  sentinels: process.argv[2].split(',').map((address) => {
    const at = address.lastIndexOf(':');
    return { host: address.slice(0, at), port: Number(address.slice(at + 1)) };
  }),
  autoResendUnfulfilledCommands: false, // an increment that is sent again counts twice
  commandTimeout: 2000,
});
redis.on('error', () => {}); // what matters is what becomes of the commands

let ended = false;
process.stdin.on('end', () => { ended = true; });
process.stdin.resume();

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function main() {
  for (let mid = 1; !ended; mid++) {
    let word = 'unknown';
    let text = '';
    try {
      await redis.incr(`${mid}.n`);
      word = 'alone';
      if (await redis.wait(1, 500) >= 1) word = 'safe';
    } catch (err) {
      text = ' ' + err.message;
      if (word === 'unknown' && err.name === 'ReplyError') word = 'refused';
    }
    console.log(`${word} ${mid}${text}`);
    await pause(word === 'safe' ? 5 : 50);
  }
  redis.disconnect();
}

main();
