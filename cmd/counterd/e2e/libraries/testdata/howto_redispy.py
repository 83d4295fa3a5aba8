# python3 howto_redispy.py PORT numbered|plain THREADS INCREMENTS POSTS
#
# Increments posts through redis-py, which repeats what was not answered. Prints how many were acknowledged, and failed.
import sys
import threading

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from counterd_redis import CounterdRedis

port, mode, threads, increments, posts = int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6])
r = {"numbered": CounterdRedis, "plain": redis.Redis}[mode](
    host="127.0.0.1", port=port, socket_timeout=5, retry=Retry(ExponentialBackoff(cap=0.32, base=0.005), 10),
    retry_on_error=[redis.ConnectionError, redis.TimeoutError])
done = []


def work(first):
    good = bad = 0
    for i in range(first, increments, threads):
        try:
            r.incr(f"{i % posts}.cntrn")
            good += 1
        except redis.RedisError as e:
            bad += 1
            print(type(e).__name__, e, file=sys.stderr)
    done.append((good, bad))


all_threads = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
for t in all_threads:
    t.start()
for t in all_threads:
    t.join()
print("acknowledged", sum(g for g, _ in done), "failed", sum(b for _, b in done))
