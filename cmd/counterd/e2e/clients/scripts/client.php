<?php
// What a user of phpredis does; see matrix_test.go.
function ok($step, ...$conditions) {
    foreach ($conditions as $c) {
        if (!$c) {
            fwrite(STDERR, "$step: " . json_encode($conditions) . "\n");
            exit(1);
        }
    }
    echo "ok $step\n";
}
function make() {
    $r = new Redis();
    $ca = getenv('CA');
    $r->connect(($ca ? 'tls://' : '') . getenv('HOST'), (int) getenv('PORT'), 60, null, 0, 0, $ca ? ['stream' => ['cafile' => $ca]] : []);
    if (getenv('USERNAME')) {
        $r->auth([getenv('USERNAME'), getenv('PASSWORD')]);
    }
    return $r;
}
$r = make();
ok('values', $r->set('1.cntcm', 41), $r->incr('1.cntcm') === 42, $r->get('1.cntcm') === '42', $r->mget(['1.cntcm', '999.cntcm']) === ['42', false]);
ok('posts', $r->hMSet('2', ['comment' => 3, 'repost' => 4]), $r->hGetAll('2') == ['comment' => '3', 'repost' => '4', 'attitude' => '0']);
$p = $r->multi(Redis::PIPELINE);
for ($i = 0; $i < 100; $i++) {
    $p->incrBy('3.cntcm', 2);
}
ok('pipeline', $p->exec() === range(2, 200, 2));
ok('transaction', $r->multi()->incr('4.cntcm')->incrBy('4.cntcm', 5)->get('4.cntcm')->exec() === [1, 6, '6']);
$sub = make();
$heard = null;
$pid = pcntl_fork();
if ($pid === 0) {
    $other = make();
    while ($other->publish('news', 'hello') === 0) {
        usleep(10000);
    }
    posix_kill(getmypid(), SIGKILL); // not to end what belongs to the parent
}
try {
    $sub->subscribe(['news'], function ($redis, $channel, $text) use (&$heard) {
        $heard = $text;
        $redis->close(); // the way out of the loop
    });
} catch (RedisException $e) {
}
pcntl_waitpid($pid, $status);
ok('pubsub', $heard === 'hello');
$r = make();
$r->get('1.cntcm');
make()->rawCommand('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
$got = null;
for ($i = 0; $i < 50 && $got === null; $i++) {
    try {
        $got = $r->get('1.cntcm');
    } catch (RedisException $e) {
        usleep(50000);
        $r = make(); // with a user it does not authenticate again by itself
    }
}
ok('reconnect', $got === '42');
$r = make();
ok('refused', $r->rawCommand('SETEX', '1.cntcm', '10', '1') === false, strpos($r->getLastError(), 'counters do not expire') !== false);
