// node howto_every.js PORT DIRECTORY COMMAND...
//
// Sends each command, words parted by spaces, through the how-to's class, and prints the replies, one a line.
'use strict';

const path = require('path');
const { CounterdRedis } = require(path.join(process.argv[3], 'counterd_ioredis.js'));

(async () => {
  const r = new CounterdRedis(Number(process.argv[2]), '127.0.0.1', { maxRetriesPerRequest: 10, retryStrategy: () => 1 });
  r.on('error', () => {}); // what matters is what becomes of the commands
  for (const command of process.argv.slice(4)) console.log(JSON.stringify(await r.call(...command.split(' '))));
  r.disconnect();
})();
