//! Building one piece: its headers in a buffer of ours, its payload by reference or copied.

use crate::split::offload::Offload;
use dpdk::{Burst, Cursor, Mbuf, MbufError, Mempool};
use shaper::gso::{self, Checksums, Cut, MAX_HEADER_LEN, Plan};
use shaper::wire::checksum::Sum;

/// Builds pieces out of buffers of its own.
#[derive(Debug)]
pub struct Pieces {
    pool: Mempool,
    /// Buffers taken in bulk and not used yet: 8 ns less each than one by one.
    fresh: Burst,
    by_reference: bool,
    /// Memory of one buffer of the pool in bytes.
    truesize: u32,
}

/// One piece.
#[derive(Debug)]
pub struct Built {
    /// The packet, marked for the port where something is left to it.
    pub packet: Mbuf,
    /// Memory that is its own in bytes, not what it shares.
    pub truesize: u32,
}

impl Pieces {
    /// Builds pieces that refer to the payload, or copy it. `pool` is theirs alone: see
    /// [`crate::pool::PieceSum`].
    pub fn new(pool: Mempool, by_reference: bool) -> Self {
        let truesize = u32::from(pool.data_room()) + MBUF_HEADER;
        Self { pool, fresh: Burst::new(), by_reference, truesize }
    }

    /// Whether pieces refer to the payload.
    pub fn by_reference(&self) -> bool {
        self.by_reference
    }

    /// Longest piece that can be built, 65549 bytes or what one buffer holds.
    pub fn max_len(&self) -> u32 {
        if self.by_reference { u32::MAX } else { u32::from(self.pool.data_room()) - HEADROOM }
    }

    /// Gives the buffers back that were taken in advance.
    pub fn release(&mut self) {
        self.fresh.clear();
    }

    /// Builds piece `index`, whose payload `cursor` has come to. `frame` is [`Plan::offload`].
    ///
    /// # Errors
    /// [`MbufError::Exhausted`] if buffers are short. [`MbufError::NoRoom`] if the payload lies in too
    /// many of them, or in more than the port sends in one frame.
    #[inline]
    pub fn build(
        &mut self,
        plan: &Plan<'_>,
        frame: Option<&gso::Offload>,
        port: &Offload,
        index: u16,
        cursor: &mut Cursor<'_>,
    ) -> Result<(Built, Cut), MbufError> {
        let cut = plan.cut(index).ok_or(MbufError::NoRoom)?;
        let frame = frame.filter(|frame| cut.segs > 1 || port.completes(frame));
        let built = if self.by_reference {
            self.refer(plan, &cut, frame.is_some(), index, cursor)?
        } else {
            self.copy(plan, &cut, frame.is_some(), index, cursor)?
        };
        let Built { mut packet, truesize } = built;
        if cut.segs == 1 && packet.nb_segs() > port.max_buffers {
            return Err(MbufError::NoRoom);
        }
        if let Some(frame) = frame {
            port.mark(&mut packet, &cut, frame);
        }
        Ok((Built { packet, truesize }, cut))
    }

    #[inline]
    fn refer(
        &mut self,
        plan: &Plan<'_>,
        cut: &Cut,
        offloaded: bool,
        index: u16,
        cursor: &mut Cursor<'_>,
    ) -> Result<Built, MbufError> {
        let len = cut.payload.end - cut.payload.start;
        // References to all that is left suffice, and those that are not needed serve the next piece: no
        // need to count, unless they are many or the pool is low.
        let left = usize::from(cursor.segments_left());
        let counted = !offloaded || left > RESERVE || self.provide(left + 1).is_err();
        let sum = if counted {
            let (parts, sum) = survey(cursor.clone(), len, !offloaded);
            self.provide(parts + 1)?;
            sum
        } else {
            Sum::default()
        };
        let mut packet = self.fresh.pop().ok_or(MbufError::Exhausted)?;
        let out = packet.append(plan.header_len().into())?;
        plan.write(index, checksums(offloaded, sum), out).ok_or(MbufError::NoRoom)?;
        let parts = cursor.share(len, &mut packet, &mut self.fresh)?;
        Ok(Built { packet, truesize: (u32::from(parts) + 1) * self.truesize })
    }

