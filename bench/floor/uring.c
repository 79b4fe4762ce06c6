// The least that a server on io_uring can cost: it answers every receive with the same bytes and looks at none of them. It uses the ring as
// a fast server would: accepting and receiving without asking again, buffers that the kernel picks, registered files, sends that complete
// without a completion, and one system call for each turn.
#define _GNU_SOURCE
#include "floor.h"
#include <errno.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
	ENTRIES = 1024, // of the submission queue; the completion queue has sixteen times as many
	FILES = 16384,  // connections
	BUFFERS = 1024, // for what is received
	BUFFER = 2048,  // bytes of each
	ACCEPT = 1u << 31,
	CLOSE = 1u << 30, // of user_data; the rest of it is the file's number
	SEND = 1u << 29,
};

static int ring;
static unsigned *sq_head, *sq_tail, sq_mask, *cq_head, *cq_tail, cq_mask, tail, submitted;
static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;
static struct io_uring_buf_ring *buffers;
static char *memory;
static unsigned short buffers_tail;

static void *map(size_t size, off_t offset) {
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, offset < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE, offset < 0 ? -1 : ring, offset < 0 ? 0 : offset);
	if (p == MAP_FAILED) check(-1, "mmap");
	return p;
}

static void enter(unsigned wait) {
	__atomic_store_n(sq_tail, tail, __ATOMIC_RELEASE);
	long n = syscall(SYS_io_uring_enter, ring, tail - submitted, wait, IORING_ENTER_GETEVENTS | IORING_ENTER_REGISTERED_RING, NULL, 0);
	if (n < 0 && errno != EINTR) check(n, "io_uring_enter");
	if (n > 0) submitted += n;
}

static struct io_uring_sqe *prepare(int op, int fd, unsigned long long data) {
	if (tail - __atomic_load_n(sq_head, __ATOMIC_ACQUIRE) == ENTRIES) enter(0);
	struct io_uring_sqe *e = &sqes[tail++ & sq_mask];
	memset(e, 0, sizeof *e);
	e->opcode = op, e->fd = fd, e->user_data = data;
	return e;
}

static void do_accept(int ln) {
	struct io_uring_sqe *e = prepare(IORING_OP_ACCEPT, ln, ACCEPT);
	e->ioprio = IORING_ACCEPT_MULTISHOT;
	e->file_index = IORING_FILE_INDEX_ALLOC;
}

static void do_receive(int file) {
	struct io_uring_sqe *e = prepare(IORING_OP_RECV, file, file);
	e->ioprio = IORING_RECV_MULTISHOT;
	e->flags = IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
}

static void do_send(int file) {
	struct io_uring_sqe *e = prepare(IORING_OP_SEND, file, SEND);
	e->addr = (unsigned long)answer, e->len = ANSWER;
	e->msg_flags = MSG_DONTWAIT | MSG_WAITALL | MSG_NOSIGNAL;
	e->flags = IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS;
}

static void do_close(int file) {
	prepare(IORING_OP_CLOSE, 0, CLOSE)->file_index = file + 1;
}

static void give_back(unsigned id) {
	struct io_uring_buf *b = &buffers->bufs[buffers_tail++ & (BUFFERS - 1)];
	b->addr = (unsigned long)(memory + id * (size_t)(BUFFER + 64)), b->len = BUFFER, b->bid = id;
}

static void setup(void) {
	struct io_uring_params p = {
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL,
		.cq_entries = 16 * ENTRIES,
	};
	check(ring = syscall(SYS_io_uring_setup, ENTRIES, &p), "io_uring_setup");
	char *sq = map(p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
	char *cq = map(p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	sqes = map(p.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	sq_head = (unsigned *)(sq + p.sq_off.head), sq_tail = (unsigned *)(sq + p.sq_off.tail), sq_mask = p.sq_entries - 1;
	cq_head = (unsigned *)(cq + p.cq_off.head), cq_tail = (unsigned *)(cq + p.cq_off.tail), cq_mask = p.cq_entries - 1;
	cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	unsigned *array = (unsigned *)(sq + p.sq_off.array);
	for (unsigned i = 0; i < p.sq_entries; i++) array[i] = i;

	buffers = map(BUFFERS * sizeof(struct io_uring_buf), -1);
	memory = map(BUFFERS * (size_t)(BUFFER + 64), -1);
	struct io_uring_buf_reg reg = {.ring_addr = (unsigned long)buffers, .ring_entries = BUFFERS};
	check(syscall(SYS_io_uring_register, ring, IORING_REGISTER_PBUF_RING, &reg, 1), "register buffers");
	for (unsigned i = 0; i < BUFFERS; i++) give_back(i);
	__atomic_store_n(&buffers->tail, buffers_tail, __ATOMIC_RELEASE);

	struct io_uring_rsrc_register files = {.nr = FILES, .flags = IORING_RSRC_REGISTER_SPARSE};
	check(syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES2, &files, sizeof files), "register files");
	struct io_uring_rsrc_update self = {.offset = -1u, .data = ring};
	check(syscall(SYS_io_uring_register, ring, IORING_REGISTER_RING_FDS, &self, 1), "register the ring");
	ring = self.offset;
}

int main(int argc, char **argv) {
	int ln = listener(argc, argv, 0);
	setup();
	do_accept(ln);
	for (;;) {
		enter(1);
		unsigned head = *cq_head, end = __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE);
		for (; head != end; head++) {
			struct io_uring_cqe *c = &cqes[head & cq_mask];
			if (c->user_data == ACCEPT) {
				if (c->res >= 0) do_receive(c->res);
				if (!(c->flags & IORING_CQE_F_MORE)) do_accept(ln);
			} else if (!(c->user_data & (CLOSE | SEND))) {
				int file = c->user_data;
				if (c->flags & IORING_CQE_F_BUFFER) give_back(c->flags >> IORING_CQE_BUFFER_SHIFT);
				if (c->res > 0) do_send(file);
				if (c->res <= 0 && c->res != -ENOBUFS) do_close(file);
				else if (!(c->flags & IORING_CQE_F_MORE)) do_receive(file);
			}
		}
		__atomic_store_n(cq_head, head, __ATOMIC_RELEASE);
		__atomic_store_n(&buffers->tail, buffers_tail, __ATOMIC_RELEASE);
	}
}
