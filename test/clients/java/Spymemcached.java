import java.util.Map;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.auth.AuthDescriptor;
import net.spy.memcached.auth.PlainCallbackHandler;

public class Spymemcached {
    public static void main(String[] args) throws Exception {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        java.util.logging.LogManager.getLogManager().reset();
        ConnectionFactoryBuilder builder = new ConnectionFactoryBuilder();
        builder.setProtocol(args[2].equals("binary") ? Protocol.BINARY : Protocol.TEXT);
        if (args.length > 4) {
            builder.setAuthDescriptor(new AuthDescriptor(new String[] {"PLAIN"}, new PlainCallbackHandler(args[3], args[4])));
        }
        MemcachedClient client = new MemcachedClient(builder.build(), AddrUtil.getAddresses(args[0] + ":" + args[1]));
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
