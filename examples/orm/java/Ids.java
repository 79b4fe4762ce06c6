import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** Ids from katsubushi for models, over HTTP (the daemon's -http-port). */
final class Ids {
    /** No daemon has an id now: try again later. */
    static final class NoId extends RuntimeException {
        NoId(List<String> why) {
            super("no id: " + String.join("; ", why));
        }
    }

    // The second daemon is asked if the first has no ids.
    private static final String[] DAEMONS = System.getenv().getOrDefault("IDS_HTTP", "127.0.0.1:8081").split(",");
    // It has a pool of connections, which threads share.
    private static final HttpClient HTTP =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(1)).build();

    /** n ids, 1 to 1,000, with one request. A name that the daemons do not declare gets plain ids. Ids have 63 bits: a long is never negative. */
    static List<Long> take(int n, String name) {
        List<String> why = new ArrayList<>();
        for (String daemon : DAEMONS) {
            URI uri = URI.create("http://" + daemon + "/ids/" + name + "?n=" + n);
            try {
                var answer = HTTP.send(HttpRequest.newBuilder(uri).timeout(Duration.ofSeconds(2)).build(), BodyHandlers.ofString());
                if (answer.statusCode() == 200) {
                    return answer.body().lines().map(Long::valueOf).collect(Collectors.toList());
                }
                why.add(daemon + ": " + answer.body().strip());
            } catch (ConnectException e) { // has no text
                why.add(daemon + ": connection refused");
            } catch (IOException e) {
                why.add(daemon + ": " + e.getMessage());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                why.add(daemon + ": interrupted");
            }
        }
        throw new NoId(why);
    }
}
