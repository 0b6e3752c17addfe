/* What bindgen reads: DPDK's headers, the shim, and the constants that DPDK has only as macros. */
#include <stdio.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_version.h>
#ifdef WITH_VHOST
#include <rte_eth_vhost.h>
#include <rte_vhost.h>
#endif

#ifdef WITH_GSO
#include <rte_gso.h>
#endif

#include "shim.h"

static const uint32_t SHIM_MAX_ETHPORTS = RTE_MAX_ETHPORTS;
static const uint32_t SHIM_MAX_LCORE = RTE_MAX_LCORE;
static const uint32_t SHIM_LCORE_ID_ANY = LCORE_ID_ANY;
static const int32_t SHIM_SOCKET_ID_ANY = SOCKET_ID_ANY;
static const uint32_t SHIM_NAME_MAX = RTE_ETH_NAME_MAX_LEN;
static const uint32_t SHIM_MEMPOOL_NAME_MAX = RTE_MEMPOOL_NAMESIZE;
static const uint32_t SHIM_MEMPOOL_CACHE_MAX = RTE_MEMPOOL_CACHE_MAX_SIZE;
static const uint16_t SHIM_PKTMBUF_HEADROOM = RTE_PKTMBUF_HEADROOM;
static const uint32_t SHIM_SPEED_UNKNOWN = RTE_ETH_SPEED_NUM_UNKNOWN;
static const uint32_t SHIM_LCORE_WAIT = WAIT;
static const uint32_t SHIM_DEV_INTR_RMV = RTE_ETH_DEV_INTR_RMV;
static const uint32_t SHIM_TX_DESC_FULL = RTE_ETH_TX_DESC_FULL;
static const uint32_t SHIM_TX_DESC_DONE = RTE_ETH_TX_DESC_DONE;

static const uint64_t SHIM_RX_VLAN_STRIP = RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
static const uint64_t SHIM_RX_IPV4_CKSUM = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
static const uint64_t SHIM_RX_UDP_CKSUM = RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
static const uint64_t SHIM_RX_TCP_CKSUM = RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
static const uint64_t SHIM_RX_TCP_LRO = RTE_ETH_RX_OFFLOAD_TCP_LRO;
static const uint64_t SHIM_RX_VLAN_FILTER = RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
static const uint64_t SHIM_RX_SCATTER = RTE_ETH_RX_OFFLOAD_SCATTER;
static const uint64_t SHIM_RX_TIMESTAMP = RTE_ETH_RX_OFFLOAD_TIMESTAMP;
static const uint64_t SHIM_RX_RSS_HASH = RTE_ETH_RX_OFFLOAD_RSS_HASH;

static const uint64_t SHIM_TX_VLAN_INSERT = RTE_ETH_TX_OFFLOAD_VLAN_INSERT;
static const uint64_t SHIM_TX_IPV4_CKSUM = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
static const uint64_t SHIM_TX_UDP_CKSUM = RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
static const uint64_t SHIM_TX_TCP_CKSUM = RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
static const uint64_t SHIM_TX_TCP_TSO = RTE_ETH_TX_OFFLOAD_TCP_TSO;
static const uint64_t SHIM_TX_UDP_TSO = RTE_ETH_TX_OFFLOAD_UDP_TSO;
static const uint64_t SHIM_TX_MULTI_SEGS = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
static const uint64_t SHIM_TX_MBUF_FAST_FREE = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
static const uint64_t SHIM_TX_SEND_ON_TIMESTAMP = RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP;

static const uint64_t SHIM_MBUF_F_RX_VLAN = RTE_MBUF_F_RX_VLAN;
static const uint64_t SHIM_MBUF_F_RX_RSS_HASH = RTE_MBUF_F_RX_RSS_HASH;
static const uint64_t SHIM_MBUF_F_RX_IP_CKSUM_BAD = RTE_MBUF_F_RX_IP_CKSUM_BAD;
static const uint64_t SHIM_MBUF_F_RX_IP_CKSUM_GOOD = RTE_MBUF_F_RX_IP_CKSUM_GOOD;
static const uint64_t SHIM_MBUF_F_RX_L4_CKSUM_BAD = RTE_MBUF_F_RX_L4_CKSUM_BAD;
static const uint64_t SHIM_MBUF_F_RX_L4_CKSUM_GOOD = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
static const uint64_t SHIM_MBUF_F_RX_LRO = RTE_MBUF_F_RX_LRO;
static const uint64_t SHIM_MBUF_F_TX_TCP_SEG = RTE_MBUF_F_TX_TCP_SEG;
static const uint64_t SHIM_MBUF_F_TX_TCP_CKSUM = RTE_MBUF_F_TX_TCP_CKSUM;
static const uint64_t SHIM_MBUF_F_TX_UDP_CKSUM = RTE_MBUF_F_TX_UDP_CKSUM;
static const uint64_t SHIM_MBUF_F_TX_IP_CKSUM = RTE_MBUF_F_TX_IP_CKSUM;
static const uint64_t SHIM_MBUF_F_TX_IPV4 = RTE_MBUF_F_TX_IPV4;
static const uint64_t SHIM_MBUF_F_TX_IPV6 = RTE_MBUF_F_TX_IPV6;
static const uint64_t SHIM_MBUF_F_RX_L4_CKSUM_NONE = RTE_MBUF_F_RX_L4_CKSUM_NONE;
static const uint64_t SHIM_MBUF_F_TX_UDP_SEG = RTE_MBUF_F_TX_UDP_SEG;
static const uint64_t SHIM_MBUF_F_TX_L4_MASK = RTE_MBUF_F_TX_L4_MASK;
static const uint64_t SHIM_MBUF_F_TX_TUNNEL_VXLAN = RTE_MBUF_F_TX_TUNNEL_VXLAN;
static const uint64_t SHIM_MBUF_F_TX_TUNNEL_GRE = RTE_MBUF_F_TX_TUNNEL_GRE;
static const uint64_t SHIM_MBUF_F_TX_TUNNEL_IPIP = RTE_MBUF_F_TX_TUNNEL_IPIP;
static const uint64_t SHIM_MBUF_F_TX_OUTER_IP_CKSUM = RTE_MBUF_F_TX_OUTER_IP_CKSUM;
static const uint64_t SHIM_MBUF_F_TX_OUTER_IPV4 = RTE_MBUF_F_TX_OUTER_IPV4;
static const uint64_t SHIM_MBUF_F_TX_OUTER_IPV6 = RTE_MBUF_F_TX_OUTER_IPV6;
static const uint64_t SHIM_MBUF_F_TX_OFFLOAD_MASK = RTE_MBUF_F_TX_OFFLOAD_MASK;
static const uint64_t SHIM_MBUF_F_INDIRECT = RTE_MBUF_F_INDIRECT;
static const uint64_t SHIM_MBUF_F_EXTERNAL = RTE_MBUF_F_EXTERNAL;
