import java.io.IOException;
import java.util.concurrent.CancellationException;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.FailureMode;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.OperationTimeoutException;

/** Five orders, each with an id from katsubushi. */
public class Orders {
    /** The daemon cannot be reached, or has no id now: try again later. */
    static class NoId extends Exception {
        NoId(Throwable cause) {
            super("no id: " + cause.getMessage(), cause);
        }
    }

    // One for the whole process: it keeps its connection open, and threads may share it.
    private final MemcachedClient ids;

    Orders(String address) throws IOException {
        ids = new MemcachedClient(
                new ConnectionFactoryBuilder()
                        .setOpTimeout(2000) // ms
                        .setFailureMode(FailureMode.Retry) // wait for the connection, up to the time-out
                        .setMaxReconnectDelay(1) // s
                        .setUseNagleAlgorithm(false)
                        .setDaemon(true)
                        .build(),
                AddrUtil.getAddresses(address));
    }

    long nextId() throws NoId {
        NoId last = null;
        for (int attempt = 1; attempt <= 2; attempt++) { // a daemon that was restarted has closed the connection
            try {
                return Long.parseLong((String) ids.get("id"));
            } catch (OperationTimeoutException e) {
                throw new NoId(e);
            } catch (CancellationException e) { // the connection broke
                last = new NoId(e);
            } catch (RuntimeException e) { // what the daemon says when it refuses
                throw new NoId(e.getCause() != null ? e.getCause() : e);
            }
        }
        throw last;
    }

    public static void main(String[] args) throws IOException {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        java.util.logging.Logger.getLogger("net.spy").setLevel(java.util.logging.Level.OFF);
        String address = System.getenv().getOrDefault("IDS", "127.0.0.1:11212");
        Orders orders = new Orders(address);
        int code = 0;
        try {
            for (int i = 0; i < 5; i++) {
                System.out.println(orders.nextId());
            }
        } catch (NoId e) {
            System.err.println(e.getMessage());
            code = 1;
        }
        orders.ids.shutdown(1, TimeUnit.SECONDS);
        System.exit(code);
    }
}
