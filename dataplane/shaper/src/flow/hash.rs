//! Keyed hashes of flows and hosts: SipHash-1-3 (Aumasson, Bernstein 2012) over a [`FlowKey`].
//!
//! Who can choose packets must not be able to choose queues: with a hash that is known, or that is
//! linear like CRC and Toeplitz, an attacker computes offline the ports that fall into his victim's
//! queue, or that fill all queues of a set. SipHash is a pseudorandom function of its 128-bit secret:
//! without it, and without a view of the queue numbers, nothing better than guessing is known. One
//! round per word and three at the end are what hash tables use (Rust's own, Linux's), where the
//! output is not shown either; the full 2-4 would double the cost.
//!
//! It costs 9 ns for an IPv4 flow and 11 ns for both of its hosts, which is why they are asked for
//! separately (AMD EPYC Zen 4, 2.6 GHz; `examples/dissect_bench.rs`).
//!
//! What an attacker can do with any hash is to open many flows; host isolation answers that.
//!
//! The flow hash is symmetric: endpoints are put in order first, so that both directions of a
//! connection hash alike, without the collisions that adding or XORing the two would bring. Where a
//! flow label or a security association tells flows apart, each direction has its own and they differ.
//!
//! Messages are whole words with the length in the last byte as SipHash demands, so that the result is
//! that of the plain algorithm on a byte string, and no padding is hashed: five rounds for an IPv4
//! flow, four for an IPv4 host, eight for an IPv6 flow, two more inside a VLAN or tunnel.

use super::key::{Family, FlowKey};
use crate::wire::link::Scope;

/// Hashes with one secret. Copy it to where it is used: 40 bytes.
#[derive(Clone, Copy)]
pub struct FlowHasher {
    start: Sip<1, 3>,
}

/// Without the secret.
impl core::fmt::Debug for FlowHasher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FlowHasher").finish_non_exhaustive()
    }
}

impl FlowHasher {
    /// A hasher with a secret of 16 random bytes. A known secret gives up all protection.
    pub const fn new(secret: [u8; 16]) -> Self {
        Self { start: Sip::new(u128::from_le_bytes(secret)) }
    }

    /// Hash of the flow, the same for both directions. Uniform over all 32 bits.
    #[inline]
    pub fn flow(&self, key: &FlowKey) -> u32 {
        let tag = key.family as u64 | (key.kind as u64) << 2;
        match key.family {
            Family::V6 => self.wide_flow(key, tag),
            Family::V4 => self.narrow_flow(key, tag, 16),
            Family::Mac => self.narrow_flow(key, tag, 0),
        }
    }

    /// Hashes of source and destination host. An address has one hash, on whichever side it stands.
    #[inline]
    pub fn hosts(&self, key: &FlowKey) -> (u32, u32) {
        let tag = HOST | key.family as u64;
        match key.family {
            Family::V6 => {
                (self.wide_host(key.source, key.scope, tag), self.wide_host(key.destination, key.scope, tag))
            }
            Family::V4 | Family::Mac => (
                self.narrow_host(key.source as u64, key.scope, tag),
                self.narrow_host(key.destination as u64, key.scope, tag),
            ),
        }
    }

    /// Two endpoints of 48 bits: IPv4 address and port (`shift` 16), or a MAC address (0).
    #[inline(always)]
    fn narrow_flow(&self, key: &FlowKey, tag: u64, shift: u32) -> u32 {
        let source = (key.source as u64) << shift | u64::from(key.source_port);
        let destination = (key.destination as u64) << shift | u64::from(key.destination_port);
        let low = source.min(destination) | u64::from(key.id & 0xffff);
        let high = source.max(destination) | u64::from(key.id >> 16);
        let protocol = u64::from(key.ethertype | u16::from(key.protocol));
        self.scoped(key.scope).word(low | protocol << 48).finish(high | tag << 48) as u32
    }

    #[inline]
    fn wide_flow(&self, key: &FlowKey, tag: u64) -> u32 {
        let source = (key.source, key.source_port);
        let destination = (key.destination, key.destination_port);
        let swap = source > destination;
        let (low, high) = if swap { (destination, source) } else { (source, destination) };
        let ports = u64::from(low.1) << 16 | u64::from(high.1) | u64::from(key.id);
        let last = ports | u64::from(key.protocol) << 32 | tag << 48;
        self.scoped(key.scope).wide(low.0).wide(high.0).finish(last) as u32
    }

