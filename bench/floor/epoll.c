// The least that a server on epoll can cost: it answers every read with the same bytes and looks at none of them. It is what the daemon's
// epoll engine is measured against to see how much of its cost is its own and how much is the kernel's.
#define _GNU_SOURCE
#include "floor.h"
#include <errno.h>
#include <sys/epoll.h>

enum { EVENTS = 512 };

int main(int argc, char **argv) {
	int ln = listener(argc, argv, SOCK_NONBLOCK), ep = epoll_create1(0);
	struct epoll_event of_listener = {.events = EPOLLIN, .data.fd = ln}, events[EVENTS];
	static char in[64 << 10];
	check(ep, "epoll_create1");
	check(epoll_ctl(ep, EPOLL_CTL_ADD, ln, &of_listener), "epoll_ctl");
	for (;;) {
		int n = epoll_wait(ep, events, EVENTS, -1);
		if (n < 0 && errno != EINTR) check(n, "epoll_wait");
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;
			if (fd == ln) {
				if ((fd = accept4(ln, NULL, NULL, SOCK_NONBLOCK)) < 0) continue;
				struct epoll_event of_client = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fd};
				check(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &of_client), "epoll_ctl");
				continue;
			}
			ssize_t got = recv(fd, in, sizeof in, 0);
			if (got > 0) got = send(fd, answer, ANSWER, MSG_NOSIGNAL);
			if (got == 0 || (got < 0 && errno != EAGAIN)) close(fd);
		}
	}
}
