import java.io.Serializable;
import java.util.ArrayDeque;
import java.util.List;
import javax.persistence.*;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.annotations.GenericGenerator;
import org.hibernate.cfg.Configuration;
import org.hibernate.engine.SessionImplementor;
import org.hibernate.id.IdentifierGenerator;

/** Hibernate 3.6: an identifier generator asks when an object is saved. For Hibernate 6 see README.md. */
public class HibernateOrders {
    /** Has a stock, as Hibernate's own generators have with an allocation size of 1,000. */
    public static class OrderId implements IdentifierGenerator {
        private final ArrayDeque<Long> stock = new ArrayDeque<>();

        public synchronized Serializable generate(SessionImplementor session, Object order) {
            if (stock.isEmpty()) {
                stock.addAll(Ids.take(1000, "orders"));
            }
            return stock.remove();
        }
    }

    @Entity @Table(name = "orders")
    public static class Order {
        @Id @GeneratedValue(generator = "orders")
        @GenericGenerator(name = "orders", strategy = "HibernateOrders$OrderId")
        Long id;
        String item;
    }

    // What hibernate.cfg.xml has.
    private static final SessionFactory SESSIONS = new Configuration().addAnnotatedClass(Order.class)
            .setProperty("hibernate.connection.url", System.getenv("DATABASE_URL"))
            .setProperty("hibernate.dialect", "org.hibernate.dialect.MySQL5InnoDBDialect") // also MariaDB's
            .setProperty("hibernate.c3p0.max_size", "5").setProperty("hibernate.jdbc.batch_size", "1000").buildSessionFactory();

    /** In one transaction. Returns the last one's id. */
    static long create(List<String> items) {
        Session session = SESSIONS.openSession();
        try {
            session.beginTransaction();
            Order order = null;
            for (String item : items) {
                order = new Order();
                order.item = item;
                session.save(order);
            }
            session.getTransaction().commit();
            return order.id;
        } finally {
            session.close();
        }
    }
}
