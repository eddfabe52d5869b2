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

/* Puts an empty page of our own in the place of the one with this address. A mapping of
 * huge pages can only be cut at their bounds: the kernel says EINVAL for less, and for
 * nothing else here. */
static int empty_page(uintptr_t address)
{
	static const uintptr_t sizes[] = { 4096, 1UL << 21, 1UL << 30 };

	for (size_t i = 0; i < RTE_DIM(sizes); i++) {
		void *page = (void *)(address & ~(sizes[i] - 1));

		if (mmap(page, sizes[i], PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == page)
			return 0;
		if (errno != EINVAL)
			break;
	}
	return -1;
}

/* Memory that another process has shared with us ends where that process says, at
 * any time. A page that is gone becomes an empty one of our own. */
static void replace_page(int signal, siginfo_t *info, void *context)
{
	int saved = errno;

	if (info->si_code == BUS_ADRERR && empty_page((uintptr_t)info->si_addr) == 0) {
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

uint16_t weft_tx_prepare(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count)
{
	return rte_eth_tx_prepare(port, queue, packets, count);
}

void weft_mbuf_ask_for_udp_checksum(struct rte_mbuf *packet, uint16_t link_length,
				    uint16_t network_length, int is_ipv4)
{
	packet->tx_offload = 0;
	packet->l2_len = link_length;
	packet->l3_len = network_length;
	packet->ol_flags &= ~(WEFT_MBUF_OWES_UDP_CKSUM | RTE_MBUF_F_TX_OFFLOAD_MASK);
	packet->ol_flags |= RTE_MBUF_F_TX_UDP_CKSUM;
	packet->ol_flags |= is_ipv4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6;
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

/* Drivers look at the first queue pair as they schedule a key, though it stays unused. */
int weft_crypto_start(uint8_t device, int socket)
{
	struct rte_cryptodev_config config = { .socket_id = socket, .nb_queue_pairs = 1 };
	const struct rte_cryptodev_qp_conf queue_pair = { .nb_descriptors = 64 };
	int status = rte_cryptodev_configure(device, &config);

	if (status == 0)
		status = rte_cryptodev_queue_pair_setup(device, 0, &queue_pair, socket);
	if (status == 0)
		status = rte_cryptodev_start(device);
	return status;
}

/* Whether the device has AES-GCM and works in the thread that asks. */
int weft_crypto_is_synchronous(uint8_t device)
{
	const struct rte_cryptodev_sym_capability_idx gcm = {
		.type = RTE_CRYPTO_SYM_XFORM_AEAD,
		.algo.aead = RTE_CRYPTO_AEAD_AES_GCM,
	};
	struct rte_cryptodev_info info;

	rte_cryptodev_info_get(device, &info);
	return (info.feature_flags & RTE_CRYPTODEV_FF_SYM_CPU_CRYPTO) != 0 &&
	       rte_cryptodev_sym_capability_get(device, &gcm) != NULL;
}

/* AES-GCM with a nonce of 12 octets and a tag of 16. */
void *weft_gcm_session(uint8_t device, struct rte_mempool *pool, const uint8_t *key,
		       uint16_t key_length, uint16_t aad_length, int encrypts)
{
	struct rte_crypto_sym_xform transform = {
		.type = RTE_CRYPTO_SYM_XFORM_AEAD,
		.aead = {
			.op = encrypts ? RTE_CRYPTO_AEAD_OP_ENCRYPT : RTE_CRYPTO_AEAD_OP_DECRYPT,
			.algo = RTE_CRYPTO_AEAD_AES_GCM,
			.key = { .data = key, .length = key_length },
			.iv = { .offset = 0, .length = 12 },
			.digest_length = 16,
			.aad_length = aad_length,
		},
	};

	return rte_cryptodev_sym_session_create(device, &transform, pool);
}

/* One buffer, in place; 0 when it was done, and the tag was right. */
int weft_gcm_process(uint8_t device, void *session, const uint8_t *nonce, const uint8_t *aad,
		     uint8_t *data, uint32_t length, uint8_t *tag)
{
	struct rte_crypto_vec part = { .base = data, .len = length, .tot_len = length };
	struct rte_crypto_sgl parts = { .vec = &part, .num = 1 };
	struct rte_crypto_va_iova_ptr iv = { .va = (void *)(uintptr_t)nonce };
	struct rte_crypto_va_iova_ptr associated = { .va = (void *)(uintptr_t)aad };
	struct rte_crypto_va_iova_ptr digest = { .va = tag };
	union rte_crypto_sym_ofs offsets = { .raw = 0 };
	int32_t status = -1;
	struct rte_crypto_sym_vec burst = {
		.num = 1,
		.src_sgl = &parts,
		.iv = &iv,
		.digest = &digest,
		.aad = &associated,
		.status = &status,
	};

	if (rte_cryptodev_sym_cpu_crypto_process(device, session, offsets, &burst) != 1)
		return -1;
	return status;
}
