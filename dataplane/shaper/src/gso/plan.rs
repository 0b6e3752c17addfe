//! Which pieces a super-packet becomes and what stands in their headers.

use super::Refusal;
use super::headers::{Fix, FixKind, Headers};
use crate::packet::Piece;
use crate::wire::checksum::Sum;
use crate::wire::tcp::{CWR, FIN, PSH, RST, SYN, Tcp, URG};
use core::num::NonZeroU16;
use core::ops::Range;

/// How to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// MTU of the port that the pieces leave by in bytes: what may follow Ethernet header and VLAN
    /// tags. TCP segments are made to fit; UDP datagrams have their size.
    pub mtu: u32,
    /// Payload bytes per segment as the super-packet is marked with (`tso_segsz`), 0 if it is not.
    pub gso_size: u16,
    /// What becomes of the innermost IPv4 identification.
    pub ids: Ids,
}

/// IPv4 identification of the segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ids {
    /// Counts up by one.
    #[default]
    Increment,
    /// The same in all. Right only where all had the same, with "don't fragment" (RFC 6864).
    Fixed,
}

/// What the innermost IP header carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP, one datagram a segment.
    Udp,
}

/// The innermost tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tunnel {
    /// There is none.
    #[default]
    None,
    /// VXLAN (RFC 7348).
    Vxlan,
    /// GRE (RFC 2784).
    Gre,
    /// IP in IP: IPIP, 6in4, 4in6.
    Ip,
}

/// Pieces of a super-packet. Made once, read for each piece; borrows the headers.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    head: &'a [u8],
    headers: Headers,
    ids: Ids,
    gso_size: u16,
    /// Segments in all and per piece.
    segs: u16,
    per_piece: u16,
    flags: u8,
    urgent: u16,
    sequence: u32,
    /// Sum over the transport header without what differs from piece to piece, with pseudo header.
    base: u64,
}

/// One piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Its payload in bytes from the start of the super-packet.
    pub payload: Range<u32>,
    /// Length of the frame that it becomes in bytes.
    pub frame_len: u32,
    /// Segments that it holds.
    pub segs: u16,
    /// Payload bytes per segment; 0 if it holds but one.
    pub gso_size: u16,
    /// Bytes of headers that each further segment repeats; 0 if it holds but one.
    pub header_len: u16,
}

/// Who computes the checksum of TCP or UDP. All others are always written in full: those of outer
/// headers follow from it without a look at the payload.
#[derive(Clone, Copy, Debug)]
pub enum Checksums {
    /// It is written in full. The sum is that of the piece's payload ([`Sum::at`] from offset 0 on).
    Software(Sum),
    /// The sum of the pseudo header is written, as `rte_ipv4_phdr_cksum` and `rte_ipv6_phdr_cksum` do:
    /// without the length if the piece holds more than one segment. Also for pieces that will be cut
    /// again.
    Offload,
}

/// What a NIC must be told (`rte_mbuf`) to compute checksums and to cut a piece into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// Tunnel that `outer_l2_len` and `outer_l3_len` belong to.
    pub tunnel: Tunnel,
    /// Length of the outer Ethernet header with its tags in bytes; 0 without a tunnel.
    pub outer_l2_len: u16,
    /// Length of the outer IP header in bytes; 0 without a tunnel.
    pub outer_l3_len: u16,
    /// Length of the Ethernet header with its tags; in a tunnel that of all between outer and inner
    /// IP header.
    pub l2_len: u16,
    /// Length of the inner IP header in bytes.
    pub l3_len: u16,
    /// Length of the TCP or UDP header in bytes.
    pub l4_len: u16,
    /// The transport.
    pub transport: Transport,
    /// Whether the outer IP header is IPv4.
    pub outer_ipv4: bool,
    /// Whether the inner IP header is IPv4; without a tunnel the only one.
    pub ipv4: bool,
    /// Whether the transport has a checksum.
    pub checksum: bool,
    /// Whether segmentation may be left to the NIC too.
    pub segmentation: bool,
}

