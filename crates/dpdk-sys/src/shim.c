#define _GNU_SOURCE /* fopencookie */
#include <errno.h>
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim.h"

int weft_errno(void)
{
	return rte_errno;
}

int weft_log_to(ssize_t (*write)(void *, const char *, size_t))
{
	FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = write });

	if (stream == NULL)
		return -1;
	setvbuf(stream, NULL, _IOLBF, BUFSIZ);
	return rte_openlog_stream(stream);
}

/* AF_XDP's libraries, if a driver has loaded them, print to standard error. */
void weft_quiet_xdp(void)
{
	static const char *const setters[][2] = {
		{ "libxdp.so.1", "libxdp_set_print" },
		{ "libbpf.so.1", "libbpf_set_print" },
	};

	for (size_t i = 0; i < RTE_DIM(setters); i++) {
		void *library = dlopen(setters[i][0], RTLD_NOLOAD | RTLD_NOW);
		void *(*set_print)(void *);

		if (library == NULL)
			continue;
		set_print = (void *(*)(void *))dlsym(library, setters[i][1]);
		if (set_print != NULL)
			set_print(NULL);
		dlclose(library);
	}
}

static unsigned int truncations;
static struct sigaction before_truncation;

/* Memory that another process has shared with us ends where that process says, at
 * any time. A page that is gone becomes an empty one of our own. */
static void replace_page(int signal, siginfo_t *info, void *context)
{
	uintptr_t size = 4096, page = (uintptr_t)info->si_addr & ~(size - 1);
	int saved = errno;

	if (info->si_code == BUS_ADRERR &&
	    mmap((void *)page, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (void *)page) {
		__atomic_add_fetch(&truncations, 1, __ATOMIC_RELAXED);
		errno = saved;
		return;
	}
	/* It comes again, and finds what was there before us. */
	sigaction(signal, &before_truncation, NULL);
	(void)context;
}

int weft_contain_truncation(void)
{
	struct sigaction action = { .sa_sigaction = replace_page, .sa_flags = SA_SIGINFO | SA_NODEFER };

	return sigaction(SIGBUS, &action, &before_truncation);
}

unsigned int weft_truncations(void)
{
	return __atomic_load_n(&truncations, __ATOMIC_RELAXED);
}

/* DPDK would give a thread that it knows a second number and lose the first. */
int weft_thread_register(void)
{
	if (rte_lcore_id() != LCORE_ID_ANY)
		return -1;
	return rte_thread_register();
}

static void flush_cache(struct rte_mempool *pool, void *unused)
{
	(void)unused;
	rte_mempool_cache_flush(rte_mempool_default_cache(pool, rte_lcore_id()), pool);
}

/* DPDK would leave what the thread has cached to the next of its number. */
void weft_thread_unregister(void)
{
	rte_mempool_walk(flush_cache, NULL);
	rte_thread_unregister();
}

uint16_t weft_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count)
{
	return rte_eth_rx_burst(port, queue, packets, count);
}

uint16_t weft_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, packets, count);
}

struct rte_mbuf *weft_mbuf_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

int weft_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **packets, unsigned int count)
{
	return rte_pktmbuf_alloc_bulk(pool, packets, count);
}

void weft_mbuf_free(struct rte_mbuf *packet)
{
	rte_pktmbuf_free(packet);
}

unsigned int weft_ring_enqueue_burst(struct rte_ring *ring, void *const *objects, unsigned int count)
{
	return rte_ring_enqueue_burst(ring, objects, count, NULL);
}

unsigned int weft_ring_dequeue_burst(struct rte_ring *ring, void **objects, unsigned int count)
{
	return rte_ring_dequeue_burst(ring, objects, count, NULL);
}

unsigned int weft_ring_count(const struct rte_ring *ring)
{
	return rte_ring_count(ring);
}