    #[inline(always)]
    fn narrow_host(&self, address: u64, scope: Scope, tag: u64) -> u32 {
        self.scoped(scope).finish(address | tag << 48) as u32
    }

    #[inline(always)]
    fn wide_host(&self, address: u128, scope: Scope, tag: u64) -> u32 {
        self.scoped(scope).wide(address).finish(tag << 48) as u32
    }

    /// The state after the scope: nothing for the global one, else two words.
    #[inline(always)]
    fn scoped(&self, scope: Scope) -> Sip<1, 3> {
        if scope.is_global() {
            return self.start;
        }
        let [links, tunnels] = scope.words();
        self.start.word(links).word(tunnels)
    }
}

/// SipHash with `C` rounds per word and `D` at the end, over whole words and a tail of seven bytes.
#[derive(Clone, Copy)]
struct Sip<const C: usize, const D: usize> {
    v: [u64; 4],
    len: u64,
}

impl<const C: usize, const D: usize> Sip<C, D> {
    const fn new(key: u128) -> Self {
        let (k0, k1) = (key as u64, (key >> 64) as u64);
        let v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        Self { v, len: 0 }
    }

    #[inline(always)]
    fn word(mut self, word: u64) -> Self {
        self.len += 8;
        self.compress(word)
    }

    #[inline(always)]
    fn wide(self, words: u128) -> Self {
        self.word((words >> 64) as u64).word(words as u64)
    }

    /// Ends the message with the lower seven bytes of `tail`; the upper one must be 0.
    #[inline(always)]
    fn finish(self, tail: u64) -> u64 {
        let mut end = self.compress(tail | (self.len + 7) << 56);
        end.v[2] ^= 0xff;
        end.rounds::<D>();
        end.v[0] ^ end.v[1] ^ end.v[2] ^ end.v[3]
    }

    #[inline(always)]
    fn compress(mut self, word: u64) -> Self {
        self.v[3] ^= word;
        self.rounds::<C>();
        self.v[0] ^= word;
        self
    }

    #[inline(always)]
    fn rounds<const N: usize>(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.v;
        for _ in 0..N {
            a = a.wrapping_add(b);
            c = c.wrapping_add(d);
            b = b.rotate_left(13) ^ a;
            d = d.rotate_left(16) ^ c;
            a = a.rotate_left(32).wrapping_add(d);
            c = c.wrapping_add(b);
            d = d.rotate_left(21) ^ a;
            b = b.rotate_left(17) ^ c;
            c = c.rotate_left(32);
        }
        self.v = [a, b, c, d];
    }
}

