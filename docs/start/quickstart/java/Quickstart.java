import java.util.List;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPooled;

/** The quickstart in Java: counts, reads a timeline page, and counts once although a command is sent twice. */
public class Quickstart {
    public static void main(String[] args) {
        String address = System.getenv().getOrDefault("COUNTERD", "127.0.0.1:6379");
        try (JedisPooled db = new JedisPooled(HostAndPort.from(address))) {
            // One number: the column with the suffix cntrn (reposts) of one post.
            System.out.println("reposts: " + db.incr("19089006004.cntrn"));

            // Many additions in one command: 12 comments for one post, 40 likes for another.
            db.sendCommand(() -> "COUNTER.MINCRBY".getBytes(), "19089006004.cntcm", "12", "19089006001.cntan", "40");

            // A change with a number counts once, however often it is sent. Each process takes a producer name of its own
            // and counts up. The class in counter/client/howto/CountingExecutor.java does this by itself.
            String producer = "java-" + ProcessHandle.current().pid();
            for (int i = 0; i < 2; i++) {
                Object likes = db.sendCommand(() -> "INCRBY".getBytes(), "19089006001.cntan", "1", "IDMP", producer, "1");
                System.out.println("likes: " + likes);
            }

            // The timeline page: all columns of many posts in one command. A post without counters is null.
            String[] mids = {"19089006004", "19089006001", "19089006000"};
            List<?> rows = (List<?>) db.sendCommand(() -> "COUNTER.MGET".getBytes(), "weibo", mids[0], mids[1], mids[2]);
            for (int i = 0; i < mids.length; i++) {
                if (rows.get(i) == null) {
                    System.out.println(mids[i] + ": nothing yet");
                } else {
                    List<?> counts = (List<?>) rows.get(i);
                    System.out.println(mids[i] + ": " + counts.get(0) + " comments, " + counts.get(1) + " reposts, " + counts.get(2) + " likes");
                }
            }
        }
    }
}
