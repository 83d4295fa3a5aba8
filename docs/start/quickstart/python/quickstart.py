"""The quickstart in Python: counts, reads a timeline page, and counts once although a command is sent twice."""

import os

import redis

host, port = os.environ.get("COUNTERD", "127.0.0.1:6379").split(":")
db = redis.Redis(host=host, port=int(port), decode_responses=True)

# One number: the column with the suffix cntrn (reposts) of one post.
print("reposts:", db.incr("19089006004.cntrn"))

# Many additions in one command: 12 comments for one post, 40 likes for another.
db.execute_command("COUNTER.MINCRBY", "19089006004.cntcm", 12, "19089006001.cntan", 40)

# A change with a number counts once, however often it is sent. Each process takes a producer name of its own and counts
# up. The class in counter/client/howto/counterd_redis.py does this by itself.
for _ in range(2):
    print("likes:", db.execute_command("INCRBY", "19089006001.cntan", 1, "IDMP", f"python-{os.getpid()}", 1))

# The timeline page: all columns of many posts in one command. A post without counters is None.
mids = [19089006004, 19089006001, 19089006000]
for mid, counts in zip(mids, db.execute_command("COUNTER.MGET", "weibo", *mids)):
    if counts is None:
        print(f"{mid}: nothing yet")
    else:
        print(f"{mid}: {counts[0]} comments, {counts[1]} reposts, {counts[2]} likes")
