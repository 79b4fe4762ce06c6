/* hiredis, whose version in Debian speaks RESP2 alone. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

static redisContext *client;

static redisReply *checked(redisReply *reply, int type)
{
	if (reply == NULL || reply->type != type) {
		fprintf(stderr, "%s\n", reply == NULL ? client->errstr : reply->str != NULL ? reply->str : "another type");
		exit(1);
	}
	return reply;
}

static void get(void)
{
	redisReply *reply = checked(redisCommand(client, "GET %s", "id"), REDIS_REPLY_STRING);
	printf("get %s\n", reply->str);
	freeReplyObject(reply);
}

int main(int argc, char **argv)
{
	client = redisConnect(argv[1], atoi(argv[2]));
	if (client == NULL || client->err)
		return 1;
	for (int i = 0; i < 5; i++)
		get();
	redisReply *reply = checked(redisCommand(client, "MGET a b c"), REDIS_REPLY_ARRAY);
	printf("multi");
	for (size_t i = 0; i < reply->elements; i++)
		printf(" %s", checked(reply->element[i], REDIS_REPLY_STRING)->str);
	printf("\n");
	freeReplyObject(reply);
	reply = checked(redisCommand(client, "INCR orders"), REDIS_REPLY_INTEGER);
	printf("incr %lld\n", reply->integer);
	freeReplyObject(reply);
	reply = checked(redisCommand(client, "INCRBY orders %d", 10), REDIS_REPLY_INTEGER);
	printf("incrby %lld 10\n", reply->integer);
	freeReplyObject(reply);
	for (int i = 0; i < 3; i++) /* a pipeline */
		redisAppendCommand(client, "INCR orders");
	for (int i = 0; i < 3; i++) {
		void *next;
		if (redisGetReply(client, &next) != REDIS_OK)
			return 1;
		printf("incr %lld\n", checked(next, REDIS_REPLY_INTEGER)->integer);
		freeReplyObject(next);
	}
	freeReplyObject(checked(redisCommand(client, "MULTI"), REDIS_REPLY_STATUS));
	freeReplyObject(checked(redisCommand(client, "GET id"), REDIS_REPLY_STATUS));
	freeReplyObject(checked(redisCommand(client, "INCR orders"), REDIS_REPLY_STATUS));
	reply = checked(redisCommand(client, "EXEC"), REDIS_REPLY_ARRAY);
	printf("exec %s %lld\n", reply->element[0]->str, reply->element[1]->integer);
	freeReplyObject(reply);
	get();
	redisFree(client);
	return 0;
}
