// The quickstart in Node.js: counts, reads a timeline page, and counts once although a command is sent twice.
const Redis = require('ioredis');

async function main() {
  const [host, port] = (process.env.COUNTERD || '127.0.0.1:6379').split(':');
  const db = new Redis(Number(port), host);

  // One number: the column with the suffix cntrn (reposts) of one post.
  console.log('reposts:', await db.incr('19089006004.cntrn'));

  // Many additions in one command: 12 comments for one post, 40 likes for another.
  await db.call('COUNTER.MINCRBY', '19089006004.cntcm', 12, '19089006001.cntan', 40);

  // A change with a number counts once, however often it is sent. Each process takes a producer name of its own and counts
  // up. The class in counter/client/howto/counterd_ioredis.js does this by itself.
  for (let i = 0; i < 2; i++) {
    console.log('likes:', await db.call('INCRBY', '19089006001.cntan', 1, 'IDMP', `node-${process.pid}`, 1));
  }

  // The timeline page: all columns of many posts in one command. A post without counters is null.
  const mids = [19089006004, 19089006001, 19089006000];
  const rows = await db.call('COUNTER.MGET', 'weibo', ...mids);
  rows.forEach((counts, i) => {
    if (counts === null) console.log(`${mids[i]}: nothing yet`);
    else console.log(`${mids[i]}: ${counts[0]} comments, ${counts[1]} reposts, ${counts[2]} likes`);
  });
  await db.quit();
}

main();
