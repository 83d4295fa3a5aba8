"""redis-py whose increments count once, however often they are sent.

    from redis.backoff import FullJitterBackoff
    from redis.exceptions import ConnectionError, TimeoutError
    from redis.retry import Retry

    r = CounterdRedis(host="127.0.0.1", socket_timeout=5, retry=Retry(FullJitterBackoff(cap=0.32, base=0.005), 10),
                      retry_on_error=[ConnectionError, TimeoutError])
    r.incr("19089006004.cntrn")

Each thread is a producer and numbers its changes: the number is among the arguments, so redis-py sends it again with them,
and counterd answers a repeat what it answered first. A command that has a number already keeps it. counterd's own commands
are sent by execute_command("COUNTER.DRAIN", "19089006004.cntrn"). Pipelines are not numbered here: number their commands
yourself, or send many additions as one COUNTER.MINCRBY by execute_command.
"""

import secrets
import threading

import redis

# All commands that accept a number, but EXEC: pipelines do not come by here.
CHANGES = frozenset("""
    INCR INCRBY DECR DECRBY INCREX HINCRBY SET GETSET SETNX GETDEL HSET HMSET HSETNX MSET DEL UNLINK HDEL
    COUNTER.MINCRBY COUNTER.MSET COUNTER.DRAIN COUNTER.UPDATE
""".split())


def _word(arg):
    return (arg.decode("latin-1") if isinstance(arg, bytes) else str(arg)).upper()


def _has_number(args):
    """Whether a command ends in IDMP producer seq [EPOCH epoch]."""
    n = len(args)
    return n > 3 and _word(args[-3]) == "IDMP" or n > 5 and _word(args[-5]) == "IDMP" and _word(args[-2]) == "EPOCH"


class CounterdRedis(redis.Redis):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._numbers = threading.local()  # a thread has one change on its way at a time

    def execute_command(self, *args, **options):
        if _word(args[0]) in CHANGES and not _has_number(args):
            numbers = self._numbers
            if not hasattr(numbers, "producer"):
                numbers.producer, numbers.seq = secrets.token_urlsafe(12), 0
            numbers.seq += 1
            args += ("IDMP", numbers.producer, numbers.seq)
        return super().execute_command(*args, **options)
