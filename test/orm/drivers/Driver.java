import java.util.Collections;
import java.util.List;
import java.util.Scanner;

/** Runs the recipe for Hibernate. Each line of the input is "insert N" or "bulk N". */
public class Driver {
    public static void main(String[] args) {
        for (Scanner in = new Scanner(System.in); in.hasNext(); ) {
            String what = in.next(), last = "";
            int n = in.nextInt();
            try {
                if (what.equals("bulk")) {
                    HibernateOrders.create(Collections.nCopies(n, "tea"));
                } else {
                    for (int i = 0; i < n; i++) {
                        last = Long.toString(HibernateOrders.create(List.of("tea")));
                    }
                }
                System.out.println("done " + last);
            } catch (RuntimeException e) {
                System.out.println("error " + e.getClass().getSimpleName() + " " + e.getMessage().replaceAll("\\s+", " "));
            }
        }
    }
}