    #[inline]
    fn copy(
        &mut self,
        plan: &Plan<'_>,
        cut: &Cut,
        offloaded: bool,
        index: u16,
        cursor: &mut Cursor<'_>,
    ) -> Result<Built, MbufError> {
        self.provide(1)?;
        let mut packet = self.fresh.pop().ok_or(MbufError::Exhausted)?;
        let out = packet.append(cut.frame_len as usize)?;
        let (headers, payload) =
            out.split_at_mut_checked(plan.header_len().into()).ok_or(MbufError::NoRoom)?;
        let mut at = 0;
        while let Some(chunk) = cursor.chunk((payload.len() - at) as u32)
            && let Some(to) = payload.get_mut(at..at + chunk.len()).filter(|_| !chunk.is_empty())
        {
            to.copy_from_slice(chunk);
            at += chunk.len();
        }
        let sum = if offloaded { Sum::default() } else { Sum::default().at(0, payload) };
        plan.write(index, checksums(offloaded, sum), headers).ok_or(MbufError::NoRoom)?;
        Ok(Built { packet, truesize: self.truesize })
    }

    /// Sees to it that `count` buffers are at hand: a burst full if the pool has that many.
    #[inline]
    fn provide(&mut self, count: usize) -> Result<(), MbufError> {
        if self.fresh.len() >= count {
            return Ok(());
        }
        if count > Burst::CAPACITY {
            return Err(MbufError::NoRoom);
        }
        let (room, least) = (self.fresh.room(), count - self.fresh.len());
        let bulk = self.pool.alloc_bulk(&mut self.fresh, room);
        bulk.or_else(|_| self.pool.alloc_bulk(&mut self.fresh, least))
    }
}

/// Bytes of all frames of a plan together.
pub(crate) fn wire_bytes(plan: &Plan<'_>) -> u32 {
    plan.payload_len() + u32::from(plan.segs()) * u32::from(plan.header_len())
}

/// The start of a packet, headers and some more: as it lies, or gathered into `copy`.
#[inline]
pub(crate) fn gathered<'a>(packet: &'a Mbuf, copy: &'a mut HeadCopy) -> &'a [u8] {
    let head = packet.head();
    if head.len() >= copy.len() || head.len() == packet.pkt_len() as usize {
        return head;
    }
    let there = packet.read(0, copy);
    copy.get(..there).unwrap_or_default()
}

/// Room for the headers of one packet.
pub(crate) fn head_of() -> HeadCopy {
    [0; HEAD]
}

pub(crate) type HeadCopy = [u8; HEAD];

#[inline]
fn checksums(offloaded: bool, sum: Sum) -> Checksums {
    if offloaded { Checksums::Offload } else { Checksums::Software(sum) }
}

/// In how many buffers the next `len` bytes lie, and their sum if it is asked for.
#[inline]
fn survey(mut cursor: Cursor<'_>, len: u32, summed: bool) -> (usize, Sum) {
    let (mut parts, mut done, mut sum) = (0, 0, Sum::default());
    while done < len
        && let Some(chunk) = cursor.chunk(len - done)
    {
        if summed {
            sum = sum.at(done as usize, chunk);
        }
        done += chunk.len() as u32;
        parts += 1;
    }
    (parts, sum)
}

/// References that are taken in advance without counting how many a piece needs.
const RESERVE: usize = 47;

/// Headers that can be cut, and what the parser may look at behind them.
const HEAD: usize = MAX_HEADER_LEN as usize + 64;

/// Bytes of an mbuf beside its buffer.
const MBUF_HEADER: u32 = 128;

const HEADROOM: u32 = dpdk::mempool::HEADROOM as u32;
