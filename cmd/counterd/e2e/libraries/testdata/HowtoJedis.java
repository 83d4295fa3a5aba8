import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;

import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.executors.CommandExecutor;
import redis.clients.jedis.executors.RetryableCommandExecutor;
import redis.clients.jedis.providers.PooledConnectionProvider;

/**
 * HowtoJedis PORT numbered|plain THREADS INCREMENTS POSTS increments posts through Jedis, which repeats what was not
 * answered. It prints how many were acknowledged, and failed.
 */
public class HowtoJedis {
  public static void main(String[] args) throws Exception {
    int port = Integer.parseInt(args[0]);
    int threads = Integer.parseInt(args[2]);
    int increments = Integer.parseInt(args[3]);
    int posts = Integer.parseInt(args[4]);
    CommandExecutor executor = new RetryableCommandExecutor(new PooledConnectionProvider(new HostAndPort("127.0.0.1", port)), 10, Duration.ofMinutes(5));
    if (args[1].equals("numbered")) {
      executor = new CountingExecutor(executor);
    }
    AtomicLong good = new AtomicLong();
    AtomicLong bad = new AtomicLong();
    try (UnifiedJedis redis = new UnifiedJedis(executor)) {
      Thread[] all = new Thread[threads];
      for (int t = 0; t < threads; t++) {
        int first = t;
        all[t] = new Thread(() -> {
          for (int i = first; i < increments; i += threads) {
            try {
              redis.incr(i % posts + ".cntrn");
              good.incrementAndGet();
            } catch (JedisException e) {
              bad.incrementAndGet();
              System.err.println(e);
            }
          }
        });
        all[t].start();
      }
      for (Thread t : all) {
        t.join();
      }
    }
    System.out.println("acknowledged " + good + " failed " + bad);
  }
}
