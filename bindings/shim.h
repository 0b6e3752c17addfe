/*
 * Functions for what DPDK's headers have only as inline functions or as structs whose layout
 * differs between releases. No logic: each does what the call it is named after does.
 */
#ifndef DPDK_SHIM_H
#define DPDK_SHIM_H

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;
struct rte_mempool;
struct rte_ring;

/* Layout of struct rte_mbuf (DPDK 22.11, 64-bit, IOVA as PA): asserted against DPDK's own struct in
 * shim.c and against the Rust struct in src/mbuf.rs. */
#define MBUF_SIZE 128
#define MBUF_OFFSET_BUF_ADDR 0
#define MBUF_OFFSET_DATA_OFF 16
#define MBUF_OFFSET_REFCNT 18
#define MBUF_OFFSET_NB_SEGS 20
#define MBUF_OFFSET_PORT 22
#define MBUF_OFFSET_OL_FLAGS 24
#define MBUF_OFFSET_PACKET_TYPE 32
#define MBUF_OFFSET_PKT_LEN 36
#define MBUF_OFFSET_DATA_LEN 40
#define MBUF_OFFSET_VLAN_TCI 42
#define MBUF_OFFSET_RSS 44
#define MBUF_OFFSET_BUF_LEN 54
#define MBUF_OFFSET_POOL 56
#define MBUF_OFFSET_NEXT 64
#define MBUF_OFFSET_TX_OFFLOAD 72
#define MBUF_OFFSET_PRIV_SIZE 88
/* Bit widths inside tx_offload, from bit 0 on. */
#define MBUF_BITS_L2_LEN 7
#define MBUF_BITS_L3_LEN 9
#define MBUF_BITS_L4_LEN 8
#define MBUF_BITS_TSO_SEGSZ 16
#define MBUF_BITS_OUTER_L3_LEN 9
#define MBUF_BITS_OUTER_L2_LEN 7

/* struct rte_eth_link is a bit field in 22.11 and a union from 24.11 on. */
struct shim_link {
	uint32_t speed_mbps;
	bool full_duplex;
	bool autoneg;
	bool up;
};

int shim_errno(void);
uint32_t shim_lcore_id(void);
uint64_t shim_rdtsc(void);

uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t shim_tx_prepare(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
int shim_tx_descriptor_status(uint16_t port, uint16_t queue, uint16_t offset);
/* -ENOTSUP when built against a DPDK older than 24.03. */
int shim_tx_queue_count(uint16_t port, uint16_t queue);
/* Puts a function into a started port's table; stopping the port takes it out. */
void shim_set_tx_descriptor_status(uint16_t port, int (*answer)(void *queue, uint16_t offset));
int shim_link_get_nowait(uint16_t port, struct shim_link *link);

struct rte_mbuf *shim_mbuf_alloc(struct rte_mempool *pool);
int shim_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n);
void shim_mbuf_free(struct rte_mbuf *mbuf);
void shim_mbuf_free_bulk(struct rte_mbuf **mbufs, unsigned int n);
void shim_mbuf_free_seg(struct rte_mbuf *segment);
void shim_mbuf_raw_free(struct rte_mbuf *mbuf);
int shim_mbuf_linearize(struct rte_mbuf *mbuf);
uint16_t shim_mbuf_data_room(struct rte_mempool *pool);
uint32_t shim_mempool_size(const struct rte_mempool *pool);

unsigned int shim_ring_enqueue_burst(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned int n);
unsigned int shim_ring_dequeue_burst(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned int n);
unsigned int shim_ring_count(const struct rte_ring *ring);
unsigned int shim_ring_capacity(const struct rte_ring *ring);

#endif