impl<'a> Plan<'a> {
    /// Plans one segment a piece for the frame of `frame_len` bytes that starts with `head`, which
    /// must hold all headers and may hold more.
    ///
    /// # Errors
    /// Why it cannot be cut. A frame that needs no cutting makes a plan of one piece.
    pub fn new(head: &'a [u8], frame_len: u32, request: &Request) -> Result<Self, Refusal> {
        let headers = Headers::parse(head, frame_len)?;
        if headers.len > MAX_HEADER_LEN {
            return Err(Refusal::HeaderTooLong);
        }
        let head = head.get(..headers.len.into()).ok_or(Refusal::Truncated)?;
        let payload_len = headers.end - u32::from(headers.len);
        let gso_size = segment_size(&headers, payload_len, request)?;
        let segs = payload_len.div_ceil(gso_size.into()).max(1);
        let segs = u16::try_from(segs).map_err(|_| Refusal::TooManySegments)?;
        let mut plan = Self {
            head,
            headers,
            ids: request.ids,
            gso_size,
            segs,
            per_piece: 1,
            flags: 0,
            urgent: 0,
            sequence: 0,
            base: 0,
        };
        plan.read_transport()?;
        Ok(plan)
    }

    /// The same with `per_piece` segments a piece, or as many as 16-bit lengths hold.
    #[must_use]
    pub fn with_segs_per_piece(mut self, per_piece: NonZeroU16) -> Self {
        let room = self.headers.length_room();
        self.per_piece = per_piece.get().min(self.segs);
        if self.payload_len().min(u32::from(self.per_piece) * u32::from(self.gso_size)) > room {
            self.per_piece = ((room / u32::from(self.gso_size)) as u16).max(1);
        }
        self
    }

    /// Number of pieces.
    #[inline]
    pub fn pieces(&self) -> u16 {
        self.segs.div_ceil(self.per_piece)
    }

    /// Length of the headers of each segment in bytes.
    #[inline]
    pub fn header_len(&self) -> u16 {
        self.headers.len
    }

    /// Payload bytes of each segment but the last.
    #[inline]
    pub fn gso_size(&self) -> u16 {
        self.gso_size
    }

    /// Segments in all.
    #[inline]
    pub fn segs(&self) -> u16 {
        self.segs
    }

    /// Payload bytes in all.
    #[inline]
    pub fn payload_len(&self) -> u32 {
        self.headers.end - u32::from(self.headers.len)
    }