/// Sets host hashes apart from flow hashes of the same length. The bits below are the family (two)
/// and, for flows, the kind (three).
const HOST: u64 = 1 << 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::key::Kind;
    use std::collections::BTreeMap;
    use std::hash::{DefaultHasher, Hasher};
    use std::vec;
    use std::vec::Vec;

    fn sip<const C: usize, const D: usize>(key: u128, message: &[u8]) -> u64 {
        let (words, tail) = message.as_chunks::<8>();
        let mut bytes = [0; 8];
        bytes[..7].copy_from_slice(tail);
        words
            .iter()
            .fold(Sip::<C, D>::new(key), |sip, &word| sip.word(u64::from_le_bytes(word)))
            .finish(u64::from_le_bytes(bytes))
    }

    #[test]
    fn the_vector_of_the_siphash_paper() {
        let bytes: Vec<u8> = (0..16).collect();
        let key = u128::from_le_bytes(bytes[..].try_into().unwrap());
        assert_eq!(sip::<2, 4>(key, &bytes[..15]), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn one_and_three_rounds_agree_with_the_standard_library() {
        let bytes: Vec<u8> = (1..=71).map(|i: u8| i.wrapping_mul(151)).collect();
        for len in [7, 15, 23, 31, 39, 47, 55, 63, 71] {
            let mut reference = DefaultHasher::new();
            reference.write(&bytes[..len]);
            assert_eq!(sip::<1, 3>(0, &bytes[..len]), reference.finish(), "{len} bytes");
        }
    }

    const EVERY_KIND: [Kind; 5] = [Kind::None, Kind::Ports, Kind::FlowLabel, Kind::Spi, Kind::IcmpId];

    /// Keys that differ from one another in one bit of one field that matters to their family and kind.
    fn neighbours(family: Family, kind: Kind) -> Vec<FlowKey> {
        let key = FlowKey { source: 0x0a00_0001, destination: 0x0a00_0002, family, kind, ..FlowKey::EMPTY };
        let address_bits = match family {
            Family::Mac => 48,
            Family::V4 => 32,
            Family::V6 => 128,
        };
        let mut keys = vec![key, FlowKey { scope: key.scope.vlan(1), ..key }];
        keys.push(FlowKey { scope: key.scope.tunnel(None), ..key });
        for bit in 0..address_bits {
            keys.push(FlowKey { source: key.source ^ 1 << bit, ..key });
            keys.push(FlowKey { destination: key.destination ^ 1 << bit, ..key });
        }
        match (family, kind) {
            (Family::Mac, _) => keys.extend((0..16).map(|bit| FlowKey { ethertype: 1 << bit, ..key })),
            (_, Kind::None) => {}
            (_, Kind::Ports) => {
                keys.extend((0..16).map(|bit| FlowKey { source_port: 1 << bit, ..key }));
                keys.extend((0..16).map(|bit| FlowKey { destination_port: 1 << bit, ..key }));
            }
            _ => keys.extend((0..32).map(|bit| FlowKey { id: 1 << bit, ..key })),
        }
        if family != Family::Mac {
            keys.extend((0..8).map(|bit| FlowKey { protocol: 1 << bit, ..key }));
        }
        keys
    }

    #[test]
    fn every_bit_of_a_key_makes_another_flow() {
        let hasher = FlowHasher::new([9; 16]);
        let v4 = EVERY_KIND.iter().flat_map(|&kind| neighbours(Family::V4, kind));
        let v6 = EVERY_KIND.iter().flat_map(|&kind| neighbours(Family::V6, kind));
        let keys: Vec<FlowKey> = v4.chain(v6).chain(neighbours(Family::Mac, Kind::None)).collect();
        let mut seen = BTreeMap::new();
        for key in &keys {
            let other = seen.insert(hasher.flow(key), *key);
            assert!(other.is_none_or(|other| other == reversed(key)), "{key:?} and {other:?}");
        }
        assert!(seen.len() > 2000);
    }

    fn reversed(key: &FlowKey) -> FlowKey {
        FlowKey { source: key.destination, destination: key.source, ..*key }
    }

    #[test]
    fn a_host_is_an_address_in_its_family_and_scope_and_nothing_else() {
        let hasher = FlowHasher::new([9; 16]);
        for family in [Family::Mac, Family::V4, Family::V6] {
            for key in neighbours(family, Kind::Ports) {
                let base = neighbours(family, Kind::None)[0];
                let (is, was) = (hasher.hosts(&key), hasher.hosts(&base));
                let same_scope = key.scope == base.scope;
                assert_eq!(is.0 == was.0, same_scope && key.source == base.source, "{key:?}");
                assert_eq!(is.1 == was.1, same_scope && key.destination == base.destination, "{key:?}");
                assert_ne!(is.0, hasher.flow(&key));
            }
        }
        let hosts = |family| hasher.hosts(&FlowKey { source: 1, destination: 2, family, ..FlowKey::EMPTY });
        assert_ne!(hosts(Family::Mac), hosts(Family::V4));
        assert_ne!(hosts(Family::V4), hosts(Family::V6));
    }

    /// Messages of equal length and equal words but for the tag.
    #[test]
    fn kinds_of_message_are_kept_apart() {
        let hasher = FlowHasher::new([9; 16]);
        let scope = Scope::GLOBAL.vlan(1).tunnel(Some(2));
        let words = u128::from(scope.words()[0]) << 64 | u128::from(scope.words()[1]);
        let wide = FlowKey { source: words, destination: 5 << 100, family: Family::V6, ..FlowKey::EMPTY };
        let narrow = FlowKey { scope, family: Family::V4, ..FlowKey::EMPTY };
        assert_ne!(hasher.hosts(&wide).0, hasher.hosts(&narrow).0);
        let host = FlowKey { source: wide.destination, scope, family: Family::V6, ..FlowKey::EMPTY };
        assert!(wide.source < wide.destination);
        assert_ne!(hasher.flow(&wide), hasher.hosts(&host).0);
    }

    #[test]
    fn another_secret_is_another_function() {
        let key = neighbours(Family::V4, Kind::Ports)[0];
        for bit in 0..128 {
            let secret = (1u128 << bit).to_le_bytes();
            assert_ne!(FlowHasher::new(secret).flow(&key), FlowHasher::new([0; 16]).flow(&key));
        }
    }
}
