/* What DPDK keeps inline in its headers, as functions that can be linked. */
#ifndef WEFT_SHIM_H
#define WEFT_SHIM_H

#include <stdio.h>
#include <sys/types.h>

#define ALLOW_EXPERIMENTAL_API
#include <rte_cryptodev.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_eth_ring.h>
#include <rte_flow.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_version.h>

/* Bits that DPDK spells as macros of casts, which bindgen does not read. */
static const uint64_t WEFT_RSS_IP = RTE_ETH_RSS_IP;
static const uint64_t WEFT_RSS_UDP = RTE_ETH_RSS_UDP;
static const uint64_t WEFT_RSS_TCP = RTE_ETH_RSS_TCP;
static const uint64_t WEFT_RSS_SCTP = RTE_ETH_RSS_SCTP;
static const uint64_t WEFT_RSS_GTPU = RTE_ETH_RSS_GTPU;
static const uint64_t WEFT_RSS_ESP = RTE_ETH_RSS_ESP;
static const uint32_t WEFT_DEV_INTR_LSC = RTE_ETH_DEV_INTR_LSC;
static const uint32_t WEFT_DEV_INTR_RMV = RTE_ETH_DEV_INTR_RMV;
static const uint64_t WEFT_TX_UDP_CKSUM = RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
static const uint64_t WEFT_TX_FAST_FREE = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
static const uint64_t WEFT_MBUF_TX_L4_MASK = RTE_MBUF_F_TX_L4_MASK;
static const uint64_t WEFT_MBUF_TX_UDP_CKSUM = RTE_MBUF_F_TX_UDP_CKSUM;
/* A flag of our own, of those that DPDK leaves to programs. */
static const uint64_t WEFT_MBUF_OWES_UDP_CKSUM = RTE_MBUF_F_LAST_FREE;

int weft_errno(void);
int weft_log_to(ssize_t (*write)(void *, const char *, size_t));
void weft_quiet_xdp(void);
int weft_contain_truncation(void);
unsigned int weft_truncations(void);
int weft_thread_register(void);
void weft_thread_unregister(void);
uint16_t weft_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count);
uint16_t weft_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count);
uint16_t weft_tx_prepare(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count);
void weft_mbuf_ask_for_udp_checksum(struct rte_mbuf *packet, uint16_t link_length,
				    uint16_t network_length, int is_ipv4);
struct rte_mbuf *weft_mbuf_alloc(struct rte_mempool *pool);
int weft_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **packets, unsigned int count);
void weft_mbuf_free(struct rte_mbuf *packet);
unsigned int weft_ring_enqueue_burst(struct rte_ring *ring, void *const *objects, unsigned int count);
unsigned int weft_ring_dequeue_burst(struct rte_ring *ring, void **objects, unsigned int count);
unsigned int weft_ring_count(const struct rte_ring *ring);
int weft_crypto_start(uint8_t device, int socket);
int weft_crypto_is_synchronous(uint8_t device);
void *weft_gcm_session(uint8_t device, struct rte_mempool *pool, const uint8_t *key,
		       uint16_t key_length, uint16_t aad_length, int encrypts);
int weft_gcm_process(uint8_t device, void *session, const uint8_t *nonce, const uint8_t *aad,
		     uint8_t *data, uint32_t length, uint8_t *tag);

#endif