    /// The pieces in order.
    #[inline]
    pub fn cuts(&self) -> impl Iterator<Item = Cut> + '_ {
        (0..self.pieces()).filter_map(|index| self.cut(index))
    }

    /// Piece `index`, counted from 0; none behind the last.
    #[inline]
    pub fn cut(&self, index: u16) -> Option<Cut> {
        let (header_len, size) = (u32::from(self.headers.len), u32::from(self.gso_size));
        let first = index.checked_mul(self.per_piece).filter(|first| *first < self.segs)?;
        let segs = (self.segs - first).min(self.per_piece);
        let start = header_len + u32::from(first) * size;
        let end = (start + u32::from(segs) * size).min(self.headers.end);
        let one = segs == 1;
        Some(Cut {
            payload: start..end,
            frame_len: header_len + end - start,
            segs,
            gso_size: if one { 0 } else { self.gso_size },
            header_len: if one { 0 } else { self.headers.len },
        })
    }

    /// Writes the headers of piece `index` to the start of `out` and returns their length; none if
    /// there is no such piece or `out` is shorter.
    #[inline]
    pub fn write(&self, index: u16, checksums: Checksums, out: &mut [u8]) -> Option<u16> {
        let cut = self.cut(index)?;
        let out = out.get_mut(..self.head.len())?;
        out.copy_from_slice(self.head);
        let tail = match self.headers.transport {
            Transport::Tcp => self.write_tcp(index, &cut, checksums, out),
            Transport::Udp => self.write_udp(&cut, checksums, out),
        };
        self.write_around(index, &cut, tail, out);
        Some(self.headers.len)
    }

    /// What to tell a NIC; none where headers are such that none can be trusted with them.
    pub fn offload(&self) -> Option<Offload> {
        let h = &self.headers;
        let (inner, outer) = match h.fixes() {
            [inner] => (inner, inner),
            [outer, .., inner] => (inner, outer),
            [] => return None,
        };
        let tunnelled = h.tunnel != Tunnel::None;
        let outer_len = if outer.kind == FixKind::Ipv4 { self.ipv4_len(outer) } else { 40 };
        h.offloadable.then_some(Offload {
            tunnel: h.tunnel,
            outer_l2_len: if tunnelled { h.outer_at } else { 0 },
            outer_l3_len: if tunnelled { outer_len } else { 0 },
            l2_len: if tunnelled {
                (h.network_at - h.outer_at).saturating_sub(outer_len)
            } else {
                h.network_at
            },
            l3_len: h.transport_at - h.network_at,
            l4_len: h.len - h.transport_at,
            transport: h.transport,
            outer_ipv4: tunnelled && outer.kind == FixKind::Ipv4,
            ipv4: inner.kind == FixKind::Ipv4,
            checksum: h.summed,
            segmentation: h.summed && self.ids == Ids::Increment && self.flags & URG == 0,
        })
    }

    fn ipv4_len(&self, fix: &Fix) -> u16 {
        u16::from(self.head.get(usize::from(fix.at)).copied().unwrap_or_default() & 15) * 4
    }

    fn transport(&self) -> &'a [u8] {
        self.head.get(self.headers.transport_at.into()..).unwrap_or_default()
    }

    fn read_transport(&mut self) -> Result<(), Refusal> {
        let header = self.transport();
        let pseudo = u64::from(self.headers.pseudo);
        if self.headers.transport == Transport::Udp {
            self.base = Sum::default().bytes(header.get(..4).unwrap_or_default()).plus(pseudo).fold().into();
            return Ok(());
        }
        let tcp = Tcp::parse(header)?;
        (self.sequence, self.flags, self.urgent) = (tcp.sequence(), tcp.flags(), tcp.urgent());
        if self.segs > 1 && self.flags & (SYN | RST) != 0 {
            return Err(Refusal::Flags);
        }
        if self.segs > 1 && self.headers.signed {
            return Err(Refusal::Signed);
        }
        let mut sum = Sum::default().plus(pseudo);
        for (from, to) in [(0, 4), (8, 13), (14, 16), (20, header.len())] {
            sum = sum.bytes(header.get(from..to).unwrap_or_default());
        }
        self.base = sum.fold().into();
        Ok(())
    }

    /// Returns the sum over TCP header and payload, checksum included.
    #[inline]
    fn write_tcp(&self, index: u16, cut: &Cut, checksums: Checksums, out: &mut [u8]) -> u16 {
        let h = &self.headers;
        let offset = cut.payload.start - u32::from(h.len);
        let sequence = self.sequence.wrapping_add(offset);
        let mut flags = self.flags;
        if index != 0 {
            flags &= !CWR;
        }
        if cut.payload.end != h.end {
            flags &= !(FIN | PSH);
        }
        let mut urgent = self.urgent;
        if flags & URG != 0 && offset != 0 {
            urgent = u32::from(urgent).saturating_sub(offset) as u16;
            if urgent == 0 {
                flags &= !URG;
            }
        }
        let len = (h.len - h.transport_at).wrapping_add((cut.payload.end - cut.payload.start) as u16);
        let words = u64::from(sequence) + u64::from(flags) + u64::from(urgent);
        let checksum = self.checksum(cut, checksums, len, words);
        if let Some(tcp) = fixed_mut::<20>(out, h.transport_at) {
            [tcp[4], tcp[5], tcp[6], tcp[7]] = sequence.to_be_bytes();
            tcp[13] = flags;
            [tcp[16], tcp[17]] = checksum.to_be_bytes();
            [tcp[18], tcp[19]] = urgent.to_be_bytes();
        }
        self.tail(len)
    }

    /// Returns the sum over UDP header and payload, checksum included.
    #[inline]
    fn write_udp(&self, cut: &Cut, checksums: Checksums, out: &mut [u8]) -> u16 {
        let h = &self.headers;
        let len = (cut.frame_len - u32::from(h.transport_at)) as u16;
        let checksum = match (self.checksum(cut, checksums, len, len.into()), checksums) {
            _ if !h.summed => 0,
            (0, Checksums::Software(_)) => 0xffff,
            (checksum, _) => checksum,
        };
        if let Some(udp) = fixed_mut::<8>(out, h.transport_at) {
            [udp[4], udp[5]] = len.to_be_bytes();
            [udp[6], udp[7]] = checksum.to_be_bytes();
        }
        self.tail(len)
    }

    /// What to write in the checksum field, `words` being the sum of what is not in the base.
    #[inline]
    fn checksum(&self, cut: &Cut, checksums: Checksums, len: u16, words: u64) -> u16 {
        match checksums {
            Checksums::Software(payload) => payload.plus(self.base).plus(words).word(len).checksum(),
            Checksums::Offload if cut.segs > 1 => Sum::default().plus(self.headers.pseudo.into()).fold(),
            Checksums::Offload => Sum::default().plus(self.headers.pseudo.into()).word(len).fold(),
        }
    }

    /// With its right checksum, transport and pseudo header add up to nothing; so the transport alone
    /// is what the pseudo header lacks. Spares a second walk over the payload.
    #[inline]
    fn tail(&self, len: u16) -> u16 {
        Sum::default().plus(self.headers.pseudo.into()).word(len).checksum()
    }

    /// Writes all headers around the transport, from the inside out, since outer checksums cover
    /// inner headers. `tail` is the sum of the frame from the transport on.
    #[inline]
    fn write_around(&self, index: u16, cut: &Cut, tail: u16, out: &mut [u8]) {
        let mut innermost = true;
        for fix in self.headers.fixes().iter().rev() {
            let len = (cut.frame_len - u32::from(fix.at)) as u16;
            match fix.kind {
                FixKind::Ipv4 => {
                    let fixed = innermost && self.ids == Ids::Fixed;
                    let id = if fixed { fix.id } else { fix.id.wrapping_add(index * self.per_piece) };
                    write_ipv4(fix, len, id, out);
                }
                FixKind::Ipv6 => put(out, fix.at, 4, len.wrapping_sub(40)),
                FixKind::Pppoe => put(out, fix.at, 4, len.wrapping_sub(6)),
                FixKind::Udp => put(out, fix.at, 4, len),
                FixKind::SummedUdp => {
                    put(out, fix.at, 4, len);
                    let base = Sum::default().plus(fix.base.into()).word(len);
                    let checksum = self.outer_checksum(fix, base, 6, tail, out);
                    put(out, fix.at, 6, if checksum == 0 { 0xffff } else { checksum });
                }
                FixKind::SummedGre => {
                    let checksum = self.outer_checksum(fix, Sum::default(), 4, tail, out);
                    put(out, fix.at, 4, checksum);
                }
            }
            innermost = false;
        }
    }

    /// Checksum of all from `fix` on; its field lies `field` bytes in and counts as 0.
    fn outer_checksum(&self, fix: &Fix, base: Sum, field: u16, tail: u16, out: &mut [u8]) -> u16 {
        put(out, fix.at, field, 0);
        let headers = out.get(fix.at.into()..self.headers.transport_at.into()).unwrap_or_default();
        base.bytes(headers).at(headers.len(), &tail.to_be_bytes()).checksum()
    }
}

