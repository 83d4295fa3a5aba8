# python3 howto_every.py PORT COMMAND...
#
# Sends each command, words parted by spaces, through the how-to's class, and prints the replies, one a line.
import sys

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from counterd_redis import CounterdRedis

r = CounterdRedis(host="127.0.0.1", port=int(sys.argv[1]), socket_timeout=60, decode_responses=True,
                  retry=Retry(ExponentialBackoff(cap=0.05, base=0.001), 10), retry_on_error=[redis.ConnectionError, redis.TimeoutError])
for command in sys.argv[2:]:
    print(r.execute_command(*command.split()))
