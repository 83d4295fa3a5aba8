# What a user of redis-py does; see matrix_test.go.
import os, ssl, sys, time
import redis

e = os.environ
options = dict(host=e["HOST"], port=int(e["PORT"]), decode_responses=True)
if e.get("USERNAME"):
    options.update(username=e["USERNAME"], password=e["PASSWORD"])
if e.get("CA"):
    options.update(ssl=True, ssl_ca_certs=e["CA"])
if e["PROTO"] == "3":
    options.update(protocol=3)


def ok(step, *conditions):
    if not all(conditions):
        sys.exit(f"{step}: {conditions}")
    print("ok", step, flush=True)


r = redis.Redis(**options)
ok("values", r.set("1.cntcm", 41), r.incr("1.cntcm") == 42, r.get("1.cntcm") == "42", r.mget("1.cntcm", "999.cntcm") == ["42", None])
ok("posts", r.hset("2", mapping={"comment": 3, "repost": 4}) is not None, r.hgetall("2") == {"comment": "3", "repost": "4", "attitude": "0"})
p = r.pipeline(transaction=False)
for i in range(100):
    p.incrby("3.cntcm", 2)
ok("pipeline", p.execute() == list(range(2, 201, 2)))
p = r.pipeline(transaction=True)
p.incr("4.cntcm"); p.incrby("4.cntcm", 5); p.get("4.cntcm")
ok("transaction", p.execute() == [1, 6, "6"])
sub = r.pubsub()
sub.subscribe("news")
assert sub.get_message(timeout=60)["type"] == "subscribe"
redis.Redis(**options).publish("news", "hello")
ok("pubsub", sub.get_message(timeout=60)["data"] == "hello")
redis.Redis(**options).execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
got = None
for _ in range(50):
    try:
        got = r.get("1.cntcm")
        break
    except redis.ConnectionError:
        time.sleep(0.05)
ok("reconnect", got == "42")
refused = ""
try:
    r.execute_command("SETEX", "1.cntcm", 10, 1)
except redis.ResponseError as err:
    refused = str(err)
ok("refused", "counters do not expire" in refused)