impl Cut {
    /// The piece as a discipline takes it.
    #[inline]
    pub fn piece<P>(&self, packet: P, truesize: u32) -> Piece<P> {
        let single = Piece::single(packet, self.frame_len, truesize);
        let mut piece =
            Piece { segs: self.segs, gso_size: self.gso_size, header_len: self.header_len, ..single };
        piece.adjusted = piece.len();
        piece
    }
}

/// Payload bytes per segment.
fn segment_size(headers: &Headers, payload_len: u32, request: &Request) -> Result<u16, Refusal> {
    let around = u32::from(headers.len.saturating_sub(headers.mtu_from));
    let room = request.mtu.saturating_sub(around).min(headers.length_room()) as u16;
    match (headers.transport, request.gso_size) {
        // A datagram that fits is its own only segment.
        (Transport::Udp, 0) if payload_len <= room.into() => Ok((payload_len as u16).max(1)),
        (Transport::Udp, 0) => Err(Refusal::Unmarked),
        (Transport::Udp, size) if size > room => Err(Refusal::SegmentSize),
        _ if room == 0 => Err(Refusal::SegmentSize),
        (_, 0) => Ok(room),
        (_, size) => Ok(size.min(room)),
    }
}

#[inline]
fn write_ipv4(fix: &Fix, len: u16, id: u16, out: &mut [u8]) {
    let checksum = Sum::default().plus(fix.base.into()).word(len).word(id).checksum();
    if let Some(ip) = fixed_mut::<20>(out, fix.at) {
        [ip[2], ip[3]] = len.to_be_bytes();
        [ip[4], ip[5]] = id.to_be_bytes();
        [ip[10], ip[11]] = checksum.to_be_bytes();
    }
}

#[inline(always)]
fn fixed_mut<const N: usize>(out: &mut [u8], at: u16) -> Option<&mut [u8; N]> {
    out.get_mut(usize::from(at)..)?.first_chunk_mut()
}

#[inline(always)]
fn put(out: &mut [u8], at: u16, field: u16, value: u16) {
    if let Some(bytes) = fixed_mut::<2>(out, at + field) {
        *bytes = value.to_be_bytes();
    }
}

/// Longest headers that are repeated in bytes: twice what VXLAN over IPv6 with TCP options takes.
pub const MAX_HEADER_LEN: u16 = 256;
