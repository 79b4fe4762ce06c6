/* apr_memcache, the client inside Apache httpd. Usage: apr_memcache host port */
#include <apr_memcache.h>
#include <apr_general.h>
#include <stdio.h>
#include <stdlib.h>

static void must(const char *what, apr_status_t status) {
  if (status != APR_SUCCESS) {
    char text[200];
    fprintf(stderr, "%s: %s\n", what, apr_strerror(status, text, sizeof text));
    exit(1);
  }
}

static void get(apr_memcache_t *client, apr_pool_t *pool) {
  char *value;
  apr_size_t length;
  must("get", apr_memcache_getp(client, pool, "id", &value, &length, NULL));
  printf("get %.*s\n", (int)length, value);
}

int main(int argc, char **argv) {
  apr_pool_t *pool, *scratch; /* multgetp clears its scratch pool */
  apr_memcache_t *client;
  apr_memcache_server_t *server;
  apr_initialize();
  must("pool", apr_pool_create(&pool, NULL));
  must("pool", apr_pool_create(&scratch, pool));
  must("create", apr_memcache_create(pool, 1, 0, &client));
  must("server", apr_memcache_server_create(pool, argv[1], (apr_port_t)atoi(argv[2]), 0, 1, 1, 60, &server));
  must("add", apr_memcache_add_server(client, server));

  for (int i = 0; i < 5; i++)
    get(client, pool);

  apr_hash_t *values = NULL;
  const char *keys[] = {"a", "b", "c"};
  for (int i = 0; i < 3; i++)
    apr_memcache_add_multget_key(pool, keys[i], &values);
  must("multgetp", apr_memcache_multgetp(client, scratch, pool, values));
  printf("multi");
  for (int i = 0; i < 3; i++) {
    apr_memcache_value_t *value = apr_hash_get(values, keys[i], APR_HASH_KEY_STRING);
    must("multgetp", value->status);
    printf(" %.*s", (int)value->len, value->data);
  }
  printf("\n");

  char *version;
  must("version", apr_memcache_version(server, pool, &version));
  printf("version %s\n", version);
  apr_memcache_stats_t *stats;
  must("stats", apr_memcache_stats(server, pool, &stats));
  printf("stat pid %u\nstat uptime %u\nstat version %s\n", stats->pid, stats->uptime, stats->version);
  printf("stat curr_connections %u\nstat cmd_get %u\nstat get_hits %u\n", stats->curr_connections, stats->cmd_get, stats->get_hits);
  get(client, pool);
  apr_terminate();
  return 0;
}
