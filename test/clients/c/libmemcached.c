/* libmemcached in C. Usage: libmemcached host port text|binary */
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(memcached_st *client, const char *what, memcached_return_t rc) {
  if (memcached_failed(rc)) {
    fprintf(stderr, "%s: %s\n", what, memcached_strerror(client, rc));
    exit(1);
  }
}

static void get(memcached_st *client) {
  memcached_return_t rc;
  size_t length;
  uint32_t flags;
  char *value = memcached_get(client, "id", 2, &length, &flags, &rc);
  must(client, "get", rc);
  printf("get %.*s\n", (int)length, value);
  free(value);
}

/* get_many prints the values of n keys, and the cas of the last one if asked. */
static void get_many(memcached_st *client, const char *title, const char *const *keys, size_t n, int with_cas) {
  memcached_return_t rc;
  memcached_result_st *result;
  const size_t lengths[] = {strlen(keys[0]), 1, 1};
  uint64_t cas = 0;
  must(client, title, memcached_mget(client, keys, lengths, n));
  printf("%s", title);
  while ((result = memcached_fetch_result(client, NULL, &rc))) {
    printf(" %.*s", (int)memcached_result_length(result), memcached_result_value(result));
    cas = memcached_result_cas(result);
    memcached_result_free(result);
  }
  if (with_cas)
    printf(" %llu", (unsigned long long)cas);
  printf("\n");
}

static void print_stats(memcached_st *client) {
  memcached_return_t rc;
  memcached_stat_st *stats = memcached_stat(client, NULL, &rc);
  must(client, "stats", rc);
  char **names = memcached_stat_get_keys(client, stats, &rc);
  for (char **name = names; *name; name++) {
    char *value = memcached_stat_get_value(client, stats, *name, &rc);
    printf("stat %s %s\n", *name, value);
    free(value);
  }
  free(names);
  memcached_stat_free(client, stats);
}

int main(int argc, char **argv) {
  memcached_st *client = memcached_create(NULL);
  memcached_behavior_set(client, MEMCACHED_BEHAVIOR_BINARY_PROTOCOL, argc > 3 && !strcmp(argv[3], "binary"));
  memcached_behavior_set(client, MEMCACHED_BEHAVIOR_SUPPORT_CAS, 1);
  memcached_server_add(client, argv[1], (in_port_t)atoi(argv[2]));

  for (int i = 0; i < 5; i++)
    get(client);
  get_many(client, "multi", (const char *[]){"a", "b", "c"}, 3, 0);
  get_many(client, "gets", (const char *[]){"id"}, 1, 1);

  must(client, "version", memcached_version(client));
  const memcached_instance_st *server = memcached_server_instance_by_position(client, 0);
  printf("version %d.%d.%d\n", memcached_server_major_version(server), memcached_server_minor_version(server),
         memcached_server_micro_version(server));
  print_stats(client);
  get(client);
  memcached_free(client);
  return 0;
}
