// What a user of hiredis does; see matrix_test.go.
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void ok(const char *step, int condition) {
	if (!condition) {
		fprintf(stderr, "%s failed\n", step);
		exit(1);
	}
	printf("ok %s\n", step);
}

static redisContext *make(void) {
	struct timeval patience = {60, 0};
	redisContext *c = redisConnectWithTimeout(getenv("HOST"), atoi(getenv("PORT")), patience);
	if (!c || c->err) {
		fprintf(stderr, "connect: %s\n", c ? c->errstr : "no memory");
		exit(1);
	}
	if (getenv("USERNAME") && *getenv("USERNAME")) {
		redisReply *r = redisCommand(c, "AUTH %s %s", getenv("USERNAME"), getenv("PASSWORD"));
		ok("login", r && r->type == REDIS_REPLY_STATUS);
	}
	return c;
}

static int isText(redisReply *r, const char *s) { return r && r->str && strcmp(r->str, s) == 0; }
static int isNumber(redisReply *r, long long n) { return r && r->type == REDIS_REPLY_INTEGER && r->integer == n; }

int main(void) {
	redisContext *c = make(), *other = make();
	redisReply *r;
	int good = isText(redisCommand(c, "SET 1.cntcm 41"), "OK") && isNumber(redisCommand(c, "INCR 1.cntcm"), 42) && isText(redisCommand(c, "GET 1.cntcm"), "42");
	r = redisCommand(c, "MGET 1.cntcm 999.cntcm");
	ok("values", good && r->elements == 2 && isText(r->element[0], "42") && r->element[1]->type == REDIS_REPLY_NIL);
	redisCommand(c, "HSET 2 comment 3 repost 4");
	r = redisCommand(c, "HGETALL 2");
	ok("posts", r->elements == 6 && isText(r->element[0], "comment") && isText(r->element[1], "3"));
	for (int i = 0; i < 100; i++) redisAppendCommand(c, "INCRBY 3.cntcm 2");
	good = 1;
	for (int i = 0; i < 100; i++) good = good && redisGetReply(c, (void **)&r) == REDIS_OK && isNumber(r, 2 * i + 2);
	ok("pipeline", good);
	redisCommand(c, "MULTI");
	redisCommand(c, "INCR 4.cntcm");
	redisCommand(c, "INCRBY 4.cntcm 5");
	r = redisCommand(c, "EXEC");
	ok("transaction", r->elements == 2 && isNumber(r->element[0], 1) && isNumber(r->element[1], 6));
	redisContext *sub = make();
	redisCommand(sub, "SUBSCRIBE news");
	redisCommand(other, "PUBLISH news hello");
	ok("pubsub", redisGetReply(sub, (void **)&r) == REDIS_OK && r->elements == 3 && isText(r->element[2], "hello"));
	redisCommand(other, "CLIENT KILL TYPE normal SKIPME yes");
	r = NULL;
	for (int i = 0; i < 50 && !r; i++) {
		r = redisCommand(c, "GET 1.cntcm");
		if (!r) {
			usleep(50000);
			c = make(); // hiredis leaves that to its user
		}
	}
	ok("reconnect", isText(r, "42"));
	r = redisCommand(c, "SETEX 1.cntcm 10 1");
	ok("refused", r->type == REDIS_REPLY_ERROR && strstr(r->str, "counters do not expire"));
	return 0;
}
