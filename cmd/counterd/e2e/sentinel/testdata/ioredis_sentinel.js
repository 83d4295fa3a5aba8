// node ioredis_sentinel.js HOST:PORT,HOST:PORT,...
//
// Increments one post after the other through ioredis's Sentinel client, and asks WAIT for one replica, until its input ends. It prints a line
// for each: "safe MID" (acknowledged, by a replica too), "alone MID", "refused MID text" (an error reply), "unknown MID text" (no reply). A second client
// subscribes to news, and "heard TEXT" is what it is told.
'use strict';

const Redis = require('ioredis');

const options = {
  name: 'mymaster',
  sentinels: process.argv[2].split(',').map((address) => {
    const at = address.lastIndexOf(':');
    return { host: address.slice(0, at), port: Number(address.slice(at + 1)) };
  }),
  autoResendUnfulfilledCommands: false, // an increment that is sent again counts twice
  commandTimeout: 2000,
};
const redis = new Redis(options);
const subscriber = new Redis(options);
for (const client of [redis, subscriber]) client.on('error', () => {}); // what matters is what becomes of the commands
subscriber.subscribe('news').catch(() => {}); // it does so again on each connection
subscriber.on('message', (channel, text) => console.log(`heard ${text}`));

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
  subscriber.disconnect();
}

main();
