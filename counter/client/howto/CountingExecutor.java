import java.security.SecureRandom;
import java.util.Base64;
import java.util.Locale;
import java.util.Set;

import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.CommandObject;
import redis.clients.jedis.executors.CommandExecutor;
import redis.clients.jedis.util.SafeEncoder;

/**
 * Jedis whose increments count once, however often they are sent.
 *
 * <pre>
 * var provider = new PooledConnectionProvider(new HostAndPort("127.0.0.1", 6379));
 * var retrying = new RetryableCommandExecutor(provider, 10, Duration.ofSeconds(30));
 * try (var r = new UnifiedJedis(new CountingExecutor(retrying))) {
 *   r.incr("19089006004.cntrn");
 * }
 * </pre>
 *
 * Each thread is a producer and numbers its changes: the number is among the arguments, so what is below sends it again
 * with them, and counterd answers a repeat what it answered first. Pipelines and transactions are not numbered here.
 * counterd's own commands are sent by {@code r.sendCommand(() -> "COUNTER.DRAIN".getBytes(), "19089006004.cntrn")}.
 */
public class CountingExecutor implements CommandExecutor {
  private static final Set<String> CHANGES = Set.of("INCR", "INCRBY", "DECR", "DECRBY", "INCREX", "HINCRBY", "SET", "GETSET",
      "SETNX", "GETDEL", "HSET", "HMSET", "HSETNX", "MSET", "DEL", "UNLINK", "HDEL", "COUNTER.MINCRBY", "COUNTER.MSET", "COUNTER.DRAIN", "COUNTER.UPDATE");
  private static final SecureRandom RANDOM = new SecureRandom();

  private static final class Producer {
    final String id;
    long seq;

    Producer() {
      byte[] b = new byte[12];
      RANDOM.nextBytes(b);
      id = Base64.getUrlEncoder().withoutPadding().encodeToString(b);
    }
  }

  private final ThreadLocal<Producer> producer = ThreadLocal.withInitial(Producer::new); // it has one change on its way
  private final CommandExecutor below;

  public CountingExecutor(CommandExecutor below) {
    this.below = below;
  }

  @Override
  public <T> T executeCommand(CommandObject<T> command) {
    CommandArguments args = command.getArguments();
    if (CHANGES.contains(SafeEncoder.encode(args.getCommand().getRaw()).toUpperCase(Locale.ROOT))) {
      Producer p = producer.get();
      args.add("IDMP").add(p.id).add(++p.seq);
    }
    return below.executeCommand(command);
  }

  @Override
  public void close() throws Exception {
    below.close();
  }
}
