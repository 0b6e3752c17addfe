/* See shim.h. Compiled with DPDK's own flags, so that inline functions are DPDK's own code. */
#include <stddef.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_version.h>

#include "shim.h"

#define AT(field, offset) \
	_Static_assert(offsetof(struct rte_mbuf, field) == (offset), "rte_mbuf." #field " has moved")

_Static_assert(sizeof(struct rte_mbuf) == MBUF_SIZE, "the size of rte_mbuf has changed");
AT(buf_addr, MBUF_OFFSET_BUF_ADDR);
AT(data_off, MBUF_OFFSET_DATA_OFF);
AT(refcnt, MBUF_OFFSET_REFCNT);
AT(nb_segs, MBUF_OFFSET_NB_SEGS);
AT(port, MBUF_OFFSET_PORT);
AT(ol_flags, MBUF_OFFSET_OL_FLAGS);
AT(packet_type, MBUF_OFFSET_PACKET_TYPE);
AT(pkt_len, MBUF_OFFSET_PKT_LEN);
AT(data_len, MBUF_OFFSET_DATA_LEN);
AT(vlan_tci, MBUF_OFFSET_VLAN_TCI);
AT(hash.rss, MBUF_OFFSET_RSS);
AT(buf_len, MBUF_OFFSET_BUF_LEN);
AT(pool, MBUF_OFFSET_POOL);
AT(next, MBUF_OFFSET_NEXT);
AT(tx_offload, MBUF_OFFSET_TX_OFFLOAD);
AT(priv_size, MBUF_OFFSET_PRIV_SIZE);
_Static_assert(RTE_MBUF_L2_LEN_BITS == MBUF_BITS_L2_LEN, "tx_offload.l2_len has changed");
_Static_assert(RTE_MBUF_L3_LEN_BITS == MBUF_BITS_L3_LEN, "tx_offload.l3_len has changed");
_Static_assert(RTE_MBUF_L4_LEN_BITS == MBUF_BITS_L4_LEN, "tx_offload.l4_len has changed");
_Static_assert(RTE_MBUF_TSO_SEGSZ_BITS == MBUF_BITS_TSO_SEGSZ, "tx_offload.tso_segsz has changed");
_Static_assert(RTE_MBUF_OUTL3_LEN_BITS == MBUF_BITS_OUTER_L3_LEN, "tx_offload.outer_l3_len has changed");
_Static_assert(RTE_MBUF_OUTL2_LEN_BITS == MBUF_BITS_OUTER_L2_LEN, "tx_offload.outer_l2_len has changed");

int shim_errno(void)
{
	return rte_errno;
}

uint32_t shim_lcore_id(void)
{
	return rte_lcore_id();
}

uint64_t shim_rdtsc(void)
{
	return rte_rdtsc();
}

uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_rx_burst(port, queue, mbufs, n);
}

uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, mbufs, n);
}

uint16_t shim_tx_prepare(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_tx_prepare(port, queue, mbufs, n);
}

int shim_tx_descriptor_status(uint16_t port, uint16_t queue, uint16_t offset)
{
	return rte_eth_tx_descriptor_status(port, queue, offset);
}

int shim_tx_queue_count(uint16_t port, uint16_t queue)
{
#if RTE_VERSION >= RTE_VERSION_NUM(24, 3, 0, 0)
	return rte_eth_tx_queue_count(port, queue);
#else
	RTE_SET_USED(port);
	RTE_SET_USED(queue);
	return -ENOTSUP;
#endif
}

void shim_set_tx_descriptor_status(uint16_t port, int (*answer)(void *queue, uint16_t offset))
{
	rte_eth_fp_ops[port].tx_descriptor_status = answer;
}

int shim_link_get_nowait(uint16_t port, struct shim_link *out)
{
	struct rte_eth_link link;
	int ret = rte_eth_link_get_nowait(port, &link);

	if (ret != 0)
		return ret;
	out->speed_mbps = link.link_speed;
	out->full_duplex = link.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	out->autoneg = link.link_autoneg == RTE_ETH_LINK_AUTONEG;
	out->up = link.link_status == RTE_ETH_LINK_UP;
	return 0;
}

struct rte_mbuf *shim_mbuf_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

int shim_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n)
{
	return rte_pktmbuf_alloc_bulk(pool, mbufs, n);
}

void shim_mbuf_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

void shim_mbuf_free_bulk(struct rte_mbuf **mbufs, unsigned int n)
{
	rte_pktmbuf_free_bulk(mbufs, n);
}

void shim_mbuf_free_seg(struct rte_mbuf *segment)
{
	rte_pktmbuf_free_seg(segment);
}

void shim_mbuf_raw_free(struct rte_mbuf *mbuf)
{
	rte_mbuf_raw_free(mbuf);
}

int shim_mbuf_linearize(struct rte_mbuf *mbuf)
{
	return rte_pktmbuf_linearize(mbuf);
}

uint16_t shim_mbuf_data_room(struct rte_mempool *pool)
{
	return rte_pktmbuf_data_room_size(pool);
}

uint32_t shim_mempool_size(const struct rte_mempool *pool)
{
	return pool->size;
}

unsigned int shim_ring_enqueue_burst(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned int n)
{
	return rte_ring_enqueue_burst(ring, (void **)mbufs, n, NULL);
}

unsigned int shim_ring_dequeue_burst(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned int n)
{
	return rte_ring_dequeue_burst(ring, (void **)mbufs, n, NULL);
}

unsigned int shim_ring_count(const struct rte_ring *ring)
{
	return rte_ring_count(ring);
}

unsigned int shim_ring_capacity(const struct rte_ring *ring)
{
	return rte_ring_get_capacity(ring);
}
