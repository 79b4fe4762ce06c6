import java.util.Map;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.CASValue;
import net.spy.memcached.BinaryConnectionFactory;
import net.spy.memcached.DefaultConnectionFactory;
import net.spy.memcached.MemcachedClient;

public class Spymemcached {
    public static void main(String[] args) throws Exception {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        java.util.logging.LogManager.getLogManager().reset();
        MemcachedClient client = new MemcachedClient(
                args[2].equals("binary") ? new BinaryConnectionFactory() : new DefaultConnectionFactory(),
                AddrUtil.getAddresses(args[0] + ":" + args[1]));
        for (int i = 0; i < 5; i++) {
            System.out.println("get " + client.get("id"));
        }
        Map<String, Object> many = client.getBulk("a", "b", "c");
        System.out.println("multi " + many.get("a") + " " + many.get("b") + " " + many.get("c"));
        CASValue<Object> answer = client.gets("id");
        System.out.println("gets " + answer.getValue() + " " + answer.getCas());
        System.out.println("version " + client.getVersions().values().iterator().next());
        client.getStats().values().iterator().next().forEach((name, value) -> System.out.println("stat " + name + " " + value));
        System.out.println("group settings " + client.getStats("settings").values().iterator().next().size());
        System.out.println("get " + client.get("id"));
        client.shutdown();
    }
}
