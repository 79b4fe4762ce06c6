// What both floors share: the listener and the answer.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Every read is answered with this, whatever was asked.
static const char answer[] = "VALUE id 0 19\r\n1234567890123456789\r\nEND\r\n";
enum { ANSWER = sizeof answer - 1 };

static void check(long result, const char *what) {
	if (result < 0) {
		perror(what);
		exit(1);
	}
}

// listener listens on 127.0.0.1 and the port that the command line gives.
static int listener(int argc, char **argv, int flags) {
	if (argc != 2) {
		fprintf(stderr, "usage: %s PORT\n", argv[0]);
		exit(2);
	}
	int fd = socket(AF_INET, SOCK_STREAM | flags, 0), on = 1;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	check(fd, "socket");
	check(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), "SO_REUSEADDR");
	check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY"); // accepted sockets inherit it
	check(bind(fd, (struct sockaddr *)&at, sizeof at), "bind");
	check(listen(fd, 4096), "listen");
	return fd;
}
